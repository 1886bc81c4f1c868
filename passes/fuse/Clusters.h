// Clusters: what one kernel will compute, while fuse still decides.
//
// Every operation of a region begins as a cluster of its own. Merging keeps the clusters free of
// cycles as long as callers ask `pathThroughOthers` first; `form` makes the groups.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tenon {

/// Bytes of a tensor at its upper bounds, padding left out.
int64_t bytesOf(Type t);
/// Movement that is an index map with bounds; the other modes of pad need kernels of their own.
bool isMovement(const Operation &op);
bool isContraction(const Operation &op);
/// Neither a map nor movement: a cluster has at most one.
bool isAnchor(const Operation &op);

struct Cluster {
  std::vector<unsigned> members; // positions, ascending
  Operation *anchor = nullptr;
  bool movement = false; // holds a movement operation
  bool kernel = false;   // takes part; constants, views and control flow do not
};

class Clusters {
public:
  /// The region must not change before `form`.
  explicit Clusters(Region &region);

  const std::vector<Operation *> &ops() const { return ops_; }
  /// Whether the operation stands in this region, not in one around it (nor nowhere: null).
  bool contains(const Operation *op) const { return op && position_.count(op); }
  unsigned position(const Operation *op) const { return position_.lookup(op); }
  /// Number of the operation's cluster.
  unsigned of(const Operation *op) const { return clusterOf_[position(op)]; }
  /// Whether `op` stands here and becomes a kernel.
  bool takesPart(const Operation *op) const { return contains(op) && clusters_[of(op)].kernel; }
  const Cluster &operator[](unsigned c) const { return clusters_[c]; }

  /// Whether a path leads from cluster `from` to cluster `to` through some third cluster.
  bool pathThroughOthers(unsigned from, unsigned to) const;
  /// Operands that a group of both clusters would have.
  size_t inputs(unsigned a, unsigned b) const;
  /// Whether every use of the cluster's values stands in the cluster itself or in `other`.
  bool feedsOnly(unsigned c, unsigned other) const;
  /// Bytes of traffic that one kernel of both clusters saves for `v`, which one makes and the
  /// other reads.
  int64_t savedBytes(const Value *v, unsigned a, unsigned b) const;

  void merge(unsigned into, unsigned from);
  /// Merges `view`'s cluster, which it has to itself, into `into`; `separate` undoes that.
  struct Merged {
    unsigned into, from;
    Cluster before, alone;
  };
  Merged mergeOnTrial(unsigned into, const Operation &view);
  void separate(Merged merged, const Operation &view);

  /// Wraps each cluster of several members into a group and brings all into an order in which
  /// they can run. False when there is nothing to wrap.
  bool form();

private:
  std::vector<Operation *> ops_;
  llvm::DenseMap<const Operation *, unsigned> position_; // looked up only
  std::vector<unsigned> clusterOf_;
  std::vector<Cluster> clusters_;
};

} // namespace tenon

// Declares tree ensembles as the importers of ai.onnx.ml share them, whichever attributes they
// stand in.
#pragma once

#include "frontend/onnx/Ml.h"

#include <utility>
#include <vector>

namespace tenon::frontend {

enum class Test { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member };
enum class Aggregate { Average, Sum, Min, Max };

struct TreeNode {
  Test test = Test::LessEqual;
  int64_t feature = 0;
  double split = 0;
  bool missingHolds = false;    // where the feature is NaN, the test counts as true
  int64_t holds = 0, fails = 0; // nodes to go on to
  std::vector<double> members;  // of Test::Member
  bool isLeaf = false;
  std::vector<std::pair<int64_t, double>> weights; // of a leaf, by target
};

struct Ensemble {
  std::vector<TreeNode> nodes;
  Ints roots;
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::Sum;
  std::vector<double> base; // by target; empty: none
};

/// The scores [rows, targets] of the rows of operand 0, `base` included; null after an error.
Value *treeScores(Node &n, const Ensemble &e);

} // namespace tenon::frontend

// Defines pattern rewriting: small local rewrites, each with a stable id, applied until none fires.
//
// A pattern looks at one operation. When it matches it asks rewriter.fire(); if that allows it,
// it builds new operations before the matched one and replaces its results, or changes it in
// place. It never erases: what is left without uses is removed by the driver.
#pragma once

#include "passes/Pass.h"

#include "ir/Builder.h"

namespace tenon {

class Rewriter {
public:
  explicit Rewriter(PassContext &context) : context_(context) {}

  /// True when the running pattern may rewrite `op`; counts it. Call once per rewrite, last.
  bool fire(const Operation &op) { return context_.fire(id_, op); }
  /// A builder that inserts before `op` with its location.
  Builder before(Operation &op) { return Builder(&op, context_.diagnostics); }
  /// Replaces all results of `op`; false, and nothing is done, where a value is null, since what
  /// was to make it has failed. Hints move to values that have none; the operations made since get
  /// the location of `op` through the builder.
  bool replace(Operation &op, llvm::ArrayRef<Value *> values);
  PassContext &context() { return context_; }

private:
  friend class PatternDriver;
  PassContext &context_;
  llvm::StringRef id_;
};

struct Pattern {
  llvm::StringRef id;
  bool (*apply)(Operation &op, Rewriter &rewriter);
};

/// Applies the patterns to every structured operation of the graph, nested control flow and
/// groups included, until nothing changes. Removes what became dead.
bool applyPatterns(Graph &graph, PassContext &context, llvm::ArrayRef<Pattern> patterns);

/// No uses, no effect, no terminator, nor is an extent born in it that others mention: may be
/// erased.
bool isDead(const Operation &op);
/// Erases dead operations of the region and nested control flow, users first.
bool eraseDeadOps(Region &region);

/// True for operations that stand at graph level or in groups and control flow, not in bodies.
inline bool isStructured(const Operation &op) { return !(op.info().traits & OpTrait::Scalar); }
/// True where nested regions hold structured operations rather than scalar bodies.
inline bool holdsStructured(const Operation &op) { return op.isAny(Op::If, Op::Loop, Op::Group); }

} // namespace tenon

// Defines Builder: creates operations at an insertion point, with inferred types and a location.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// How one operand of a map or reduce is read: for each operand dimension, the iteration
/// dimension it follows, or −1 where the operand has extent 1 there (broadcast).
using IndexMap = Ints;
IndexMap identityMap(unsigned rank);
/// NumPy broadcasting of `operand` against an iteration space of the given rank: dimensions are
/// aligned at the right; extents of 1 against anything else become −1.
IndexMap broadcastMap(Type operand, llvm::ArrayRef<Dim> space);
/// NumPy broadcast shape; false when the shapes do not fit.
bool broadcastShapes(llvm::ArrayRef<llvm::ArrayRef<Dim>> shapes, llvm::SmallVectorImpl<Dim> &out);

class Builder {
public:
  /// Inserts at the end of `region`.
  Builder(Region &region, Diagnostics &diagnostics);
  /// Inserts before `where`.
  Builder(Operation *where, Diagnostics &diagnostics);

  Context &context() const { return context_; }
  Diagnostics &diagnostics() const { return diagnostics_; }
  /// Location given to everything created from now on.
  Location location;

  /// Creates an operation of known result count with inferred types; null after an error, which
  /// is reported. Regions are built by `body(regionIndex, region)` before types are inferred.
  Operation *create(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {},
                    unsigned regions = 0,
                    llvm::function_ref<void(unsigned, Region &)> body = nullptr);
  /// As create, for one result; null after an error.
  Value *value(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {});

  Value *constant(Literal literal, llvm::StringRef hint = "");
  Value *constant(const Tensor &tensor, llvm::StringRef hint = "");
  /// Rank-0 constant.
  Value *scalarConstant(Element e, double v);

  /// Pointwise op over the NumPy broadcast of the operands: `body` receives a builder inside the
  /// region and the scalar arguments and returns the scalars to yield.
  using Body =
      llvm::function_ref<llvm::SmallVector<Value *, 2>(Builder &, llvm::ArrayRef<Value *>)>;
  Operation *map(llvm::ArrayRef<Value *> operands, Body body);
  /// Same with explicit iteration space and index maps.
  Operation *map(llvm::ArrayRef<Value *> operands, llvm::ArrayRef<IndexMap> maps,
                 llvm::ArrayRef<Dim> space, Body body);
  /// map whose body is one scalar function of the operands in order.
  Value *pointwise(Op scalar, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {});
  Value *cast(Value *v, Element to);
  /// Broadcasts `v` to `shape` (NumPy rules).
  Value *broadcastTo(Value *v, llvm::ArrayRef<Dim> shape);

  /// Reduces `axes` away with a combiner of one scalar function (add, mul, min, max…).
  Value *reduce(Op combiner, Value *v, llvm::ArrayRef<int64_t> axes, double identity);

  /// Running folds along `axis` with a combiner of one scalar function.
  Operation *scan(Op combiner, Value *v, int64_t axis, double identity, bool exclusive,
                  bool reverse);

  Value *reshape(Value *v, llvm::ArrayRef<Dim> shape);
  Value *transpose(Value *v, llvm::ArrayRef<int64_t> perm);

  /// Scalars inside a body.
  Value *scalar(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {});
  Value *scalarConst(Element e, double v);
  Value *scalarInt(Element e, int64_t v);
  void yield(llvm::ArrayRef<Value *> values, Op terminator = Op::Yield);

private:
  void insert(Operation *op);
  Context &context_;
  Diagnostics &diagnostics_;
  Region *region_;
  Operation *before_ = nullptr;
};

/// Runs the op's type inference. False with a message on error.
bool inferTypes(const Operation &op, llvm::SmallVectorImpl<Type> &types, std::string &error);

/// What is known of a small integer tensor's value at compile time, through shape_of, gather,
/// concat, slices, reshapes and integer arithmetic (value inference; rewrites nothing). Row-major
/// elements; None when any is unknown or the tensor has more than 4096 elements.
llvm::Optional<llvm::SmallVector<Dim, 6>> inferValue(Value *v);

} // namespace tenon

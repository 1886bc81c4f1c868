// Defines BodyWriter: the scalar functions of a body as operators over whole tensors.
#pragma once

#include "exporter/Writer.h"

#include "ir/Builder.h"

namespace tenon::exporter {

using Space = llvm::SmallVector<Dim, 6>;
Space spaceOf(const Operation &mapOrReduce);

/// A scalar of a body, as a tensor that broadcasts to the iteration space.
struct Spread {
  std::string name;
  Element element = Element::F32;
  /// Trailing dimensions of the space that the tensor has.
  unsigned rank = 0;
  /// By dimension of the space: whether the tensor has its extent, not 1.
  llvm::SmallVector<bool, 6> follows;
  /// A constant of the body.
  llvm::Optional<Tensor> constant;
  /// Of an operand as it is, which has no name in the space's dimensions before it is asked for:
  /// the operand and its index map.
  Value *operand = nullptr;
  IndexMap map;
};

class BodyWriter {
public:
  BodyWriter(Writer &w, llvm::ArrayRef<Dim> space) : w_(w), space_(space.begin(), space.end()) {}

  /// An operand as the index map reads it.
  Spread read(Value *operand, const IndexMap &map);
  void set(const Value *argument, Spread s) { known_[argument] = std::move(s); }
  /// A tensor that has all of the space's dimensions.
  Spread whole(std::string name, Element e) const;
  /// Positions along what the body calls dimension `dim`: those of the space's dimension of this
  /// number, unless others are set, or those of another.
  void setIndex(int64_t dim, Spread s) { indices_[dim] = std::move(s); }
  void setIndexFrom(int64_t dim, int64_t spaceDim) { indices_[dim] = positions(spaceDim); }

  /// What scalar `v` is; writes what it takes. Empty names after a refusal.
  Spread of(Value *v);
  /// The same with every extent of the space.
  std::string filled(const Spread &s);

private:
  std::string named(const Spread &s);
  std::string placed(const Spread &s);
  Spread lower(Operation &op);
  Spread arithmetic(Operation &op);
  Spread compare(Operation &op);
  Spread bits(Operation &op);
  Spread shift(Operation &op);
  Spread select(const Spread &c, const Spread &a, const Spread &b);
  Spread convert(const Spread &x, Element to);
  Spread quantize(Operation &op);
  Spread dequantize(Operation &op);
  Spread lookup(Operation &op);
  Spread index(int64_t dim);
  Spread positions(int64_t spaceDim);
  Spread biased(Operation &add);

  Spread constant(Tensor t);
  Spread constant(Element e, double v) { return constant(Tensor::scalar(e, v)); }
  Spread apply(llvm::StringRef type, llvm::ArrayRef<Spread> operands, Element result,
               const Attributes &attributes = {});
  Spread as(const Spread &s, Element e);
  Spread floorRemainder(const Spread &a, const Spread &b, Element e);
  Spread power(const Spread &exponent);
  Spread floorQuotient(const Spread &a, const Spread &b);
  /// Scale and zero point as (De)QuantizeLinear takes them beside `x`; false where it does not.
  bool parameters(const Spread &x, const Spread &scale, const Spread &zero, Names &inputs,
                  Attributes &attributes);

  Writer &w_;
  Space space_;
  llvm::DenseMap<const Value *, Spread> known_; // looked up only
  std::map<int64_t, Spread> indices_;
  std::map<std::pair<const Value *, IndexMap>, std::string> placed_; // looked up only
};

} // namespace tenon::exporter

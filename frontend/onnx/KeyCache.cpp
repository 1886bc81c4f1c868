// Stores rows of keys and values in the forms that GroupQueryAttention's caches have, and reads
// them.
#include "frontend/onnx/KeyCache.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

CacheFormat::CacheFormat(Node &n, unsigned cache, unsigned scale, const char *quantType,
                         int64_t size)
    : n_(n), size_(size), element_(n.has(cache) ? n.element(cache) : n.element(0)) {
  const std::string kind = n.stringAttr(quantType, "NONE");
  if (kind == "NONE") {
    valid_ = !n.has(cache) || element_ == n.element(0) ||
             fail(std::string("expected a cache of the queries' type where ") + quantType +
                  " is NONE, found " + toString(n.type(cache)));
    return;
  }
  if (kind != "PER_TENSOR" && kind != "PER_CHANNEL") {
    fail(std::string("attribute ") + quantType +
         ": expected NONE, PER_TENSOR or PER_CHANNEL, found " + kind);
    return;
  }
  if (!n.has(cache) || n.rank(cache) != 4 || !n.has(scale)) {
    fail(std::string("expected a cache of rank 4 and its scale where ") + quantType + " is " +
         kind);
    return;
  }
  bits_ = isFloat(element_) ? 0 : n.intAttr("kv_cache_bit_width", 8);
  const bool fits = bits_ == 0   ? element_ == Element::F8E4M3
                    : bits_ == 8 ? element_ == Element::I8
                                 : bits_ == 4 && element_ == Element::U8 && size % 2 == 0;
  if (!fits) {
    fail("expected a quantised cache of int8, of uint8 where kv_cache_bit_width is 4 and heads "
         "have an even "
         "size, or of float8e4m3fn, found " +
         toString(n.type(cache)));
    return;
  }
  const Dim heads = n.type(cache).dim(1);
  const bool perChannel = kind == "PER_CHANNEL";
  const Dim expected = perChannel ? heads * size : n.dim(1);
  if (n.type(scale).elements() != expected) {
    fail("operand " + n.inputName(scale) + ": expected " +
         (perChannel ? "a scale per channel" : "one scale") + " of " + toString(n.type(cache)) +
         ", found " + toString(n.type(scale)));
    return;
  }
  scale_ =
      n.b.reshape(n.input(scale), {perChannel ? heads : n.dim(1), n.dim(perChannel ? size : 1)});
  valid_ = scale_ != nullptr;
}

bool CacheFormat::fail(const std::string &what) {
  n_.error(what);
  return false;
}

Value *CacheFormat::scaled(Op op, Value *x) const {
  const Type t = scale_->type();
  auto place = [&](unsigned d, int64_t axis) {
    return t.dim(d).isConstant(1) ? int64_t(-1) : axis;
  };
  return pointwise(n_.b, {n_.b.cast(x, Element::F32), scale_},
                   {identityMap(4), IndexMap{place(0, 1), place(1, 3)}}, x->type().shape(),
                   [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     return s(op, a[0], s.cast(a[1], Element::F32));
                   });
}

Value *CacheFormat::store(Value *rows) const {
  if (!rows || !quantised())
    return rows;
  Value *units = scaled(Op::Div, rows);
  if (!units)
    return nullptr;
  if (bits_ == 0)
    return pointwise(n_.b, {units}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return castNarrow(s, a[0], element_, true);
    });
  const int64_t bound = int64_t(1) << (bits_ - 1);
  auto steps = [&](Scalars &s, Value *v) {
    return s(Op::Clamp, s(Op::Round, v), s.c(double(-bound)), s.c(double(bound - 1)));
  };
  if (bits_ == 8)
    return pointwise(n_.b, {units}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s.cast(steps(s, a[0]), element_);
    });
  Value *half[2];
  for (int64_t i : {0, 1})
    if (!(half[i] = sliceAlong(n_.b, units, 3, n_.dim(i), n_.dim(size_ / 2), 2)))
      return nullptr;
  return pointwise(n_.b, {half[0], half[1]}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    auto nibble = [&](Value *v) { return s(Op::Add, steps(s, v), s.c(double(bound))); };
    return s.cast(s(Op::Add, nibble(a[0]), s(Op::Mul, nibble(a[1]), s.c(16))), element_);
  });
}

Value *CacheFormat::load(Value *stored, Element type) const {
  if (!stored || !quantised())
    return stored;
  if (bits_ == 4) {
    Dims space(stored->type().shape().begin(), stored->type().shape().end());
    space.push_back(n_.dim(2));
    stored = pointwise(n_.b, {stored}, {identityMap(4)}, space,
                       [](Scalars &s, llvm::ArrayRef<Value *> a) {
                         Value *byte = s.cast(a[0], Element::I32);
                         Value *high = s(Op::Div, byte, s.c(Element::I32, 16));
                         Value *low = s(Op::Sub, byte, s(Op::Mul, high, s.c(Element::I32, 16)));
                         Value *odd = s(Op::Equal, s.index(4), s.c(Element::I64, 1));
                         return s(Op::Sub, s(Op::Select, odd, high, low), s.c(Element::I32, 8));
                       });
    space.pop_back();
    space.back() = n_.dim(size_);
    stored = stored ? n_.b.reshape(stored, space) : nullptr;
  }
  Value *real = stored ? scaled(Op::Mul, stored) : nullptr;
  return real ? n_.b.cast(real, type) : nullptr;
}

Value *CacheRows::kept(Scalars &s, Value *count) const {
  auto c = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
  const int64_t step = *capacity - window + 1;
  Value *over = s(Op::Relu, s(Op::Sub, count, c(*capacity)));
  Value *evictions = s(Op::Div, s(Op::Add, over, c(step - 1)), c(step));
  return s(Op::Sub, count, s(Op::Mul, evictions, c(step)));
}

} // namespace tenon::frontend

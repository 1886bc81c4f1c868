// Imports operators that draw random numbers, Dropout among them, by a generator that counts
// (docs/random.md): every number is a function of the node's key, the number of the run, and the
// place of the element, so all targets draw the same ones in any order.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include <cmath>
#include <cstring>

namespace tenon::frontend {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15, kFirst = 0xbf58476d1ce4e5b9,
                   kSecond = 0x94d049bb133111eb;

Value *word(Scalars &s, uint64_t v) { return s.b.scalarInt(Element::U64, int64_t(v)); }

/// The finaliser of SplitMix64: 64 bits that depend on all bits of z.
Value *mixed(Scalars &s, Value *z) {
  auto folded = [&](Value *v, uint64_t shift) {
    return s(Op::BitXor, v, s(Op::ShiftRight, v, word(s, shift)));
  };
  z = s(Op::Mul, folded(z, 30), word(s, kFirst));
  z = s(Op::Mul, folded(z, 27), word(s, kSecond));
  return folded(z, 31);
}
uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * kFirst;
  z = (z ^ (z >> 27)) * kSecond;
  return z ^ (z >> 31);
}

/// What tells the numbers of this node from those of others: the attribute seed, else its id; and
/// how often the node has been imported, in functions and unrolled loops.
uint64_t keyOf(Node &n) {
  uint64_t key;
  if (n.hasAttr("seed") && n.op() == "Dropout") { // an integer there
    key = uint64_t(n.intAttr("seed", 0));
  } else if (n.hasAttr("seed")) {
    const auto seed = float(n.floatAttr("seed", 0));
    uint32_t bits;
    memcpy(&bits, &seed, sizeof bits);
    key = bits;
  } else {
    key = 0xcbf29ce484222325; // FNV-1a
    for (char c : n.id)
      key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return mixed(key + kStep * n.graph.state.draws[&n.proto]++);
}

/// Draws for the elements of `shape`: `body` makes each from 64 random bits and the elements of
/// `operands`, which have that shape or rank 0. Null after an error.
Value *draw(Node &n, llvm::ArrayRef<Dim> shape, llvm::ArrayRef<Value *> operands,
            llvm::function_ref<Value *(Scalars &, Value *bits, llvm::ArrayRef<Value *>)> body) {
  const auto run = n.graph.find(kRandomRun);
  if (!run || !run->tensor())
    return n.error("random numbers are not supported here");
  const Dim count = product(n.context(), shape);
  llvm::SmallVector<Value *, 4> all{run->tensor()};
  std::vector<IndexMap> maps{{}};
  for (Value *v : operands) {
    const bool each = v->type().rank() > 0;
    all.push_back(each ? n.b.reshape(v, {count}) : v);
    maps.push_back(each ? IndexMap{0} : IndexMap{});
    if (!all.back())
      return nullptr;
  }
  const uint64_t key = keyOf(n);
  Value *flat = pointwise(n.b, all, maps, {count}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *start = mixed(s, s(Op::Add, s(Op::Mul, a[0], word(s, kStep)), word(s, key)));
    Value *place = s(Op::Add, s.cast(s.index(0), Element::U64), word(s, 1));
    return body(s, mixed(s, s(Op::Add, start, s(Op::Mul, place, word(s, kStep)))), a.drop_front());
  });
  return flat ? n.b.reshape(flat, shape) : nullptr;
}

/// Bits of a significand, so that no number below 1 is rounded to 1.
unsigned precision(Element e) {
  switch (e) {
  case Element::F64: return 53;
  case Element::F16: return 11;
  case Element::BF16: return 8;
  default: return 24;
  }
}

/// A number in [0, 1) as f64, exact in `e`: the leading bits.
Value *unit(Scalars &s, Value *bits, Element e) {
  const unsigned kept = precision(e);
  Value *whole = s.cast(s(Op::ShiftRight, bits, word(s, 64 - kept)), Element::F64);
  return s(Op::Mul, whole, s.c(Element::F64, std::ldexp(1, -int(kept))));
}

/// The element type that a result is asked to have; None after an error.
llvm::Optional<Element> drawnType(Node &n, Element otherwise) {
  auto e = n.elementAttr("dtype", otherwise);
  if (e && !isFloat(*e)) {
    n.error("attribute dtype: expected a floating-point type, found " + name(*e).str());
    return llvm::None;
  }
  return e;
}

void uniform(Node &n, llvm::ArrayRef<Dim> shape, Element otherwise) {
  const double low = n.floatAttr("low", 0), high = n.floatAttr("high", 1);
  if (auto e = drawnType(n, otherwise))
    n.set(0, draw(n, shape, {}, [&](Scalars &s, Value *bits, llvm::ArrayRef<Value *>) {
            return s.cast(s(Op::Fma, unit(s, bits, *e), s.c(Element::F64, high - low),
                            s.c(Element::F64, low)),
                          *e);
          }));
}

void normal(Node &n, llvm::ArrayRef<Dim> shape, Element otherwise) {
  const double mean = n.floatAttr("mean", 0), scale = n.floatAttr("scale", 1);
  // Box and Muller: the upper half of the bits is the radius, the lower half the angle.
  if (auto e = drawnType(n, otherwise))
    n.set(0, draw(n, shape, {}, [&](Scalars &s, Value *bits, llvm::ArrayRef<Value *>) {
            auto half = [&](Value *v) { // in (0, 1]
              return s(Op::Mul, s.cast(s(Op::Add, v, word(s, 1)), Element::F64),
                       s.c(Element::F64, 0x1p-32));
            };
            Value *radius = half(s(Op::ShiftRight, bits, word(s, 32)));
            Value *angle = half(s(Op::BitAnd, bits, word(s, 0xffffffff)));
            radius = s(Op::Sqrt, s(Op::Mul, s(Op::Log, radius), s.c(Element::F64, -2)));
            angle = s(Op::Cos, s(Op::Mul, angle, s.c(Element::F64, 2 * M_PI)));
            return s.cast(s(Op::Fma, s(Op::Mul, radius, angle), s.c(Element::F64, scale),
                            s.c(Element::F64, mean)),
                          *e);
          }));
}

/// The extents in the attribute shape; None after an error.
llvm::Optional<Shape> shapeAttr(Node &n) {
  Shape shape;
  for (int64_t extent : n.intsAttr("shape")) {
    if (extent < 0) {
      n.error("attribute shape: expected extents of at least 0, found " + std::to_string(extent));
      return llvm::None;
    }
    shape.push_back(n.dim(extent));
  }
  if (!n.hasAttr("shape")) {
    n.error("attribute shape is missing: expected it in this operator; write it");
    return llvm::None;
  }
  return shape;
}

/// Operand i as one number of rank 0; null after an error.
Value *number(Node &n, unsigned i) {
  if (n.type(i).elements().isConstant(1))
    return n.b.reshape(n.input(i), {});
  return n.error("operand " + n.inputName(i) + ": expected one number, found " +
                 toString(n.type(i)));
}

} // namespace

Value *runOfIteration(Builder &b, Value *run, Value *iteration) {
  return pointwise(b, {run, iteration}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *count = s(Op::Add, s.cast(a[1], Element::U64), word(s, 1));
    return mixed(s, s(Op::Add, a[0], s(Op::Mul, count, word(s, kFirst))));
  });
}

bool drawsNumbers(const onnx::NodeProto &node) {
  if (!canonicalDomain(node.domain()).empty())
    return false;
  for (const char *op : {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                         "Bernoulli", "Multinomial"})
    if (node.op_type() == op)
      return true;
  return node.op_type() == "Dropout" && node.input_size() > 2 && !node.input(2).empty();
}

void importRandomUniform(Node &n) {
  if (auto shape = shapeAttr(n))
    uniform(n, *shape, Element::F32);
}
void importRandomNormal(Node &n) {
  if (auto shape = shapeAttr(n))
    normal(n, *shape, Element::F32);
}
void importRandomUniformLike(Node &n) { uniform(n, n.type(0).shape(), n.element(0)); }
void importRandomNormalLike(Node &n) { normal(n, n.type(0).shape(), n.element(0)); }

void importBernoulli(Node &n) {
  auto e = n.elementAttr("dtype", n.element(0));
  if (!e || !n.checkFloat(0))
    return;
  // Probabilities are numbers to compare with, whatever their precision.
  Value *p = n.b.cast(n.input(0), Element::F64);
  const Type t = n.type(0);
  if (p)
    n.set(0, draw(n, t.shape(), {t.rank() ? p : n.b.reshape(p, {n.dim(1)})},
                  [&](Scalars &s, Value *bits, llvm::ArrayRef<Value *> a) {
                    return s.cast(s(Op::Less, unit(s, bits, Element::F64), a[0]), *e);
                  }));
}

void importMultinomial(Node &n) {
  // Of the classes that share a line, the one in which a random point of it falls.
  auto e = n.elementAttr("dtype", Element::I32);
  const int64_t samples = n.intAttr("sample_size", 1);
  if (!e || !n.checkRank(0, 2, 2) || !n.checkFloat(0))
    return;
  if ((*e != Element::I32 && *e != Element::I64) || samples < 1) {
    n.error("expected i32 or i64 in attribute dtype and a positive sample_size, found " +
            name(*e).str() + " and " + std::to_string(samples));
    return;
  }
  const Dim rows = n.type(0).dim(0), classes = n.type(0).dim(1);
  Value *chances = n.b.cast(n.input(0), Element::F64);
  chances = chances ? n.b.value(Op::Softmax, {chances}, {{"axis", int64_t(1)}}) : nullptr;
  // ends[r, c]: where class c ends on the line of row r.
  Value *upTo = chances ? pointwise(n.b, {chances}, {{0, 2}}, {rows, classes, classes},
                                    [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                      return s(Op::Select, s(Op::LessEqual, s.index(2), s.index(1)),
                                               a[0], s.c(0));
                                    })
                        : nullptr;
  Value *ends = upTo ? sum(n.b, upTo, {2}) : nullptr;
  Value *points =
      draw(n, {rows, n.dim(samples)}, {}, [](Scalars &s, Value *bits, llvm::ArrayRef<Value *>) {
        return unit(s, bits, Element::F64);
      });
  if (!ends || !points)
    return;
  // Rounding may end the line below 1: its rest belongs to the last class.
  Value *passed = pointwise(
      n.b, {points, ends}, {{0, 1}, {0, 2}}, {rows, n.dim(samples), classes},
      [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *last =
            s.b.scalarInt(Element::I64, classes.isConstant() ? classes.constant() - 1 : INT64_MAX);
        return s.cast(
            s(Op::LogicalAnd, s(Op::GreaterEqual, a[0], a[1]), s(Op::Less, s.index(2), last)), *e);
      });
  n.set(0, passed ? sum(n.b, passed, {2}) : nullptr);
}

namespace {

/// Dropout whose operand training_mode is not known to be false.
void dropoutInTraining(Node &n, bool always) {
  enum { X, Ratio, Training };
  Value *ratio = n.has(Ratio) ? number(n, Ratio) : n.b.scalarConstant(Element::F32, 0.5);
  ratio = ratio ? n.b.cast(ratio, Element::F64) : nullptr;
  if (ratio && !always) { // nothing is dropped at a ratio of 0
    Value *training = number(n, Training);
    ratio = training ? pointwise(n.b, {ratio, training},
                                 [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                   return s(Op::Select, s.cast(a[1], Element::Bool), a[0], s.c(0));
                                 })
                     : nullptr;
  }
  const Type t = n.type(X);
  if (!ratio || !n.checkFloat(X))
    return;
  Value *mask = draw(n, t.shape(), {ratio}, [](Scalars &s, Value *bits, llvm::ArrayRef<Value *> a) {
    return s(Op::GreaterEqual, unit(s, bits, Element::F64), a[0]);
  });
  if (!mask)
    return;
  n.set(0, pointwise(n.b, {n.input(X), mask, ratio}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *kept =
              s(Op::Div, s.cast(a[0], Element::F64), s(Op::Sub, s.c(Element::F64, 1), a[2]));
          return s(Op::Select, a[1], s.cast(kept, t.element()), s.c(0));
        }));
  if (n.wants(1))
    n.set(1, mask);
}

} // namespace

void importDropout(Node &n) {
  enum { X, Ratio, Training };
  if (n.opset >= 12 && n.has(Training)) {
    const auto training = n.knownOperand(Training);
    const auto ratio = n.has(Ratio) ? n.knownOperand(Ratio) : llvm::None;
    const bool drops = !ratio || ratio->size() != 1 || ratio->at(0) != 0;
    const bool trains = !training || training->size() != 1 || training->intAt(0) != 0;
    if (trains && drops)
      return dropoutInTraining(n, training.hasValue());
  }
  n.set(0, n.input(X));
  if (n.wants(1)) // the mask keeps everything; older opsets give it the type of the data
    n.set(1, n.b.broadcastTo(n.b.scalarConstant(n.opset < 10 ? n.element(X) : Element::Bool, 1),
                             n.type(X).shape()));
}

} // namespace tenon::frontend

// Imports operators about extents and those that make tensors from few numbers: constants, ranges,
// windows, triangular masks, filter banks.
#include "frontend/onnx/Operators.h"

#include "frontend/GraphImporter.h"

#include <cmath>

namespace tenon::frontend {

//===----------------------------------------------------------------------===//
// Extents
//===----------------------------------------------------------------------===//

void importShape(Node &n) {
  const int64_t rank = n.rank(0);
  auto clamped = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = n.opset < 15 ? 0 : clamped(n.intAttr("start", 0));
  const int64_t end = n.opset < 15 ? rank : clamped(n.intAttr("end", rank));
  Value *shape = n.b.value(Op::ShapeOf, {n.input(0)});
  if (start == 0 && end == rank)
    n.set(0, shape);
  else
    n.set(0, sliceAlong(n.b, shape, 0, n.dim(start), n.dim(std::max<int64_t>(0, end - start)), 1));
}

void importSize(Node &n) {
  // The only extent of the flattened operand.
  Value *flat = n.b.reshape(n.input(0), {n.type(0).elements()});
  n.set(0, n.b.reshape(n.b.value(Op::ShapeOf, {flat}), {}));
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

void importConstant(Node &n) {
  llvm::Optional<Tensor> t;
  if (n.hasAttr("value")) {
    t = n.tensorAttr("value");
  } else if (const onnx::AttributeProto *sparse = n.attr("sparse_value")) {
    std::string error;
    t = toTensor(sparse->sparse_tensor(), n.graph.state.folder, error);
    if (!t)
      n.error(error);
  } else if (n.hasAttr("value_int")) {
    t = Tensor::fromInts({n.intAttr("value_int", 0)}).reshaped({});
  } else if (n.hasAttr("value_ints")) {
    t = Tensor::fromInts(n.intsAttr("value_ints"));
  } else if (n.hasAttr("value_float")) {
    t = Tensor::scalar(Element::F32, n.floatAttr("value_float", 0));
  } else if (n.hasAttr("value_floats")) {
    const Floats values = n.floatsAttr("value_floats");
    t = Tensor(Element::F32, {int64_t(values.size())});
    for (size_t i = 0; i < values.size(); ++i)
      t->set(int64_t(i), values[i]);
  } else if (n.hasAttr("value_string")) {
    t = Tensor::strings({}, {n.stringAttr("value_string", "")});
  } else if (n.hasAttr("value_strings")) {
    Strings values = n.stringsAttr("value_strings");
    const int64_t count = int64_t(values.size());
    t = Tensor::strings({count}, std::move(values));
  } else {
    n.error("expected one of the attributes value, sparse_value, value_int, value_ints, "
            "value_float, value_floats, value_string, value_strings");
  }
  if (t)
    n.set(0, n.b.constant(*t));
}

void importConstantOfShape(Node &n) {
  auto shape = n.shapeOperand(0);
  if (!shape)
    return;
  for (Dim d : *shape)
    if (d.upper() < 0) {
      n.error("shape [" + text(*shape, ", ") + "] has a negative extent");
      return;
    }
  Tensor fill = Tensor::scalar(Element::F32, 0);
  if (n.hasAttr("value")) {
    auto given = n.tensorAttr("value");
    if (!given)
      return;
    if (given->size() != 1) {
      n.error("attribute value: expected one element, found " + std::to_string(given->size()));
      return;
    }
    fill = given->reshaped({});
  }
  n.set(0, n.b.broadcastTo(n.b.constant(fill), *shape));
}

namespace {

llvm::Optional<Dim> countOfIntegers(Node &n) {
  Dim v[3] = {{}, {}, n.dim(1)};
  for (unsigned i = 0; i < 3 && n.has(i); ++i) {
    auto known = n.shapeOperand(i);
    if (!known)
      return llvm::None;
    if (known->size() != 1) {
      n.error("operand " + n.inputName(i) + ": expected one number");
      return llvm::None;
    }
    v[i] = (*known)[0];
  }
  const int64_t delta = v[2].isConstant() ? v[2].constant() : 0;
  if (delta == 0 || delta == INT64_MIN) {
    n.error("delta: expected a known number other than 0, found " + text({v[2]}, "") +
            "; bind the input that it is computed from with --bind NAME=@FILE");
    return llvm::None;
  }
  return max(delta > 0 ? ceilDiv(v[1] - v[0], delta) : ceilDiv(v[0] - v[1], -delta), n.dim(0));
}

/// Numbers that are known, or whole and known as extents: start, limit and delta are multiples of
/// one power of 2, and so many of them.
llvm::Optional<Dim> countOfFloats(Node &n) {
  constexpr int kMostBits = 24;
  double v[3] = {0, 0, 1};
  Dim open[3];
  int bits = 0;
  for (unsigned i = 0; i < 3 && n.has(i); ++i) {
    if (auto known = n.knownOperand(i)) {
      v[i] = known->size() == 1 ? known->at(0) : NAN;
      for (double x = v[i]; bits <= kMostBits && std::isfinite(x); ++bits)
        if (const double scaled = std::ldexp(x, bits); scaled == std::trunc(scaled))
          break;
      continue;
    }
    auto extents = inferValue(n.input(i));
    if (!extents || extents->size() != 1 || i == 2) {
      n.constantOperand(i); // says what is missing
      return llvm::None;
    }
    open[i] = (*extents)[0];
  }
  if (!open[0] && !open[1]) {
    const double steps = std::ceil((v[1] - v[0]) / v[2]);
    if (steps < 1e12) // false for what is no number
      return n.dim(int64_t(std::max(0.0, steps)));
    n.error("start, limit and delta give no finite range");
    return llvm::None;
  }
  Dim scaled[3];
  for (unsigned i = 0; i < 3; ++i) {
    const double x = open[i] ? 0 : std::ldexp(v[i], bits);
    if (!(std::fabs(x) < 1e12) || x != std::trunc(x) || (i == 2 && x == 0)) {
      n.error("operand " + n.inputName(i) +
              ": expected a number of few binary digits beside a symbolic dimension" +
              (i == 2 ? ", other than 0" : "") + ", found " + std::to_string(v[i]) +
              "; give the symbol a value with --bind");
      return llvm::None;
    }
    scaled[i] = open[i] ? open[i] * (int64_t(1) << bits) : n.dim(int64_t(x));
  }
  const int64_t delta = scaled[2].constant();
  const Dim way = scaled[1] - scaled[0];
  return max(delta > 0 ? ceilDiv(way, delta) : ceilDiv(way * -1, -delta), n.dim(0));
}

} // namespace

void importRange(Node &n) {
  const Element e = n.element(0); // com.microsoft: without delta, in steps of 1
  if (n.element(1) != e || (n.has(2) && n.element(2) != e)) {
    n.error("expected start, limit and delta of one type, found " + toString(n.type(0)) + ", " +
            toString(n.type(1)) + (n.has(2) ? " and " + toString(n.type(2)) : ""));
    return;
  }
  auto count = isInteger(e) ? countOfIntegers(n) : countOfFloats(n);
  if (!count)
    return;
  auto scalar = [&](unsigned i) { return n.b.reshape(n.input(i), {}); };
  n.set(0, pointwise(n.b, {scalar(0), n.has(2) ? scalar(2) : n.b.scalarConstant(e, 1)}, {{}, {}},
                     {*count}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       return s(Op::Add, a[0], s(Op::Mul, s.cast(s.index(0), e), a[1]));
                     }));
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

void importMelWeightMatrix(Node &n) {
  // Triangles over the bins of a spectrum whose corners lie evenly on the mel scale.
  enum { Bands, Length, Rate, Lower, Upper };
  constexpr double kMost = 1 << 24;
  double v[5];
  for (unsigned i : {Bands, Length, Rate, Lower, Upper}) {
    auto known = n.constantOperand(i);
    if (!known)
      return;
    v[i] = known->size() == 1 ? known->at(0) : NAN;
  }
  auto e = n.elementAttr("output_datatype", Element::F32);
  if (!e)
    return;
  if (!(v[Bands] >= 1 && v[Length] >= 1 && v[Bands] * v[Length] <= kMost && v[Rate] >= 1 &&
        v[Lower] >= 0 && v[Upper] >= v[Lower])) {
    n.error("expected one number each: positive bands, length and sample rate, rising edges");
    return;
  }
  const auto bands = int64_t(v[Bands]), length = int64_t(v[Length]), bins = length / 2 + 1;
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(v[Lower]), step = (mel(v[Upper]) - low) / double(bands + 2);
  auto corner = [&](int64_t k) { // a bin
    const double hertz = 700 * (std::pow(10, (low + double(k) * step) / 2595) - 1);
    return std::floor(double(length + 1) * hertz / v[Rate]);
  };
  if (!(corner(bands + 1) <= double(bins))) {
    n.error("upper_edge_hertz is beyond half of the sample rate");
    return;
  }
  Tensor weights(*e, {bins, bands});
  for (int64_t band = 0; band < bands; ++band) {
    const double left = corner(band), top = corner(band + 1), right = corner(band + 2);
    for (int64_t bin = 0; bin < bins; ++bin) {
      const auto at = double(bin);
      if (at >= left && at <= top)
        weights.set(bin * bands + band, top > left ? (at - left) / (top - left) : 1);
      else if (at > top && at < right)
        weights.set(bin * bands + band, (right - at) / (right - top));
    }
  }
  n.set(0, n.b.constant(weights));
}

void importEyeLike(Node &n) {
  auto e = n.elementAttr("dtype", n.element(0));
  if (!e || !n.checkRank(0, 2, 2))
    return;
  const int64_t k = n.intAttr("k", 0);
  n.set(0, generate(n.b, *e, n.type(0).shape(), [&](Scalars &s, llvm::ArrayRef<Value *>) {
          Value *diagonal = s(Op::Add, s.index(0), s.b.scalarInt(Element::I64, k));
          return s.cast(s(Op::Equal, s.index(1), diagonal), *e);
        }));
}

void importTrilu(Node &n) {
  if (!n.checkRank(0, 2))
    return;
  const bool upper = n.boolAttr("upper", true);
  const unsigned row = n.rank(0) - 2, column = row + 1;
  llvm::SmallVector<Value *, 2> operands{n.input(0)};
  std::vector<IndexMap> maps{identityMap(n.rank(0))};
  if (n.has(1)) {
    if (n.element(1) != Element::I64 || !n.type(1).elements().isConstant(1)) {
      n.error("operand " + n.inputName(1) + ": expected one i64, found " + toString(n.type(1)));
      return;
    }
    operands.push_back(n.b.reshape(n.input(1), {}));
    maps.push_back({});
  }
  n.set(
      0,
      pointwise(n.b, operands, maps, n.type(0).shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *diagonal = a.size() > 1 ? s(Op::Add, s.index(row), a[1]) : s.index(row);
        Value *keep = s(upper ? Op::GreaterEqual : Op::LessEqual, s.index(column), diagonal);
        return s(Op::Select, keep, a[0], s.c(0));
      }));
}

namespace {
/// Σ cₖ · cos(2πk · i / N) over i, with alternating signs; N = size or size − 1.
void cosineWindow(Node &n, llvm::ArrayRef<double> terms) {
  auto size = n.intsOperand(0);
  auto e = n.elementAttr("output_datatype", Element::F32);
  if (!size || !e)
    return;
  if (size->size() != 1 || size->front() < 0) {
    n.error("expected one size of at least 0");
    return;
  }
  const int64_t count = size->front();
  const double period = double(n.boolAttr("periodic", true) ? count : count - 1);
  n.set(0, generate(n.b, Element::F64, {n.dim(count)}, [&](Scalars &s, llvm::ArrayRef<Value *>) {
          Value *angle = s(Op::Mul, s.cast(s.index(0), Element::F64), s.c(2 * M_PI / period));
          Value *sum = s.c(terms[0]);
          for (size_t k = 1; k < terms.size(); ++k) {
            Value *wave = s(Op::Cos, s(Op::Mul, angle, s.c(double(k))));
            sum = s(k % 2 ? Op::Sub : Op::Add, sum, s(Op::Mul, wave, s.c(terms[k])));
          }
          return s.cast(sum, *e);
        }));
}
} // namespace

void importHannWindow(Node &n) { cosineWindow(n, {0.5, 0.5}); }
void importHammingWindow(Node &n) { cosineWindow(n, {25.0 / 46, 21.0 / 46}); }
void importBlackmanWindow(Node &n) { cosineWindow(n, {0.42, 0.5, 0.08}); }

} // namespace tenon::frontend

// narrow-weights: products with dequantised constants keep those as integers, or in f8e4m3.
//
//   %w = dequantize(%q, %s, %z)   of constants       %y = matmul %x, %q, %s, %z {block = 32}
//   %y = matmul %x, %w                           →
//
// One scale and zero point for `block` elements along k of each output, or for all of them. The
// weights stay as narrow as they are in the file (4 bits, an eighth of floats), and kernels widen
// them as they read them. Runs behind integer-arithmetic, which takes what sums integers. Where
// more rows meet the weights than the target's kernels are made for, these become floats as before.
#include "passes/NarrowWeights.h"

#include "ir/ops/Parallel.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "llvm/Support/MathExtras.h"

#include <atomic>
#include <cmath>

namespace tenon {
namespace {

/// Blocks are multiples of so many weights: in 2 bits four bytes.
constexpr int64_t kWholeWords = 16;
/// Weights or parameters that pay for a thread.
constexpr int64_t kThreadElements = 1 << 16;

/// A constant operand of a map, or a number in its body, read at points of the map's space.
struct Parameter {
  double number = 0;
  Literal literal; // null: the number
  IndexMap map;

  bool variesAlong(int64_t dim) const {
    for (size_t d = 0; literal && d < map.size(); ++d)
      if (map[d] == dim && literal->shape()[d] != 1)
        return true;
    return false;
  }
  int64_t placeOf(llvm::ArrayRef<int64_t> point) const {
    int64_t place = 0;
    for (size_t d = 0; d < map.size(); ++d)
      place = place * literal->shape()[d] +
              (map[d] < 0 || literal->shape()[d] == 1 ? 0 : point[size_t(map[d])]);
    return place;
  }
};

llvm::Optional<Parameter> parameter(Operation &map, Value *scalar) {
  Parameter p;
  if (auto number = scalarValue(scalar)) {
    p.number = *number;
    return p;
  }
  if (scalar->argumentOf() != &map.region())
    return llvm::None;
  p.literal = constantValue(map.operand(scalar->index()));
  p.map = indexMap(map, scalar->index());
  return p.literal ? llvm::Optional<Parameter>(p) : llvm::None;
}

/// Weights [n, k] as they are stored, with what turns them into numbers.
struct NarrowWeights {
  Literal q;
  Parameter scale, zero;
  bool rows = false; // q holds [n, k], else [k, n]
  int64_t n = 0, k = 0, block = 0;
  unsigned nDim = 0;     // of the map's space
  int64_t blockDim = -1; // −1: one block
  unsigned rank = 2;     // of the map's space

  int64_t blocks() const { return k / block; }
  /// Where a literal has what belongs to a block of a column.
  int64_t placeOf(const Parameter &p, int64_t column, int64_t number) const {
    llvm::SmallVector<int64_t, 3> point(rank, 0);
    point[nDim] = column;
    if (blockDim >= 0)
      point[size_t(blockDim)] = number;
    return p.placeOf(point);
  }
};

/// The dimensions of the map's space, which is [n, k] or [k, n] with k perhaps split into blocks.
bool readSpace(Operation &map, Type whole, NarrowWeights &w) {
  const Type space = map.result()->type();
  const unsigned kDim = w.rows ? 1 : 0;
  w.n = whole.dim(1 - kDim).constant();
  w.k = whole.dim(kDim).constant();
  w.rank = space.rank();
  if (space.shape() == whole.shape()) {
    w.nDim = 1 - kDim;
    w.block = w.k;
    return w.block % kWholeWords == 0 && !w.scale.variesAlong(kDim) && !w.zero.variesAlong(kDim);
  }
  const unsigned nDim = w.rows ? 0 : 2, inner = kDim + 1;
  if (w.rank != 3 || !space.hasStaticShape() || space.dim(nDim) != whole.dim(1 - kDim))
    return false;
  w.nDim = nDim;
  w.blockDim = kDim;
  w.block = space.dim(inner).constant();
  return w.block > 0 && w.block % kWholeWords == 0 && !w.scale.variesAlong(inner) &&
         !w.zero.variesAlong(inner);
}

llvm::Optional<NarrowWeights> matchWeights(Operation &matmul) {
  Value *v = matmul.operand(1);
  NarrowWeights w;
  w.rows = matmul.boolAttr("trans_b");
  if (v->def() && v->def()->is(Op::Transpose) && v->type().rank() == 2 &&
      v->def()->intsAttr("perm") == Ints({1, 0})) {
    w.rows = !w.rows;
    v = v->def()->operand(0);
  }
  const Type whole = v->type();
  if (whole.rank() != 2 || !whole.hasStaticShape() || whole.upperElements() == 0)
    return llvm::None;
  if (v->def() && v->def()->is(Op::Reshape))
    v = v->def()->operand(0);
  Operation *map = v->def();
  if (!map || !map->is(Op::Map) || map->numResults() != 1)
    return llvm::None;
  // Rounded to the product's type, or not.
  Operation *dequantize = map->region().terminator()->operand(0)->def();
  if (dequantize && dequantize->is(Op::Cast) &&
      dequantize->operand(0)->type().element() == Element::F32)
    dequantize = dequantize->operand(0)->def();
  if (!dequantize || !dequantize->is(Op::Dequantize) ||
      dequantize->operand(0)->argumentOf() != &map->region())
    return llvm::None;
  const unsigned q = dequantize->operand(0)->index();
  w.q = constantValue(map->operand(q));
  auto scale = parameter(*map, dequantize->operand(1)),
       zero = parameter(*map, dequantize->operand(2));
  if (!w.q || !scale || !zero || bitWidth(w.q->element()) > 8 ||
      (!isInteger(w.q->element()) && w.q->element() != Element::F8E4M3) ||
      map->operand(q)->type().shape() != v->type().shape() ||
      !isIdentityMap(indexMap(*map, q), v->type().rank()))
    return llvm::None;
  w.scale = *scale;
  w.zero = *zero;
  return readSpace(*map, whole, w) ? llvm::Optional<NarrowWeights>(w) : llvm::None;
}

/// Whether the target has kernels for up to `most` rows of `a`, in the dimensions that they have.
bool takesRows(const Operation &matmul, const TargetTraits &target, int64_t most) {
  const Type y = matmul.result()->type();
  double rows = 1;
  unsigned dims = 0;
  for (unsigned d = 0; d + 1 < y.rank(); ++d) {
    rows *= double(y.dim(d).upper());
    dims += !y.dim(d).isConstant(1);
  }
  // Kernels for few rows take them as those of one matrix.
  const bool few = target.narrowWeightRows < INT64_MAX;
  return rows <= double(most) && dims <= (few ? 1u : 3u);
}

/// Whether Tensor Cores take such weights beside rows of `e` (TargetTraits).
bool suitsTensorCores(const Operation &matmul, const NarrowWeights &w, Element e, unsigned bits) {
  const int64_t blocks = w.block / 32;
  return bitWidth(e) == 16 && !matmul.boolAttr("trans_a") &&
         (bits == 4 || (bits == 8 && e == Element::F16)) &&
         ((bits == 8 && w.block == w.k) ||
          (w.block % 32 == 0 && blocks <= 8 && llvm::isPowerOf2_64(uint64_t(blocks))));
}

/// The element of the scales beside rows of `e`: f32 where a scale is below the normal numbers of a
/// half, which would leave it few bits, or beyond its largest.
Element scaleElement(const Parameter &scale, Element e) {
  const auto fits = [](double v) {
    return v == 0 || (std::fabs(v) >= 0x1p-14 && std::fabs(v) <= 65504);
  };
  if (e != Element::F16 || (scale.literal && scale.literal->element() != Element::F32))
    return e;
  for (int64_t i = 0, count = scale.literal ? scale.literal->size() : 1; i < count; ++i)
    if (!fits(scale.literal ? scale.literal->at(i) : scale.number))
      return Element::F32;
  return e;
}

/// Whether a weight of f8e4m3 is no number, which kernels do not ask.
bool holdsNan(const Tensor &q) {
  const auto isNan = [](uint8_t code) { return (code & 0x7f) == 0x7f; };
  std::atomic<bool> found{false};
  parallelFor(
      int64_t(q.bytes().size()), kThreadElements,
      [&](int64_t begin, int64_t end) {
        bool any = false;
        for (int64_t i = begin; i < end; ++i)
          any |= isNan(q.bytes()[size_t(i)]);
        if (any)
          found = true;
      },
      kAllThreads);
  return found;
}

/// The parameters by rows of blocks.
Tensor byBlocks(const NarrowWeights &w, const Parameter &p, Element e) {
  const int64_t shape[] = {w.n, w.blocks()};
  if (p.literal && p.literal->element() == e && p.literal->size() == w.n * w.blocks() &&
      (w.n == 1 || w.placeOf(p, 1, 0) == w.blocks()) &&
      (w.blocks() == 1 || w.placeOf(p, 0, 1) == 1))
    return p.literal->reshaped(llvm::makeArrayRef(shape)); // as they stand
  Tensor t(e, llvm::makeArrayRef(shape));
  t.mutableBytes();
  parallelFor(
      w.n, 1 + kThreadElements / w.blocks(),
      [&](int64_t begin, int64_t end) {
        std::vector<double> row(size_t(w.blocks()));
        for (int64_t column = begin; column < end; ++column) {
          for (int64_t b = 0; b < w.blocks(); ++b)
            row[size_t(b)] = p.literal ? p.literal->at(w.placeOf(p, column, b)) : p.number;
          t.fromDoubles(column * w.blocks(), w.blocks(), row.data());
        }
      },
      kAllThreads);
  return t;
}

/// The weights as rows of elements `e`, which differ from the stored ones in the highest bit where
/// that is `flipped`: unsigned numbers less the middle of their range are signed ones.
Tensor byRows(const NarrowWeights &w, Element e, bool flipped) {
  if (w.rows && !flipped)
    return w.q->reshaped({w.n, w.k});
  const unsigned bits = bitWidth(e), each = 8 / bits, mask = (1u << bits) - 1;
  const unsigned ones = 0xff / mask, flip = flipped ? ones << (bits - 1) : 0;
  Tensor t(e, {w.n, w.k});
  const uint8_t *from = w.q->bytes().data();
  uint8_t *to = t.mutableBytes();
  if (w.rows) {
    parallelFor(
        int64_t(t.bytes().size()), kThreadElements,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            to[i] = uint8_t(from[i] ^ flip);
        },
        kAllThreads);
    return t;
  }
  // Rows of the result are whole bytes; those of q may begin within one.
  constexpr int64_t kTile = 64;
  parallelFor(
      int64_t(llvm::divideCeil(w.n, kTile)), 1 + kThreadElements / (kTile * w.k),
      [&](int64_t begin, int64_t end) {
        uint8_t tile[kTile][kTile];
        for (int64_t first = begin * kTile; first < std::min(end * kTile, w.n); first += kTile)
          for (int64_t k = 0; k < w.k; k += kTile) {
            const int64_t columns = std::min(kTile, w.n - first), depth = std::min(kTile, w.k - k);
            for (int64_t j = 0; j < depth; ++j)
              for (int64_t c = 0; c < columns; ++c) {
                const int64_t at = (k + j) * w.n + first + c;
                tile[c][j] = uint8_t(from[at / each] >> (at % each * bits) & mask);
              }
            for (int64_t c = 0; c < columns; ++c)
              for (int64_t j = 0; j < depth; j += each) {
                unsigned byte = 0;
                for (unsigned i = 0; i < each; ++i)
                  byte |= unsigned(tile[c][j + i]) << (i * bits);
                to[((first + c) * w.k + k + j) / each] = uint8_t(byte ^ flip);
              }
          }
      },
      kAllThreads);
  return t;
}

Element signedElement(unsigned bits) {
  return bits == 2 ? Element::I2 : bits == 4 ? Element::I4 : Element::I8;
}

// matmul(x, dequantize(q, s, z)) = matmul(x, q, s, z)
bool matmulPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::MatMul) || op.numOperands() != 2 || op.has("precision"))
    return false;
  const Element e = op.operand(0)->type().element();
  const TargetTraits &target = rw.context().target;
  if (!isFloat(e) || (bitWidth(e) != 16 && bitWidth(e) != 32) ||
      !takesRows(op, target, std::max(target.narrowWeightRows, target.narrowWeightRowsOfHalves)))
    return false;
  auto w = matchWeights(op);
  if (!w)
    return false;
  // Unsigned weights around the middle of their range are signed ones around 0.
  const Element stored = w->q->element();
  const bool isNarrowFloat = isFloat(stored);
  const unsigned bits = bitWidth(stored);
  const Tensor zeros = byBlocks(*w, w->zero, e);
  const double middle = isNarrowFloat || isSignedInt(stored) ? 0 : double(int64_t(1) << (bits - 1));
  const bool centred = zeros.isSplat() && zeros.at(0) == middle;
  const Element ofScales = centred ? scaleElement(w->scale, e) : e;
  const bool onTensorCores =
      centred && suitsTensorCores(op, *w, e, bits) && (ofScales == e || w->block == w->k);
  const int64_t most = onTensorCores ? target.narrowWeightRowsOfHalves : 0;
  if (!takesRows(op, target, std::max(target.narrowWeightRows, most)))
    return false;
  // Others widen floats of 8 bits by arithmetic.
  const bool widens = most > 0 || target.float8Products;
  if ((isNarrowFloat && (!widens || holdsNan(*w->q))) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  const Element narrow = centred && !isNarrowFloat ? signedElement(bits) : stored;
  const bool flipped = centred && middle != 0;
  const auto how = [&] {
    return (w->rows ? "rows of " : "columns of ") + std::to_string(w->k) + name(narrow).str() +
           (flipped ? ", flipped" : "");
  };
  llvm::SmallVector<Value *, 4> operands{
      op.operand(0),
      b.constant(rw.context().shared(how, *w->q, [&] { return byRows(*w, narrow, flipped); }),
                 op.operand(1)->hint()),
      b.constant(byBlocks(*w, w->scale, ofScales))};
  if (!centred)
    operands.push_back(b.constant(zeros));
  w->q->leaveMemory();
  NamedAttributes attributes{
      {"trans_a", op.boolAttr("trans_a")}, {"trans_b", true}, {"block", w->block}};
  if (op.has("a_bits"))
    attributes.insert({"a_bits", op.intAttr("a_bits")});
  return rw.replace(op, {b.value(Op::MatMul, operands, std::move(attributes))});
}

const Pattern kPatterns[] = {
    {"narrow-weights.matmul", matmulPattern},
};

} // namespace

bool runNarrowWeights(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon

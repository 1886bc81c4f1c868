// Implements the storage of strips.
#include "codegen/memory/Strips.h"

#include "ir/ops/Parallel.h"

#include "llvm/Support/MathExtras.h"

namespace tenon {
namespace {

constexpr int64_t kTileBytes = 512, kOutputs = 16, kThreadElements = 1 << 16;

/// A matrix [n][k] in a tensor that lies row-major.
struct Matrix {
  int64_t n, k, strideN, strideK;
};

Matrix matrixOf(Type type) {
  const auto axes = type.layout().axes();
  const auto nDim = axes.empty() ? 0u : unsigned(axes[0].dim);
  Matrix m = {type.dim(nDim).constant(), 1, 1, 1};
  int64_t stride = 1;
  for (unsigned d = type.rank(); d-- > 0; stride *= type.dim(d).constant()) {
    if (d == nDim)
      m.strideN = stride;
    else if (!type.dim(d).isConstant(1))
      m.k = type.dim(d).constant(), m.strideK = stride;
  }
  return m;
}

/// Tiles of `depth` along k: whole pairs.
struct Tiles {
  int64_t strips, count, depth;
};
Tiles tilesOf(int64_t n, int64_t k, int64_t bits) {
  const int64_t depth = 256 / bits;
  return {int64_t(llvm::divideCeil(n, kOutputs)), 2 * int64_t(llvm::divideCeil(k, 2 * depth)),
          depth};
}

/// Where the kernel has element i of 32 along k, output `row` of a tile: the lane, the step of 16,
/// the register and the half of it.
struct Place {
  int64_t lane, step, reg, half;
};
constexpr Place placeOf(int64_t row, int64_t i) {
  return {4 * (row % 8) + i / 8, i % 8 / 4, row / 8 + 2 * (i % 4 / 2), i % 2};
}

/// Calls body(strip) on all cores; a strip is of so many elements.
void forStrips(int64_t strips, int64_t elements, llvm::function_ref<void(int64_t)> body) {
  parallelFor(
      strips, 1 + kThreadElements / std::max<int64_t>(1, elements),
      [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s)
          body(s);
      },
      kAllThreads);
}

template <class T> void putHalves(const Tensor &value, const Matrix &m, const Tiles &t, T *out) {
  const auto *from = reinterpret_cast<const T *>(value.bytes().data());
  forStrips(t.strips, t.count * 256, [&](int64_t strip) {
    T *to = out + strip * t.count * 256;
    const int64_t first = strip * kOutputs, rows = std::min(kOutputs, m.n - first);
    for (int64_t k = 0; k < m.k; ++k)
      for (int64_t row = 0; row < rows; ++row) {
        const Place p = placeOf(row, k % 32);
        to[(k / 32 * 2 + p.step) * 256 + p.lane * 8 + p.reg * 2 + p.half] =
            from[(first + row) * m.strideN + k * m.strideK];
      }
  });
}

void putBytes(const Tensor &value, const Matrix &m, const Tiles &t, uint8_t *out) {
  const uint8_t *from = value.bytes().data();
  forStrips(t.strips, t.count * kTileBytes, [&](int64_t strip) {
    uint8_t *to = out + strip * t.count * kTileBytes;
    std::fill(to, to + t.count * kTileBytes, uint8_t(128));
    const int64_t first = strip * kOutputs, rows = std::min(kOutputs, m.n - first);
    for (int64_t k = 0; k < m.k; ++k)
      for (int64_t row = 0; row < rows; ++row) {
        const Place p = placeOf(row, k % 32);
        to[k / 32 * kTileBytes + p.lane * 16 + p.step * 8 + p.reg * 2 + p.half] =
            uint8_t(from[(first + row) * m.strideN + k * m.strideK] ^ 0x80);
      }
  });
}

void putNibbles(const Tensor &value, const Matrix &m, const Tiles &t, uint8_t *out) {
  const uint8_t *from = value.bytes().data();
  forStrips(t.strips, t.count * 2 * kTileBytes, [&](int64_t strip) {
    uint8_t *to = out + strip * t.count * kTileBytes;
    std::fill(to, to + t.count * kTileBytes, uint8_t(0x88));
    const int64_t first = strip * kOutputs, rows = std::min(kOutputs, m.n - first);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < m.k; ++k) {
        const int64_t at = (first + row) * m.strideN + k * m.strideK;
        const unsigned q = (from[at / 2] >> (at % 2 * 4) & 15u) ^ 8u;
        const Place p = placeOf(row, k % 32);
        const int64_t nibble = 4 * p.half + p.reg;
        uint8_t &byte =
            to[k / 64 * kTileBytes + p.lane * 16 + (k % 64 / 32 * 2 + p.step) * 4 + nibble / 2];
        const unsigned shift = nibble % 2 * 4;
        byte = uint8_t((byte & ~(15u << shift)) | q << shift);
      }
  });
}

} // namespace

std::string StripScales::word() const {
  return "scales" + std::to_string(bits) + "x" + std::to_string(repeat);
}

llvm::Optional<StripScales> stripScales(const Operation &constant) {
  llvm::StringRef word = constant.wordAttr("stored");
  StripScales s;
  if (!word.consume_front("scales") || word.consumeInteger(10, s.bits) ||
      !word.consume_front("x") || word.getAsInteger(10, s.repeat))
    return llvm::None;
  return s;
}

Type stripsType(Type type) {
  const int64_t bits = bitWidth(type.element());
  const Matrix m = matrixOf(type);
  const Tiles t = tilesOf(m.n, m.k, bits);
  const int64_t shape[] = {t.strips, t.count * (bits == 16 ? kTileBytes / 2 : kTileBytes)};
  return Type::tensor(type.context(), bits == 16 ? type.element() : Element::U8,
                      llvm::ArrayRef<int64_t>(shape));
}

Tensor stripsOf(const Tensor &value, Type type) {
  const Type stored = stripsType(type);
  const int64_t bits = bitWidth(type.element());
  const Matrix m = matrixOf(type);
  const Tiles t = tilesOf(m.n, m.k, bits);
  Tensor out(stored.element(), {stored.dim(0).constant(), stored.dim(1).constant()});
  uint8_t *const to = out.mutableBytes(); // zeros
  if (bits == 16)
    putHalves(value, m, t, reinterpret_cast<uint16_t *>(to));
  else if (bits == 8)
    putBytes(value, m, t, to);
  else
    putNibbles(value, m, t, to);
  return out;
}

Type stripScalesType(Type type, const StripScales &s) {
  const Tiles t = tilesOf(type.dim(0).constant(), type.dim(1).constant() * s.repeat * 32, s.bits);
  const int64_t shape[] = {t.strips, t.count * kOutputs * (t.depth / 32)};
  return Type::tensor(type.context(), type.element(), llvm::ArrayRef<int64_t>(shape));
}

Tensor stripScalesOf(const Tensor &value, const StripScales &s) {
  const int64_t n = value.shape()[0], blocks = value.shape()[1] * s.repeat;
  const Tiles t = tilesOf(n, blocks * 32, s.bits);
  const int64_t each = t.depth / 32; // blocks of a tile
  Tensor out(value.element(), {t.strips, t.count * kOutputs * each});
  const auto *from = reinterpret_cast<const uint16_t *>(value.bytes().data());
  auto *const to = reinterpret_cast<uint16_t *>(out.mutableBytes());
  forStrips(t.strips, kOutputs * blocks, [&](int64_t strip) {
    for (int64_t row = 0; row < std::min(kOutputs, n - strip * kOutputs); ++row)
      for (int64_t b = 0; b < blocks; ++b)
        to[(((strip * t.count + b / each) * 8 + row % 8) * each + b % each) * 2 + row / 8] =
            from[(strip * kOutputs + row) * (blocks / s.repeat) + b / s.repeat];
  });
  return out;
}

} // namespace tenon

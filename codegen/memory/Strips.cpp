// Implements the storage of strips.
#include "codegen/memory/Strips.h"

#include "ir/ops/Parallel.h"

#include "llvm/Support/MathExtras.h"

#include <cstring>

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

/// Of the bytes of a tile, those that lie one behind the other along k, of each output.
constexpr int64_t kRowBytes = kTileBytes / kOutputs;
using Rows = uint8_t[kOutputs][2 * kRowBytes];

/// The rows of two tiles from `first` and k on, zeros beyond the matrix.
template <class T>
void readRows(const uint8_t *bytes, const Matrix &m, int64_t first, int64_t k, int64_t depth,
              Rows &rows) {
  constexpr auto kEach = int64_t(sizeof(T));
  const auto *from = reinterpret_cast<const T *>(bytes) + first * m.strideN + k * m.strideK;
  const int64_t outputs = std::min(kOutputs, m.n - first), terms = std::min(depth, m.k - k);
  if (outputs < kOutputs || terms < depth)
    std::memset(rows, 0, sizeof(Rows));
  if (m.strideK == 1) {
    for (int64_t row = 0; row < outputs; ++row)
      std::memcpy(rows[row], from + row * m.strideN, size_t(terms * kEach));
    return;
  }
  for (int64_t i = 0; i < terms; ++i)
    for (int64_t row = 0; row < outputs; ++row)
      std::memcpy(rows[row] + i * kEach, from + row * m.strideN + i * m.strideK, sizeof(T));
}

/// The same of weights of half a byte.
void readNibbles(const uint8_t *bytes, const Matrix &m, int64_t first, int64_t k, int64_t depth,
                 Rows &rows) {
  std::memset(rows, 0, sizeof(Rows));
  const int64_t outputs = std::min(kOutputs, m.n - first), terms = std::min(depth, m.k - k);
  for (int64_t row = 0; row < outputs; ++row) {
    const int64_t start = (first + row) * m.strideN + k * m.strideK;
    if (m.strideK == 1 && start % 2 == 0 && terms % 2 == 0) {
      std::memcpy(rows[row], bytes + start / 2, size_t(terms / 2));
      continue;
    }
    for (int64_t i = 0; i < terms; ++i) {
      const int64_t at = start + i * m.strideK;
      rows[row][i / 2] |= uint8_t((bytes[at / 2] >> (at % 2 * 4) & 15u) << (i % 2 * 4));
    }
  }
}

uint64_t load(const uint8_t *from, int64_t bytes) {
  uint64_t v = 0;
  std::memcpy(&v, from, size_t(bytes));
  return v;
}

/// Two tiles of 16 rows: what lane 4 g + t multiplies in a step of mma are four elements of row g
/// from 8 t + 4 step on, and of row g + 8, two of one and two of the other.
void putHalves(const Rows &rows, uint8_t *out) {
  for (int64_t step = 0; step < 2; ++step)
    for (int64_t lane = 0; lane < 32; ++lane, out += 16) {
      const int64_t at = lane % 4 * 16 + step * 8;
      const uint64_t low = load(rows[lane / 4] + at, 8), high = load(rows[lane / 4 + 8] + at, 8);
      const uint64_t words[] = {(low & 0xffffffffu) | high << 32, low >> 32 | (high >> 32 << 32)};
      std::memcpy(out, words, sizeof(words));
    }
}

void putBytes(const Rows &rows, uint8_t *out) {
  for (int64_t tile = 0; tile < 2; ++tile)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t step = 0; step < 2; ++step, out += 8) {
        const int64_t at = tile * kRowBytes + lane % 4 * 8 + step * 4;
        const uint64_t low = load(rows[lane / 4] + at, 4), high = load(rows[lane / 4 + 8] + at, 4);
        const uint64_t word =
            ((low & 0xffffu) | (high & 0xffffu) << 16 | low >> 16 << 32 | high >> 16 << 48) ^
            0x8080808080808080ull;
        std::memcpy(out, &word, sizeof(word));
      }
}

/// Of two floats of 8 bits each half of a word has one where a half has its sign, its four last
/// bits of exponent and its first three of mantissa, the other in the bits between.
void putFloats(const Rows &rows, uint8_t *out) {
  const auto inHalves = [](uint64_t four) {
    const uint64_t twos = (four | four << 16) & 0x0000ffff0000ffffull;
    return (twos | twos << 8) & 0x00ff00ff00ff00ffull;
  };
  for (int64_t tile = 0; tile < 2; ++tile)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t step = 0; step < 2; ++step, out += 8) {
        const int64_t at = tile * kRowBytes + lane % 4 * 8 + step * 4;
        const uint64_t low = inHalves(load(rows[lane / 4] + at, 4)),
                       high = inHalves(load(rows[lane / 4 + 8] + at, 4));
        constexpr uint64_t kSigns = 0x0080008000800080ull, kRest = 0x007f007f007f007full;
        const uint64_t word =
            (low & kRest) | (low & kSigns) << 7 | (high & kRest) << 7 | (high & kSigns) << 8;
        std::memcpy(out, &word, sizeof(word));
      }
}

/// Eight weights, those of step 1 in the upper word: 0 and 2 of four lie one byte apart, 1 and 3
/// two bytes behind them.
uint64_t spread(uint64_t eight) {
  const uint64_t fours = (eight | eight << 16) & 0x0000ffff0000ffffull;
  return (fours & 0x00000f0f00000f0full) | (fours & 0x0000f0f00000f0f0ull) << 12;
}

void putNibbles(const Rows &rows, uint8_t *out) {
  for (int64_t tile = 0; tile < 2; ++tile)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t block = 0; block < 2; ++block, out += 8) {
        const int64_t at = tile * kRowBytes + block * 16 + lane % 4 * 4;
        const uint64_t word =
            (spread(load(rows[lane / 4] + at, 4)) | spread(load(rows[lane / 4 + 8] + at, 4)) << 4) ^
            0x8888888888888888ull;
        std::memcpy(out, &word, sizeof(word));
      }
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

void fillStrips(const Tensor &value, Type type, int64_t begin, int64_t end, uint8_t *out) {
  const int64_t bits = bitWidth(type.element()), each = bits / 8;
  const Matrix whole = matrixOf(type);
  const Tiles t = tilesOf(whole.n, whole.k, bits);
  const int64_t depth = 2 * t.depth;
  // Where columns lie side by side some strips are made together: rows often lie a power of two
  // apart, on the same lines of a cache, so that what strips need of each is read at once.
  constexpr int64_t kTogether = 16;
  const bool copies = whole.strideN == 1 && bits >= 8;
  uint8_t copy[kTogether * 2 * kTileBytes];
  for (int64_t first = begin; first < end; first += kTogether)
    for (int64_t pair = 0; 2 * pair < t.count; ++pair) {
      const uint8_t *from = value.bytes().data();
      Matrix m = whole;
      int64_t n = first * kOutputs, k = pair * depth;
      if (copies) {
        m.n = std::min(kTogether * kOutputs, whole.n - n), m.k = std::min(depth, whole.k - k);
        m.strideK = m.n;
        for (int64_t i = 0; i < m.k; ++i)
          std::memcpy(copy + i * m.n * each, from + ((k + i) * whole.strideK + n) * each,
                      size_t(m.n * each));
        from = copy, n = 0, k = 0;
      }
      for (int64_t strip = first; strip < std::min(first + kTogether, end); ++strip) {
        uint8_t *to = out + ((strip - begin) * t.count + 2 * pair) * kTileBytes;
        Rows rows;
        if (bits == 16) {
          readRows<uint16_t>(from, m, n, k, depth, rows);
          putHalves(rows, to);
        } else if (bits == 8) {
          readRows<uint8_t>(from, m, n, k, depth, rows);
          if (isFloat(type.element()))
            putFloats(rows, to);
          else
            putBytes(rows, to);
        } else {
          readNibbles(from, m, n, k, depth, rows);
          putNibbles(rows, to);
        }
        n += kOutputs;
      }
    }
}

Tensor stripsOf(const Tensor &value, Type type) {
  const Type stored = stripsType(type);
  Tensor out(stored.element(), {stored.dim(0).constant(), stored.dim(1).constant()});
  uint8_t *const to = out.mutableBytes();
  const int64_t strips = out.shape()[0], each = strips ? int64_t(out.bytes().size()) / strips : 0;
  forStrips(strips, out.shape()[1],
            [&](int64_t s) { fillStrips(value, type, s, s + 1, to + s * each); });
  return out;
}

Type stripScalesType(Type type, const StripScales &s) {
  const Tiles t = tilesOf(type.dim(0).constant(), type.dim(1).constant() * s.repeat * 32, s.bits);
  const int64_t shape[] = {t.strips, t.count * kOutputs * (t.depth / 32)};
  return Type::tensor(type.context(), type.element(), llvm::ArrayRef<int64_t>(shape));
}

void fillStripScales(const Tensor &value, const StripScales &s, int64_t begin, int64_t end,
                     uint8_t *out) {
  const int64_t n = value.shape()[0], blocks = value.shape()[1] * s.repeat;
  const Tiles t = tilesOf(n, blocks * 32, s.bits);
  const int64_t each = t.depth / 32; // blocks of a tile
  const auto *from = reinterpret_cast<const uint16_t *>(value.bytes().data());
  auto *const to = reinterpret_cast<uint16_t *>(out);
  std::fill_n(to, (end - begin) * t.count * kOutputs * each, uint16_t(0));
  for (int64_t strip = begin; strip < end; ++strip)
    for (int64_t row = 0; row < std::min(kOutputs, n - strip * kOutputs); ++row)
      for (int64_t b = 0; b < blocks; ++b)
        to[((((strip - begin) * t.count + b / each) * 8 + row % 8) * each + b % each) * 2 +
           row / 8] = from[(strip * kOutputs + row) * (blocks / s.repeat) + b / s.repeat];
}

Tensor stripScalesOf(const Tensor &value, const StripScales &s) {
  const int64_t n = value.shape()[0], blocks = value.shape()[1] * s.repeat;
  const Tiles t = tilesOf(n, blocks * 32, s.bits);
  Tensor out(value.element(), {t.strips, t.count * kOutputs * (t.depth / 32)});
  fillStripScales(value, s, 0, t.strips, out.mutableBytes());
  return out;
}

} // namespace tenon

// Implements strided copies and picks over elements of any type.
#include "ir/ops/Strided.h"

#include "ir/ops/Parallel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

namespace tenon {
namespace {

/// Calls `move` with copy(toElement, fromElement, count): what it means to copy a run of
/// consecutive elements of the tensors' type.
template <class Move> void withElementCopy(const Tensor &from, Tensor &to, Move move) {
  const Element e = from.element();
  if (e == Element::String) {
    std::vector<std::string> values = to.stringValues();
    move([&](int64_t t, int64_t f, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        values[size_t(t + i)] = from.stringValues()[size_t(f + i)];
    });
    to = Tensor::strings(to.shape(), std::move(values));
    return;
  }
  if (bitWidth(e) < 8) { // packed: one at a time
    const bool integer = isInteger(e);
    move([&](int64_t t, int64_t f, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        if (integer)
          to.setInt(t + i, from.intAt(f + i));
        else
          to.set(t + i, from.at(f + i));
    });
    return;
  }
  const uint8_t *in = from.bytes().data();
  uint8_t *out = to.mutableBytes();
  auto sized = [&](auto width) {
    constexpr int64_t w = decltype(width)::value;
    move([=](int64_t t, int64_t f, int64_t n) {
      if (n == 1)
        std::memcpy(out + t * w, in + f * w, w);
      else
        std::memcpy(out + t * w, in + f * w, size_t(n * w));
    });
  };
  switch (bitWidth(e) / 8) {
  case 1: return sized(std::integral_constant<int64_t, 1>());
  case 2: return sized(std::integral_constant<int64_t, 2>());
  case 4: return sized(std::integral_constant<int64_t, 4>());
  case 8: return sized(std::integral_constant<int64_t, 8>());
  default: return sized(std::integral_constant<int64_t, 16>());
  }
}

/// Copies tiles of the two innermost dimensions, one of which is read in the order of memory and
/// the other written so, on several threads. Rows of a tile often lie a power of two apart, on the
/// same lines of a cache, so that some lines of each are read as a whole and one is written so.
template <int64_t Width>
void transpose(const uint8_t *in, int64_t inStride, uint8_t *out, int64_t outStride, int64_t rows,
               int64_t columns) {
  constexpr int64_t kRows = 32, kColumns = 128, kThreadElements = 1 << 18; // as they are read
  parallelFor(
      int64_t(llvm::divideCeil(columns, kColumns)), 1 + kThreadElements / (kColumns * rows),
      [&](int64_t begin, int64_t end) {
        uint8_t read[kRows][kColumns][Width], written[kRows][Width];
        for (int64_t j0 = begin * kColumns; j0 < std::min(end * kColumns, columns); j0 += kColumns)
          for (int64_t i0 = 0; i0 < rows; i0 += kRows) {
            const int64_t m = std::min(kRows, rows - i0), n = std::min(kColumns, columns - j0);
            for (int64_t i = 0; i < m; ++i)
              std::memcpy(read[i], in + ((i0 + i) * inStride + j0) * Width, size_t(n * Width));
            for (int64_t j = 0; j < n; ++j) {
              for (int64_t i = 0; i < m; ++i)
                std::memcpy(written[i], read[i][j], Width);
              std::memcpy(out + ((j0 + j) * outStride + i0) * Width, written, size_t(m * Width));
            }
          }
      },
      kAllThreads);
}

/// False where that is not what a copy does.
bool transposes(const Tensor &from, int64_t source, Tensor &to, int64_t target,
                const Extents &extents, const Extents &in, const Extents &out) {
  constexpr int64_t kPays = 32;
  if (extents.size() != 2 || in[0] != 1 || out[1] != 1 || extents[0] < kPays || extents[1] < kPays)
    return false;
  const auto sized = [&](auto width) {
    constexpr int64_t w = decltype(width)::value;
    transpose<w>(from.bytes().data() + source * w, in[1], to.mutableBytes() + target * w, out[0],
                 extents[1], extents[0]);
    return true;
  };
  switch (bitWidth(from.element()) / 8) {
  case 1: return sized(std::integral_constant<int64_t, 1>());
  case 2: return sized(std::integral_constant<int64_t, 2>());
  case 4: return sized(std::integral_constant<int64_t, 4>());
  case 8: return sized(std::integral_constant<int64_t, 8>());
  default: return sized(std::integral_constant<int64_t, 16>());
  }
}

} // namespace

Extents rowMajorStrides(llvm::ArrayRef<int64_t> shape) {
  Extents strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void copyElements(llvm::ArrayRef<int64_t> shape, const Tensor &from, Place source, Tensor &to,
                  Place target) {
  // Dimensions that lie one behind the other on both sides become one.
  Extents extents, in, out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0)
      return;
    if (shape[d] == 1)
      continue;
    if (!extents.empty() && in.back() == source.strides[d] * shape[d] &&
        out.back() == target.strides[d] * shape[d]) {
      extents.back() *= shape[d];
      in.back() = source.strides[d];
      out.back() = target.strides[d];
      continue;
    }
    extents.push_back(shape[d]);
    in.push_back(source.strides[d]);
    out.push_back(target.strides[d]);
  }
  if (extents.empty())
    extents.push_back(1), in.push_back(1), out.push_back(1);
  const size_t inner = extents.size() - 1;
  const int64_t run = in[inner] == 1 && out[inner] == 1 ? extents[inner] : 1;
  if (from.element() != Element::String && bitWidth(from.element()) >= 8 && inner > 0 && run == 1 &&
      transposes(from, source.offset, to, target.offset, extents, in, out))
    return;
  withElementCopy(from, to, [&](auto copy) {
    Extents index(extents.size(), 0);
    int64_t f = source.offset, t = target.offset;
    for (;;) {
      if (run > 1)
        copy(t, f, run);
      else
        for (int64_t i = 0; i < extents[inner]; ++i)
          copy(t + i * out[inner], f + i * in[inner], 1);
      size_t d = inner;
      for (;;) { // next index of the outer dimensions
        if (d == 0)
          return;
        --d;
        f += in[d];
        t += out[d];
        if (++index[d] < extents[d])
          break;
        f -= in[d] * extents[d];
        t -= out[d] * extents[d];
        index[d] = 0;
      }
    }
  });
}

Tensor readStrided(llvm::ArrayRef<int64_t> shape, const Tensor &from, const Place &source) {
  Tensor result(from.element(), shape);
  copyElements(shape, from, source, result, {0, rowMajorStrides(shape)});
  return result;
}

namespace {

/// The run of consecutive indices that starts at list[i]; a run of −1 counts, too.
int64_t runLength(const std::vector<int64_t> &list, size_t i) {
  size_t end = i + 1;
  if (list[i] < 0)
    while (end < list.size() && list[end] < 0)
      ++end;
  else
    while (end < list.size() && list[end] == list[i] + int64_t(end - i))
      ++end;
  return int64_t(end - i);
}

template <class Copy>
void pick(llvm::ArrayRef<std::vector<int64_t>> indices, llvm::ArrayRef<int64_t> in,
          llvm::ArrayRef<int64_t> out, int64_t f, int64_t t, Copy &copy) {
  const std::vector<int64_t> &list = indices[0];
  if (indices.size() == 1) {
    for (size_t i = 0; i < list.size();) {
      const int64_t n = runLength(list, i);
      if (list[i] >= 0)
        copy(t + int64_t(i), f + list[i], n);
      i += size_t(n);
    }
    return;
  }
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] >= 0)
      pick(indices.drop_front(), in.drop_front(), out.drop_front(), f + list[i] * in[0],
           t + int64_t(i) * out[0], copy);
}

} // namespace

void pickElements(const Tensor &from, llvm::ArrayRef<std::vector<int64_t>> indices,
                  Tensor &result) {
  static const std::vector<int64_t> kOne{0};
  if (indices.empty())
    indices = kOne;
  Extents in = rowMajorStrides(from.shape()), out = rowMajorStrides(result.shape());
  withElementCopy(from, result, [&](auto copy) { pick(indices, in, out, 0, 0, copy); });
}

Tensor filled(llvm::ArrayRef<int64_t> shape, const Tensor &value) {
  return readStrided(shape, value, {0, Extents(shape.size(), 0)});
}

} // namespace tenon

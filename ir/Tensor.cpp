// Implements host tensors and the conversions of the narrow float formats.
#include "ir/Tensor.h"

#include "ir/ops/Clones.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Process.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include <sys/mman.h>

namespace tenon {

//===----------------------------------------------------------------------===//
// Narrow floats
//===----------------------------------------------------------------------===//

namespace {

enum class Specials : uint8_t {
  Ieee,    // all-ones exponent: infinity and NaN
  NanOnly, // no infinity; all ones is NaN
  Fnuz,    // no infinity, no −0; the code of −0 is NaN
  None,    // neither infinity nor NaN
};

struct FloatFormat {
  int exponentBits, mantissaBits, bias;
  Specials specials;
  uint32_t maxBits; // code of the largest finite value
  uint32_t nanBits; // code of the NaN that encode makes

  uint32_t signBit() const { return uint32_t(1) << (exponentBits + mantissaBits); }
  int minExponent() const { return 1 - bias; }
};

/// Formats with sign, exponent and mantissa; f8e8m0 has none of these and stands apart.
FloatFormat formatOf(Element e) {
  switch (e) {
  case Element::F16: return {5, 10, 15, Specials::Ieee, 0x7bff, 0x7e00};
  case Element::BF16: return {8, 7, 127, Specials::Ieee, 0x7f7f, 0x7fc0};
  case Element::F8E4M3: return {4, 3, 7, Specials::NanOnly, 0x7e, 0x7f};
  case Element::F8E4M3Z: return {4, 3, 8, Specials::Fnuz, 0x7f, 0x80};
  case Element::F8E5M2: return {5, 2, 15, Specials::Ieee, 0x7b, 0x7f};
  case Element::F8E5M2Z: return {5, 2, 16, Specials::Fnuz, 0x7f, 0x80};
  case Element::F4E2M1:
    return {2, 1, 1, Specials::None, 0x7, 0x8}; // NaN becomes −0, as in ONNX's reference
  default: break;
  }
  assert(false && "not a narrow float");
  return {5, 10, 15, Specials::Ieee, 0x7bff, 0x7e00};
}

/// 2^k for exponents of normal doubles.
double powerOfTwo(int k) {
  uint64_t bits = uint64_t(k + 1023) << 52;
  double v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

double decode(const FloatFormat &f, uint32_t bits) {
  const double sign = bits & f.signBit() ? -1.0 : 1.0;
  const uint32_t magnitude = bits & (f.signBit() - 1);
  const uint32_t exponent = magnitude >> f.mantissaBits;
  const uint32_t mantissa = magnitude & ((1u << f.mantissaBits) - 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  switch (f.specials) {
  case Specials::Ieee:
    if (exponent == (1u << f.exponentBits) - 1)
      return mantissa ? std::copysign(nan, sign) : sign * std::numeric_limits<double>::infinity();
    break;
  case Specials::NanOnly:
    if (magnitude == f.signBit() - 1)
      return std::copysign(nan, sign);
    break;
  case Specials::Fnuz:
    if (bits == f.signBit())
      return nan;
    break;
  case Specials::None: break;
  }
  if (exponent == 0)
    return sign * mantissa * powerOfTwo(f.minExponent() - f.mantissaBits);
  return sign * (mantissa + double(1u << f.mantissaBits)) *
         powerOfTwo(int(exponent) - f.bias - f.mantissaBits);
}

uint32_t encode(const FloatFormat &f, double value) {
  const uint32_t sign = std::signbit(value) ? f.signBit() : 0;
  if (std::isnan(value))
    return f.specials == Specials::Fnuz || f.specials == Specials::None ? f.nanBits
                                                                        : sign | f.nanBits;
  const uint32_t overflow = f.specials == Specials::Ieee ? f.maxBits + 1 : f.maxBits;
  double magnitude = std::fabs(value);
  uint32_t bits;
  if (std::isinf(value)) {
    bits = overflow;
  } else if (magnitude == 0) {
    bits = 0;
  } else {
    const int exponent = std::max(std::ilogb(magnitude), f.minExponent());
    if (exponent - f.minExponent() + 1 >= (1 << f.exponentBits)) {
      bits = overflow;
    } else {
      // In units of the last place; scaling by a power of two is exact, nearbyint half to even.
      const double units = std::nearbyint(std::ldexp(magnitude, f.mantissaBits - exponent));
      // A carry out of the mantissa runs into the exponent field, as it should.
      bits = uint32_t((exponent - f.minExponent()) << f.mantissaBits) + uint32_t(units);
      if (bits > f.maxBits)
        bits = overflow;
    }
  }
  if (f.specials == Specials::Fnuz && bits == 0)
    return 0;
  return sign | bits;
}

/// f8e8m0 holds powers of two from 2^−127 to 2^127 and NaN (all ones).
double decodeScale(uint32_t bits) {
  return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : powerOfTwo(int(bits) - 127);
}
uint32_t encodeScale(double value) {
  if (std::isnan(value) || std::signbit(value))
    return 0xff;
  if (std::isinf(value))
    return 0xfe;
  if (value == 0)
    return 0;
  // Up, ONNX's default for scales: what is divided by one then never overflows.
  const int floor = std::ilogb(value);
  const int exponent = std::ldexp(1.0, floor) < value ? floor + 1 : floor;
  return uint32_t(std::min(std::max(exponent + 127, 0), 0xfe));
}

} // namespace

double decodeFloat(Element e, uint32_t bits) {
  return e == Element::F8E8M0 ? decodeScale(bits) : decode(formatOf(e), bits);
}

uint32_t encodeFloat(Element e, double value) {
  return e == Element::F8E8M0 ? encodeScale(value) : encode(formatOf(e), value);
}

//===----------------------------------------------------------------------===//
// Element access
//===----------------------------------------------------------------------===//

namespace {

uint64_t maskOf(unsigned bits) { return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1; }

template <class T> T loadAs(const uint8_t *bytes, int64_t i) {
  T v;
  std::memcpy(&v, bytes + i * int64_t(sizeof(T)), sizeof(T));
  return v;
}

/// Raw storage bits of element i, for types of at most 64 bits.
uint64_t loadBits(const uint8_t *bytes, unsigned width, int64_t i) {
  switch (width) { // a copy of a size that is not known is a call
  case 8: return bytes[i];
  case 16: return loadAs<uint16_t>(bytes, i);
  case 32: return loadAs<uint32_t>(bytes, i);
  case 64: return loadAs<uint64_t>(bytes, i);
  default: break;
  }
  const int64_t bit = i * width;
  return (bytes[bit / 8] >> (bit % 8)) & maskOf(width);
}

void storeBits(uint8_t *bytes, unsigned width, int64_t i, uint64_t v) {
  if (width < 8) {
    const int64_t bit = i * width;
    const unsigned shift = unsigned(bit % 8);
    uint8_t &b = bytes[bit / 8];
    b = uint8_t((b & ~(maskOf(width) << shift)) | ((v & maskOf(width)) << shift));
    return;
  }
  if (width == 8)
    bytes[i] = uint8_t(v);
  else
    std::memcpy(bytes + i * (width / 8), &v, width / 8);
}

int64_t signExtend(uint64_t v, unsigned width) {
  const unsigned shift = 64 - width;
  return int64_t(v << shift) >> shift;
}

/// Truncation of any double; values beyond 64 bits saturate, NaN is 0.
int64_t truncate(double v) {
  if (!(v == v))
    return 0;
  if (v >= 9223372036854775808.0)
    return std::numeric_limits<int64_t>::max();
  if (v < -9223372036854775808.0)
    return std::numeric_limits<int64_t>::min();
  return int64_t(v);
}

/// Truncation for u64, whose upper half int64 cannot hold.
uint64_t truncateUnsigned(double v) {
  if (v >= 18446744073709551616.0)
    return std::numeric_limits<uint64_t>::max();
  return v >= 9223372036854775808.0 ? uint64_t(v) : uint64_t(truncate(v));
}

int64_t loadInt(Element e, const uint8_t *bytes, int64_t i) {
  const unsigned width = bitWidth(e);
  const uint64_t bits = loadBits(bytes, width, i);
  return isSignedInt(e) ? signExtend(bits, width) : isBool(e) ? int64_t(bits != 0) : int64_t(bits);
}

double loadDouble(Element e, const uint8_t *bytes, int64_t i) {
  switch (e) {
  case Element::F32:
  case Element::C64: {
    float v;
    std::memcpy(&v, bytes + i * int64_t(bitWidth(e) / 8), sizeof(v));
    return v;
  }
  case Element::F64:
  case Element::C128: {
    double v;
    std::memcpy(&v, bytes + i * int64_t(bitWidth(e) / 8), sizeof(v));
    return v;
  }
  case Element::U64: return double(loadBits(bytes, 64, i));
  default: break;
  }
  if (isFloat(e))
    return decodeFloat(e, uint32_t(loadBits(bytes, bitWidth(e), i)));
  return double(loadInt(e, bytes, i));
}

void storeInt(Element e, uint8_t *bytes, int64_t i, int64_t v) {
  storeBits(bytes, bitWidth(e), i, isBool(e) ? uint64_t(v != 0) : uint64_t(v));
}

void storeDouble(Element e, uint8_t *bytes, int64_t i, double v) {
  switch (e) {
  case Element::F32:
  case Element::C64: {
    const float f = float(v);
    std::memcpy(bytes + i * int64_t(bitWidth(e) / 8), &f, sizeof(f));
    return;
  }
  case Element::F64:
  case Element::C128: std::memcpy(bytes + i * int64_t(bitWidth(e) / 8), &v, sizeof(v)); return;
  case Element::Bool: bytes[i] = v != 0; return;
  case Element::U64: storeBits(bytes, 64, i, truncateUnsigned(v)); return;
  default: break;
  }
  if (isFloat(e))
    storeBits(bytes, bitWidth(e), i, encodeFloat(e, v));
  else
    storeInt(e, bytes, i, truncate(v));
}

/// All bits where x is below the limit, by which selections are neither branches nor mistaken for
/// some.
uint32_t whereBelow(int32_t x, int32_t limit) { return uint32_t((x - limit) >> 31); }

/// Of f16, as decodeFloat has it: the bits below the sign are those of a float whose exponent lacks
/// the difference of the biases. Subnormal ones become the mantissa of a number whose leading bit
/// is then taken away, since processors multiply subnormal floats slowly.
float widenHalf(uint16_t half) {
  const int32_t magnitude = half & 0x7fff;
  const uint32_t subnormal = whereBelow(magnitude, 0x400), finite = whereBelow(magnitude, 0x7c00),
                 number = whereBelow(magnitude, 0x7c01), sign = uint32_t(half & 0x8000) << 16;
  const uint32_t bits = llvm::FloatToBits(
      llvm::BitsToFloat((uint32_t(magnitude) << 13) + (112u << 23) + (subnormal & (1u << 23))) -
      llvm::BitsToFloat(subnormal & (113u << 23)));
  return llvm::BitsToFloat((bits & finite) | (~finite & 0x7f800000u) | (~number & 0x400000u) |
                           sign);
}

/// Of bf16: the upper half of a float; a NaN is the one that decodeFloat makes.
float widenBrain(uint16_t brain) {
  const uint32_t magnitude = brain & 0x7fffu, number = whereBelow(int32_t(magnitude), 0x7f81);
  return llvm::BitsToFloat(((magnitude & number) | (~number & 0x7fc0u) | (brain & 0x8000u)) << 16);
}

/// In blocks of a number that compilers know.
template <float (*Widen)(uint16_t)>
__attribute__((always_inline)) inline void widenBlocks(const uint16_t *in, int64_t count,
                                                       double *out) {
  constexpr int64_t kBlock = 16;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    uint16_t from[kBlock];
    double to[kBlock];
    std::memcpy(from, in + i, sizeof(from));
    for (int64_t j = 0; j < kBlock; ++j)
      to[j] = double(Widen(from[j]));
    std::memcpy(out + i, to, sizeof(to));
  }
  for (; i < count; ++i)
    out[i] = double(Widen(in[i]));
}
TENON_CLONES void widenHalves(const uint16_t *in, int64_t count, double *out) {
  widenBlocks<widenHalf>(in, count, out);
}
TENON_CLONES void widenBrains(const uint16_t *in, int64_t count, double *out) {
  widenBlocks<widenBrain>(in, count, out);
}

/// Types of at most 8 bits: the value of each code, looked up where that pays.
template <class Out, Out (*Load)(Element, const uint8_t *, int64_t)>
void widenCodes(Element e, const uint8_t *bytes, int64_t begin, int64_t count, Out *out) {
  const unsigned codes = 1u << bitWidth(e);
  if (count < 2 * int64_t(codes)) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = Load(e, bytes, begin + i);
    return;
  }
  Out values[256];
  for (unsigned code = 0; code < codes; ++code) {
    const auto byte = uint8_t(code);
    values[code] = Load(e, &byte, 0);
  }
  const auto lookUp = [&](auto width) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = values[loadBits(bytes, decltype(width)::value, begin + i)];
  };
  switch (bitWidth(e)) {
  case 1: return lookUp(std::integral_constant<unsigned, 1>());
  case 2: return lookUp(std::integral_constant<unsigned, 2>());
  case 4: return lookUp(std::integral_constant<unsigned, 4>());
  default: return lookUp(std::integral_constant<unsigned, 8>());
  }
}

/// Magnitudes of doubles from here on, 2^16, are too large for numbers of f16.
constexpr uint64_t kBeyondHalves = uint64_t(1039) << 52;

/// A double below kBeyondHalves to f16, as encodeFloat has it, half to even. Of numbers that are
/// normal there bits of the mantissa are dropped, where a carry runs into the exponent and, beyond
/// the largest, to infinity; of the others a sum with 2^28 keeps multiples of the least.
uint16_t narrowFinite(double v) {
  const uint64_t bits = llvm::DoubleToBits(v), magnitude = bits & ~(uint64_t(1) << 63);
  constexpr uint64_t kNormal = uint64_t(1009) << 52, kBase = uint64_t(1051) << 52; // 2^-14, 2^28
  constexpr unsigned kDropped = 42;
  const uint64_t x = magnitude - (uint64_t(1008) << 52),
                 normal =
                     (x + (uint64_t(1) << (kDropped - 1)) - 1 + (x >> kDropped & 1)) >> kDropped,
                 subnormal =
                     llvm::DoubleToBits(llvm::BitsToDouble(magnitude) + llvm::BitsToDouble(kBase)) -
                     kBase,
                 isSubnormal = uint64_t(int64_t(magnitude - kNormal) >> 63);
  return uint16_t((subnormal & isSubnormal) | (normal & ~isSubnormal) | (bits >> 48 & 0x8000));
}
uint16_t narrowHalf(double v) {
  const uint64_t magnitude = llvm::DoubleToBits(v) & ~(uint64_t(1) << 63);
  return magnitude < kBeyondHalves ? narrowFinite(v) : uint16_t(encodeFloat(Element::F16, v));
}
TENON_CLONES void narrowHalves(const double *in, int64_t count, uint16_t *out) {
  constexpr int64_t kBlock = 16; // a number that compilers know
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    double from[kBlock];
    uint64_t to[kBlock], beyond = 0;
    std::memcpy(from, in + i, sizeof(from));
    for (int64_t j = 0; j < kBlock; ++j) {
      beyond |= kBeyondHalves - 1 - (llvm::DoubleToBits(from[j]) & ~(uint64_t(1) << 63));
      to[j] = narrowFinite(from[j]);
    }
    for (int64_t j = 0; j < kBlock; ++j)
      out[i + j] = int64_t(beyond) < 0 ? narrowHalf(from[j]) : uint16_t(to[j]);
  }
  for (; i < count; ++i)
    out[i] = narrowHalf(in[i]);
}

template <class T, class Out>
void widen(const uint8_t *bytes, int64_t begin, int64_t count, Out *out) {
  const T *in = reinterpret_cast<const T *>(bytes) + begin;
  for (int64_t i = 0; i < count; ++i)
    out[i] = Out(in[i]);
}

int64_t elementCount(llvm::ArrayRef<int64_t> shape) {
  if (llvm::is_contained(shape, 0)) // other extents may be as large as they like
    return 0;
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

} // namespace

//===----------------------------------------------------------------------===//
// Tensor
//===----------------------------------------------------------------------===//

Tensor::Tensor(Element e, llvm::ArrayRef<int64_t> shape)
    : element_(e), shape_(shape.begin(), shape.end()), size_(elementCount(shape)) {
  if (e == Element::String)
    strings_ = std::make_shared<std::vector<std::string>>(size_t(size_));
  else
    bytes_ = std::make_shared<Bytes>(std::vector<uint8_t>(size_t(byteSize(e, size_))));
}

Tensor::Tensor(Element e, llvm::ArrayRef<int64_t> shape, std::vector<uint8_t> bytes)
    : element_(e), shape_(shape.begin(), shape.end()), size_(elementCount(shape)),
      bytes_(std::make_shared<Bytes>(std::move(bytes))) {
  assert(int64_t(bytes_->all.size()) == byteSize(e, size_) && "bytes do not fit the shape");
}

Tensor Tensor::scalar(Element e, double value) {
  Tensor t(e, llvm::ArrayRef<int64_t>());
  t.set(0, value);
  return t;
}

Tensor Tensor::fromInts(llvm::ArrayRef<int64_t> values) {
  Tensor t(Element::I64, {int64_t(values.size())});
  t.fromInts(0, int64_t(values.size()), values.data());
  return t;
}

Tensor Tensor::strings(llvm::ArrayRef<int64_t> shape, std::vector<std::string> values) {
  Tensor t;
  t.element_ = Element::String;
  t.shape_.assign(shape.begin(), shape.end());
  t.size_ = elementCount(shape);
  assert(int64_t(values.size()) == t.size_ && "values do not fit the shape");
  t.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return t;
}

Tensor Tensor::mapped(Element e, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<uint8_t> pages,
                      std::shared_ptr<const void> mapping) {
  Tensor t;
  t.element_ = e;
  t.shape_.assign(shape.begin(), shape.end());
  t.size_ = elementCount(shape);
  assert(int64_t(pages.size()) == byteSize(e, t.size_) && "pages do not fit the shape");
  t.bytes_ = std::make_shared<Bytes>(pages, std::move(mapping));
  return t;
}

uint8_t *Tensor::mutableBytes() {
  if (bytes_.use_count() > 1 || bytes_->mapping)
    bytes_ = std::make_shared<Bytes>(bytes_->all.vec());
  return bytes_->own.data();
}

void Tensor::leaveMemory() const {
  if (!bytes_ || !bytes_->mapping)
    return;
  // Pages that hold other tensors' bytes, too, stay.
  const uintptr_t page = llvm::sys::Process::getPageSizeEstimate();
  const auto begin = llvm::alignTo(reinterpret_cast<uintptr_t>(bytes_->all.begin()), page),
             end = reinterpret_cast<uintptr_t>(bytes_->all.end()) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

double Tensor::at(int64_t i) const { return loadDouble(element_, bytes_->all.data(), i); }

int64_t Tensor::intAt(int64_t i) const {
  if (isInteger(element_) || isBool(element_))
    return loadInt(element_, bytes_->all.data(), i);
  return truncate(at(i));
}

void Tensor::set(int64_t i, double value) { storeDouble(element_, mutableBytes(), i, value); }

void Tensor::setString(int64_t i, std::string value) {
  if (strings_.use_count() > 1)
    strings_ = std::make_shared<std::vector<std::string>>(*strings_);
  (*strings_)[size_t(i)] = std::move(value);
}

void Tensor::setInt(int64_t i, int64_t value) {
  if (isInteger(element_) || isBool(element_))
    storeInt(element_, mutableBytes(), i, value);
  else
    set(i, double(value));
}

void Tensor::toDoubles(int64_t begin, int64_t count, double *out) const {
  const uint8_t *b = bytes_->all.data();
  switch (element_) {
  case Element::F32: return widen<float>(b, begin, count, out);
  case Element::F64: return widen<double>(b, begin, count, out);
  case Element::F16: return widenHalves(reinterpret_cast<const uint16_t *>(b) + begin, count, out);
  case Element::BF16: return widenBrains(reinterpret_cast<const uint16_t *>(b) + begin, count, out);
  case Element::I8: return widen<int8_t>(b, begin, count, out);
  case Element::U8: return widen<uint8_t>(b, begin, count, out);
  case Element::I32: return widen<int32_t>(b, begin, count, out);
  case Element::I64: return widen<int64_t>(b, begin, count, out);
  default: break;
  }
  if (bitWidth(element_) <= 8)
    return widenCodes<double, loadDouble>(element_, b, begin, count, out);
  for (int64_t i = 0; i < count; ++i)
    out[i] = loadDouble(element_, b, begin + i);
}

void Tensor::fromDoubles(int64_t begin, int64_t count, const double *in) {
  uint8_t *b = mutableBytes();
  if (element_ == Element::F32) {
    float *out = reinterpret_cast<float *>(b) + begin;
    for (int64_t i = 0; i < count; ++i)
      out[i] = float(in[i]);
    return;
  }
  if (element_ == Element::F16)
    return narrowHalves(in, count, reinterpret_cast<uint16_t *>(b) + begin);
  for (int64_t i = 0; i < count; ++i)
    storeDouble(element_, b, begin + i, in[i]);
}

void Tensor::toInts(int64_t begin, int64_t count, int64_t *out) const {
  const uint8_t *b = bytes_->all.data();
  switch (element_) {
  case Element::I8: return widen<int8_t>(b, begin, count, out);
  case Element::U8: return widen<uint8_t>(b, begin, count, out);
  case Element::I32: return widen<int32_t>(b, begin, count, out);
  case Element::I64: return widen<int64_t>(b, begin, count, out);
  default: break;
  }
  if (bitWidth(element_) <= 8 && !isFloat(element_))
    return widenCodes<int64_t, loadInt>(element_, b, begin, count, out);
  for (int64_t i = 0; i < count; ++i)
    out[i] = intAt(begin + i);
}

void Tensor::fromInts(int64_t begin, int64_t count, const int64_t *in) {
  uint8_t *b = mutableBytes();
  if (isInteger(element_) || isBool(element_)) {
    for (int64_t i = 0; i < count; ++i)
      storeInt(element_, b, begin + i, in[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    storeDouble(element_, b, begin + i, double(in[i]));
}

Tensor Tensor::reshaped(llvm::ArrayRef<int64_t> shape) const {
  assert(elementCount(shape) == size_ && "reshape changes the number of elements");
  Tensor t = *this;
  t.shape_.assign(shape.begin(), shape.end());
  return t;
}

Tensor Tensor::reinterpreted(Element e, llvm::ArrayRef<int64_t> shape) const {
  Tensor t = *this;
  t.element_ = e;
  t.shape_.assign(shape.begin(), shape.end());
  t.size_ = elementCount(shape);
  assert(int64_t(bytes_->all.size()) == byteSize(e, t.size_) && "bytes do not fit the shape");
  return t;
}

bool Tensor::isSplat() const {
  if (size_ == 0)
    return false;
  if (strings_) {
    for (const std::string &s : *strings_)
      if (s != strings_->front())
        return false;
    return true;
  }
  const unsigned width = bitWidth(element_);
  const uint8_t *b = bytes_->all.data();
  if (width >= 8) // every element equals its predecessor
    return std::memcmp(b, b + width / 8, size_t(size_ - 1) * (width / 8)) == 0;
  for (int64_t i = 1; i < size_; ++i)
    if (loadBits(b, width, i) != loadBits(b, width, 0))
      return false;
  return true;
}

bool Tensor::sameBytes(const Tensor &other) const {
  if (element_ != other.element_ || shape_ != other.shape_ || isNull() != other.isNull())
    return false;
  if (strings_)
    return *strings_ == *other.strings_;
  if (isNull() || bytes_ == other.bytes_)
    return true;
  // One place of a file may be read as several tensors.
  const llvm::ArrayRef<uint8_t> mine = bytes_->all, others = other.bytes_->all;
  return mine.size() == others.size() && (mine.data() == others.data() || mine == others);
}

} // namespace tenon

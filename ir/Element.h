// Defines the element types a tensor can hold: the ONNX list, with widths, names and classes.
#pragma once

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace tenon {

/// One row per element type: enumerator, name in IR text, bits, ONNX TensorProto code, class.
/// Classes: B boolean, S signed integer, U unsigned integer, F floating point, C complex, T text.
#define TENON_ELEMENT_TYPES(X)                                                                     \
  X(Bool, "i1", 8, 9, B)                                                                           \
  X(I2, "i2", 2, 26, S)                                                                            \
  X(I4, "i4", 4, 22, S)                                                                            \
  X(I8, "i8", 8, 3, S)                                                                             \
  X(I16, "i16", 16, 5, S)                                                                          \
  X(I32, "i32", 32, 6, S)                                                                          \
  X(I64, "i64", 64, 7, S)                                                                          \
  X(U2, "u2", 2, 25, U)                                                                            \
  X(U4, "u4", 4, 21, U)                                                                            \
  X(U8, "u8", 8, 2, U)                                                                             \
  X(U16, "u16", 16, 4, U)                                                                          \
  X(U32, "u32", 32, 12, U)                                                                         \
  X(U64, "u64", 64, 13, U)                                                                         \
  X(F4E2M1, "f4e2m1", 4, 23, F)                                                                    \
  X(F8E4M3, "f8e4m3", 8, 17, F)                                                                    \
  X(F8E4M3Z, "f8e4m3fnuz", 8, 18, F)                                                               \
  X(F8E5M2, "f8e5m2", 8, 19, F)                                                                    \
  X(F8E5M2Z, "f8e5m2fnuz", 8, 20, F)                                                               \
  X(F8E8M0, "f8e8m0", 8, 24, F)                                                                    \
  X(F16, "f16", 16, 10, F)                                                                         \
  X(BF16, "bf16", 16, 16, F)                                                                       \
  X(F32, "f32", 32, 1, F)                                                                          \
  X(F64, "f64", 64, 11, F)                                                                         \
  X(C64, "c64", 64, 14, C)                                                                         \
  X(C128, "c128", 128, 15, C)                                                                      \
  X(String, "str", 128, 8, T)

enum class Element : uint8_t {
#define TENON_ELEMENT(NAME, TEXT, BITS, ONNX, CLASS) NAME,
  TENON_ELEMENT_TYPES(TENON_ELEMENT)
#undef TENON_ELEMENT
};

llvm::StringRef name(Element e);
/// Storage width in bits; booleans take a byte, text an address and a length in generated code.
unsigned bitWidth(Element e);
/// What scalars of a storage type are computed in: f32 for narrower floats, else the type itself.
Element computeElement(Element e);
char elementClass(Element e);
llvm::Optional<Element> parseElement(llvm::StringRef text);
llvm::Optional<Element> elementFromOnnx(int code);
int onnxCode(Element e);

inline bool isFloat(Element e) { return elementClass(e) == 'F'; }
inline bool isSignedInt(Element e) { return elementClass(e) == 'S'; }
inline bool isUnsignedInt(Element e) { return elementClass(e) == 'U'; }
inline bool isInteger(Element e) { return isSignedInt(e) || isUnsignedInt(e); }
inline bool isBool(Element e) { return e == Element::Bool; }
inline bool isComplex(Element e) { return elementClass(e) == 'C'; }
/// Text and complex numbers: moved, but no scalar function takes them.
inline bool isOpaque(Element e) { return e == Element::String || isComplex(e); }

/// Bytes of `count` densely packed elements (sub-byte types packed, the last byte filled up); what
/// no memory holds, as that of open extents, counts as 2^58, so that sums of a few stay numbers.
inline int64_t byteSize(Element e, int64_t count) {
  constexpr int64_t most = int64_t(1) << 58;
  int64_t bits;
  if (__builtin_mul_overflow(count, int64_t(bitWidth(e)), &bits) || bits > 8 * most - 8)
    return most;
  return (bits + 7) / 8;
}

/// Smallest and largest value of an integer type, as the interpreter's 64-bit integers hold them
/// (u64 saturates at the largest signed value).
int64_t minInt(Element e);
int64_t maxInt(Element e);

} // namespace tenon

// Defines how matrices of constant weights are stored for runtime/cuda/strip/weights.cuh: tiles of
// 16 outputs as the lanes of a warp multiply them, and their scales.
#pragma once

#include "codegen/memory/Packing.h"

namespace tenon {

/// Constants whose attribute `stored` is kStrips: outputs along the outermost dimension of their
/// layout, and no more than one other that is not 1.
constexpr llvm::StringLiteral kStrips = "strips";

/// Of scales [outputs][blocks]: the bits of what they belong to, and how many times 32 elements
/// along k each is for.
struct StripScales {
  int64_t bits, repeat;
  std::string word() const; // `stored = scales4x1`
};
llvm::Optional<StripScales> stripScales(const Operation &constant);

/// The type and the elements as stored: [strips][elements of a strip], of bytes where weights are
/// integers.
Type stripsType(Type type);
Tensor stripsOf(const Tensor &value, Type type);
/// Writes strips [begin, end) of them to `out`.
void fillStrips(const Tensor &value, Type type, int64_t begin, int64_t end, uint8_t *out);
Type stripScalesType(Type type, const StripScales &scales);
Tensor stripScalesOf(const Tensor &value, const StripScales &scales);
void fillStripScales(const Tensor &value, const StripScales &scales, int64_t begin, int64_t end,
                     uint8_t *out);

} // namespace tenon

// Defines what the tactics for sums of 8-bit integers share: contractions as convolutions over
// (n, c, h, w), what all of them ask for, and how their operands are written.
#pragma once

#include "codegen/ConvProblem.h"
#include "codegen/Tactic.h"
#include "codegen/emit/StepWriter.h"

namespace tenon::cpu {

/// A convolution or a matrix product of 8-bit integers.
struct ByteContraction {
  ConvProblem conv;
  bool matrix = false, transB = false;
  /// Height and width change places: windows along the height only, over images of one column.
  bool upright = false;

  /// Strides of an operand over (n, c, h, w), and where the group's dimensions stand there.
  Strides plane(const Strides &s) const;
  llvm::SmallVector<int, 6> places() const;
  /// One filter for each channel.
  bool isDepthwise() const { return conv.isDepthwise() && conv.filters == 1; }
};

llvm::Optional<ByteContraction> byteContraction(const Operation &op, std::string &why);
/// The same for a group whose anchor it is, with constant int8 weights; None with the reason.
llvm::Optional<ByteContraction> matchByteContraction(const TacticInput &in, std::string &why);
/// The zero point of x, which has to be one number known at compile time.
llvm::Optional<int64_t> zeroPoint(const GroupForm &form, std::string &why);
/// Whether height and width of results are one dimension in memory, for what the body reads, too.
bool readsAlongLine(const TacticInput &in, const ByteContraction &q, std::string &why);
/// As reads_bytes in runtime/cpu/conv_pairs.h: no patch at all.
bool readsBytes(const TacticInput &in, const ByteContraction &q, const Schedule &schedule);
/// As window_in_place in runtime/cpu/conv_quads.h.
bool readsInPlace(const GroupForm &form, const ByteContraction &q);
void packFilters(const TacticInput &in, std::string stored, llvm::SmallVectorImpl<Packing> &out);
/// Of x, over (n, c, h, w).
Strides inputStrides(const GroupForm &form, const ByteContraction &q);

/// Appends `weight_bits` where the weights are to be stored in 2 or 4 bits, in groups of `lanes`
/// bytes: all fit, that is smaller, and the kernels' sums, which are 2^(8 - bits) times as large
/// then, stay in 32 bits.
void addWeightBits(const TacticInput &in, int64_t lanes, Schedule &schedule);
/// Whether filters may be stored in pairs (runtime/common/joined_weights.h): no weight is -128, and
/// no sum of a filter reaches 2^23 for any input.
bool joinsFilters(const TacticInput &in);
/// The word for what a schedule stores: weights of few bits in groups of so many bytes, or joined
/// filters; empty for plain bytes.
std::string storedWeights(const Schedule &schedule, int64_t lanes);

/// Packs weights as [filters][kernel_h][kernel_w][channels], those of less than 8 bits in groups of
/// so many bytes.
template <int64_t Lanes>
void packFilters(const TacticInput &in, const Schedule &schedule,
                 llvm::SmallVectorImpl<Packing> &out) {
  packFilters(in, storedWeights(schedule, Lanes), out);
}
/// Writes the extents of the window, and filters and channels.
void writeExtents(StepWriter::Config &cfg, const ByteContraction &q, bool depthwise);
/// Writes the views x, outs and ins, and the pointer w.
void writeOperands(StepWriter &out, const GroupForm &form, const ByteContraction &q);

/// Microseconds that so many instructions take on a microcontroller: the multiply-add rate of its
/// level allows four of these for each float one.
double instructionTime(const TargetLevel &level, double instructions);

} // namespace tenon::cpu

// Defines what the tactics for sums of 8-bit integers share: contractions as convolutions over
// (n, c, h, w), what all of them ask for, and how their operands are written.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/TacticOf.h"
#include "codegen/emit/StepWriter.h"
#include "ir/Tensor.h"

namespace tenon::cpu {

/// A convolution or a matrix product of 8-bit integers. Matrices of rows before each other are rows
/// of one image, and these images of a batch.
struct ByteContraction {
  ConvProblem conv;
  bool matrix = false, transA = false, transB = false;
  unsigned rank = 2; // of a product
  /// Height and width change places: windows along the height only, over images of one column.
  bool upright = false;

  /// Strides of an operand over (n, c, h, w), and where the group's dimensions stand there.
  Strides plane(const Strides &s) const;
  llvm::SmallVector<int, 6> places() const;
  /// One filter for each channel.
  bool isDepthwise() const { return conv.isDepthwise() && conv.filters == 1; }
};

/// The problem with height and width in each other's place.
ConvProblem turned(ConvProblem p);

/// A group whose anchor is one, with constant int8 weights, as the tactics take it.
struct ByteProblem {
  GroupQuery in;
  ByteContraction q;
  /// Zero point of x; None where it is known only at run time: an element that anchorInputs[2]
  /// reads.
  llvm::Optional<int64_t> zero;
  const Tensor *weightZeros = nullptr; // one, or one of each filter; null: all are 0
  Strides x;                           // of x, over (n, c, h, w)

  const ConvProblem &conv() const { return q.conv; }
  /// Multiply-adds of a sum.
  int64_t depth() const { return q.conv.channels * q.conv.kernelH * q.conv.kernelW; }
  int64_t pixels() const { return (q.conv.batch * q.conv.outHeight * q.conv.outWidth).upper(); }
  /// The values of the weights, and the operand that they are.
  const Tensor &weights() const;
  Value *weightsOperand() const { return in.form.anchorInputs[1].inputs[0].source; }
  /// As window_in_place in runtime/cpu/conv_quads.h.
  bool readsInPlace() const;
};

Result<ByteProblem> byteProblem(const GroupQuery &in);
/// The same for kernels that take weights without a zero point only, and one of x that is known.
Result<ByteProblem> plainByteProblem(const GroupQuery &in);
Result<> hasOneGroup(const ByteProblem &p);
Result<> isDepthwise(const ByteProblem &p);
/// Whether height and width of results are one dimension in memory, for what the body reads, too.
Result<> readsAlongLine(const ByteProblem &p);

/// The schedule of a tactic that has only the weights to choose.
struct FieldSchedule {
  int64_t weightBits = 8;
  static llvm::ArrayRef<Field<FieldSchedule>> fields();
};
/// How many bits a weight may take.
template <class S> Field<S> weightBitsField() {
  return {"weight_bits", &S::weightBits, oneOf(2, 4, 8), 8};
}
/// The bits that weights take least bytes in, where they are to be stored in groups of `lanes`
/// bytes: 8 unless they are packed.
int64_t fewestBits(const ByteProblem &p, int64_t lanes);
/// Whether all weights fit into so many bits, and the kernels' sums, which are 2^(8 - bits) times
/// as large then, stay in 32 bits.
bool fitsBits(const ByteProblem &p, int64_t bits);
template <class T> Result<> fitsBits(const ByteProblem &p, const typename T::Schedule &s) {
  if (fitsBits(p, s.weightBits))
    return Accepted{};
  return impossible<T>(s, "not all weights fit into so few bits, or sums would not stay in 32");
}
/// Whether filters may be stored in pairs (runtime/common/joined_weights.h): no weight is -128, and
/// no sum of a filter reaches 2^23 for any input.
bool joinsFilters(const ByteProblem &p);
/// The word for weights of few bits in groups of so many bytes; empty for plain bytes.
std::string storedWeights(int64_t bits, int64_t lanes);
/// Packs weights as [filters][kernel_h][kernel_w][channels].
void packFilters(const ByteProblem &p, std::string stored, llvm::SmallVectorImpl<Packing> &out);

/// Writes the extents of the window, and filters and channels.
void writeExtents(StepWriter::Config &cfg, const ByteContraction &q, bool depthwise);
/// Writes the views x, outs and ins, and the pointer w.
void writeOperands(StepWriter &out, const ByteProblem &p);

/// Microseconds that so many instructions take on a microcontroller: the multiply-add rate of its
/// level allows four of these for each float one.
double instructionTime(const TargetLevel &level, double instructions);

} // namespace tenon::cpu

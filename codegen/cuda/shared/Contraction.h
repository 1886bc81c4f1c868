// Defines what the tactics of contractions share (contract_simt, contract_mma_sm80,
// conv_patch_sm80, ...): the reading of conv and matmul groups as one problem, tiles, and the text
// of the call.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {

/// A conv or matmul group as kernels of tiles take it: M x K times K x N per slice.
struct Contraction {
  bool isConv = false;
  ConvProblem conv;            // isConv
  Dim batch0, batch1, m, n, k; // matmul; rows of batches that lie as one matrix are in m
  /// matmul: which dimensions, counted from the last (1), batch0, batch1 and rows step along; 0:
  /// none.
  unsigned batch0Dim = 0, batch1Dim = 0, rowDim = 2;
  bool transA = false, transB = false; // matmul
  /// The tensor that A is read from, among the inputs of its program; others are a prologue that
  /// varies along K only.
  unsigned mainInput = 0;
  bool hasPrologue = false;
  /// The prologue may be applied to what is multiplied (runtime/cuda/tile/fragment_prologue.cuh),
  /// and bytes of shared memory for what it reads beside A.
  bool onFragments = false;
  int64_t stagedBytes = 0;
  /// B is a constant that is packed in tiles; otherwise (matmul only) a view.
  bool isPacked = false;
  Element a = Element::F32, b = Element::F32; // stored elements
  int64_t xZero = 0;                          // the zero point of x; integers

  // Upper bounds.
  int64_t rows() const, columns() const, depth() const, slices() const;
  /// Elements of A that are neighbours along K.
  int64_t neighbours() const { return isConv ? conv.channels : depth(); }
};

/// Stride along a dimension counted from the last (1), as in Contraction::rowDim; 0 where there is
/// none.
Dim strideFromLast(const Strides &s, unsigned dim);

/// The zero point of x of an integer contraction, 0 where there is none. Refused where it is not
/// known, or where the weights have one.
Result<int64_t> readZeroPoint(const GroupForm &form);

Result<Contraction> readContraction(const GroupQuery &in);

/// A group as most tactics of contractions take it.
struct ContractionProblem {
  GroupQuery in;
  Contraction c;
  double bytes; // that operands and results have
};
double movedBytes(const GroupQuery &in);
/// The group, where `condition` of its contraction holds.
template <class Condition>
Result<ContractionProblem> readContraction(const GroupQuery &in, Condition condition) {
  Result<Contraction> c = readContraction(in);
  if (!c)
    return std::move(c).refusal();
  if (Result<> holds = condition(*c); !holds)
    return std::move(holds).refusal();
  return ContractionProblem{in, *std::move(c), movedBytes(in)};
}

/// Whether the body of `form` reads what the anchor of `beside` makes at its own place alone.
Result<> readsBeside(const GroupForm &form, const GroupForm &beside);
/// The body of a group with anchors beside its own as one of all their sums: those of
/// `form.beside` are results 1 and following of the anchor.
ScalarProgram bodyOfSums(const GroupForm &form);
/// The elements of those sums.
llvm::SmallVector<Element, 2> sumsOf(const GroupForm &form);

/// Whether rows meet constant weights: one matrix product, or a convolution of one point.
Result<> multipliesRows(const Contraction &c);
/// Those rows, as one extent, and strides over (row, column); `transposed`: of A as trans_a has it.
Dim rowsOf(const Contraction &c);
Strides rowStrides(const Contraction &c, const Strides &s, bool transposed = false);

/// Whether f32 holds what A is stored as, on its way through registers: halves; where a prologue
/// makes floats of them, also booleans and integers of up to 16 bits.
bool loadsIntoF32(const Contraction &c);

/// Whether these operands are multiplied in fp32 on CUDA cores. A may be stored otherwise where a
/// prologue converts it.
Result<> multipliesInF32(const GroupQuery &in, const Contraction &c);

/// What Tensor Cores multiply, by the element of A: floats of 16 bits or f32 as tf32; bytes, with
/// sums of integers; f8e4m3.
enum class Multiplicand : uint8_t { Float, Byte, Float8 };
Multiplicand multiplicandOf(const GroupForm &form);

/// The machines that a kernel of warp-wide mma instructions is for.
struct MmaGeneration {
  unsigned firstSm, endSm; // [first, end)
  bool bf16;
};
/// sm_75, and sm_80 and up; those from sm_89 on multiply f8e4m3, too.
constexpr MmaGeneration kMmaSm75 = {75, 80, false}, kMmaSm80 = {80, ~0u, true},
                        kMmaSm89 = {89, ~0u, true};
bool isMachineOf(const MmaGeneration &g, const TargetLevel &level);
/// The same as a reason not to match.
Result<> isFor(const MmaGeneration &g, const TargetLevel &level);
/// Whether the Tensor Cores of `g` multiply these operands. A may be stored otherwise where a
/// prologue converts it.
Result<> multipliesOn(const MmaGeneration &g, const GroupQuery &in, const Contraction &c);

/// The machine that multiplies by warpgroups (wgmma).
bool hasWgmma(const TargetLevel &level);
/// Why a kernel of these instructions is not for the level.
Result<> wantsWgmma(const TargetLevel &level);

/// Whether these are bytes times signed constants, with exact 32-bit sums; and on Tensor Cores.
Result<> multipliesBytes(const GroupQuery &in, const Contraction &c);
Result<> multipliesBytesOn(const MmaGeneration &g, const GroupQuery &in, const Contraction &c);
/// Whether both operands are f8e4m3, the second a constant.
Result<> multipliesFloat8(const GroupQuery &in, const Contraction &c);

/// Costs of fp16 contractions compare on a scale on which wgmma takes as much of its time by the
/// clock (Tactic::clock), for in networks contract_mma loses more than its own times say.
constexpr double kContractionScale = 1 / 2.3;
/// The fewest rows on that scale.
constexpr int64_t kScaledRows = 16;

/// How the contraction of a group multiplies operands of f32: "tf32" or "tf32x3"; empty: as they
/// are (or they are not f32).
llvm::StringRef multipliedAs(const GroupForm &form);

/// What Tensor Cores must not miss, as words for a message: the contraction of a group when it is
/// in 8 or 16 bits or tf32 with at least 16 channels a group and more than one row of output. None
/// otherwise, and for chains.
llvm::Optional<std::string> worthTensorCores(const GroupForm &form);

/// Tiles of a block and what they are cut into (parts of warps, or of threads).
struct ContractionTiles {
  int64_t tileM, tileN, tileK, partM, partN, stages;
};
/// And into how many parts K is split, among blocks, and a tile's K among teams of a block; a
/// schedule's numbers.
struct SplitTiles : ContractionTiles {
  int64_t splits, intraBlockSplitK;
};

/// Whether B can be packed in blocks of `tileN` columns: blocks do not straddle groups.
bool packsIn(const Contraction &c, int64_t tileN);
/// Whether the filters of a group fill no tiles of any size: the kernels that can (contract_mma)
/// take such weights as rows along K.
bool packsInRows(const Contraction &c);
/// Weights as rows along K.
struct RowPacking {
  bool columnsFirst;           // the product's columns are outermost, else beside K
  int64_t multiple = 1;        // elements that a row is rounded up to with zeros
  llvm::StringRef stored = {}; // Packing::stored
};
void packRows(const GroupForm &form, const Contraction &c, const RowPacking &rows,
              llvm::SmallVectorImpl<Packing> &out);
/// Rows of every filter, [n][k], rounded up to 16 bytes; the layout always says so.
void packPaddedRows(const ContractionProblem &p, llvm::SmallVectorImpl<Packing> &out);
/// The weights' layout as tiles of columns, along K one after the other; zero beyond the last.
void packContractionTiles(const ContractionProblem &p, int64_t tileN,
                          llvm::SmallVectorImpl<Packing> &out);
/// Filters of a depthwise convolution with the channels innermost: [kernel_h][kernel_w][channels *
/// filters].
void packDepthwiseFilters(const GroupForm &form, llvm::SmallVectorImpl<Packing> &out);

/// Number of output tiles over all slices.
int64_t tileCount(const Contraction &c, const ContractionTiles &t);

/// Ways to split K that give every multiprocessor a block.
llvm::SmallVector<int64_t, 4> splitsFor(const Contraction &c, const TargetLevel &level,
                                        const ContractionTiles &t);

/// What tactics share whose blocks have tiles of the result, or parts of their sums over K.
struct SplitContraction {
  using Problem = ContractionProblem;

  static KeyValues computed(const Problem &p, const SplitTiles &s);
  static int64_t scratch(const Problem &p, const SplitTiles &s);
  static int64_t zeroed(const Problem &p, const SplitTiles &s);
};

/// Bytes of shared memory that a block of a kernel of `blocks` takes at least, where these are no
/// more than multiprocessors: two on one, placed there while the kernel before still runs on
/// others, would take twice as long. 0: any number.
int64_t leastShared(const TargetLevel &level, int64_t blocks);

/// Whether all that a body reads, and all that a group's body reads and writes, is known to start
/// at a multiple of 16 bytes, over what the kernel walks.
bool areInputsAligned(const ScalarProgram &body, const StepWriter &out,
                      llvm::function_ref<Strides(const Strides &)> over);
bool areResultsAligned(const GroupForm &form, const StepWriter &out,
                       llvm::function_ref<Strides(const Strides &)> over);

/// Whether nothing but its channel (dimension 1) decides what becomes of a sum: what stands between
/// a convolution and another anchor in the same kernel.
Result<> isOfChannels(const ScalarProgram &body);

/// The parts of a contraction's call, in the order in which they are written. One that is not
/// moved.
class ContractionCall {
public:
  /// Opens the configuration: what the kernel walks, and the members of the schedule.
  ContractionCall(const GroupQuery &in, const Contraction &c, const KeyValues &members,
                  StepWriter &out);
  ContractionCall(const ContractionCall &) = delete;
  ContractionCall &operator=(const ContractionCall &) = delete;

  const Contraction &contraction() const { return contraction_; }
  StepWriter::Config cfg;
  /// Of strides over the anchor's result, those over what the kernel walks.
  std::function<Strides(const Strides &)> over;
  /// Ends the configuration; its name. alignedResults: see areResultsAligned.
  std::string finish(bool alignedResults);
  /// Writes `x` and `w`; `weights` is the type of packed B, of which a product beside has one, too.
  void writeOperands(llvm::StringRef weights = "packed_weights");
  /// Appends the functor and the operands of the prologue, where there is one.
  void appendPrologue(std::vector<std::string> &arguments);

private:
  /// Over (b0, b1, row, column).
  Strides matrix(const Strides &from, bool transposed) const;

  Contraction contraction_;
  const GroupForm &form_;
  StepWriter &out_;
  Strides a_; // of x
};

/// Whether a kernel that can split K takes scratch memory for it: it has no such parameter, nothing
/// is split, or it is.
enum class SplitScratch : uint8_t { None, Unused, Used };
inline SplitScratch scratchOf(int64_t splits) {
  return splits > 1 ? SplitScratch::Used : SplitScratch::Unused;
}

/// Writes configuration with the schedule's `members`, body and the call of `conv_<kernel>` or
/// `matmul_<kernel>`; `weights` is the type of packed B. Extents are constants unless
/// StepWriter::letShapeVary() was said before. The body of a group with products beside its own is
/// that of their sums (bodyOfSums).
void emitContraction(const GroupQuery &in, const Contraction &c, const KeyValues &members,
                     SplitScratch scratch, StepWriter &out, llvm::StringRef kernel,
                     llvm::StringRef weights = "packed_weights");

} // namespace tenon::cuda

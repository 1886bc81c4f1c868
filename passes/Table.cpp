// The table of passes, patterns and fusions: everything with a stable id. `tenon passes` prints
// it. Each pass is followed by its parts; where they are explained is the pass's own file.
#include "passes/Aliases.h"
#include "passes/Pass.h"

#include "passes/AbsorbPad.h"
#include "passes/AssignBranches.h"
#include "passes/AssignLayout.h"
#include "passes/AssignPrecision.h"
#include "passes/BundleGroups.h"
#include "passes/Canonicalize.h"
#include "passes/CausalAttention.h"
#include "passes/CenterChannels.h"
#include "passes/ConcatInPlace.h"
#include "passes/ConstantChannels.h"
#include "passes/Cse.h"
#include "passes/Dce.h"
#include "passes/DecomposeConvTranspose.h"
#include "passes/EliminateTranspose.h"
#include "passes/FlattenControlFlow.h"
#include "passes/Float8Arithmetic.h"
#include "passes/Fold.h"
#include "passes/FoldConvScale.h"
#include "passes/Fuse.h"
#include "passes/GatherRows.h"
#include "passes/IntegerArithmetic.h"
#include "passes/Isolate.h"
#include "passes/MergeReductions.h"
#include "passes/MergeSiblings.h"
#include "passes/NarrowWeights.h"
#include "passes/Patches.h"
#include "passes/PointwiseProducts.h"
#include "passes/QuantizedIo.h"
#include "passes/RaiseAttention.h"
#include "passes/RaiseNormalize.h"
#include "passes/RaiseRecurrent.h"
#include "passes/SplitProducts.h"
#include "passes/quantize/Quantize.h"

#include "llvm/ADT/Twine.h"

namespace tenon {
namespace {

constexpr RowKind Pass = RowKind::Pass, Pattern = RowKind::Pattern, Fusion = RowKind::Fusion;

const PassOption kFoldOptions[] = {
    {"max-bytes", 1 << 20, "largest result that is folded however small its operands are"},
    {"max-growth", 8, "larger results are folded up to this multiple of their operands"},
    {"keep-quantized", 0, "1: dequantised constants stay integers"},
};
const PassOption kPatchesOptions[] = {
    {"windows", 1, "convolutions and pools from an input on that are computed so"},
    {"count", 2, "strips"},
};
const PassOption kFuseOptions[] = {
    {"max-inputs", 16, "operands a group may have"},
};

const PassOption kAlignment[] = {
    {"alignment", 0, "bytes on which windows of a buffer start; 0: what the target wants"},
};

const PassOption kPrecision[] = {
    {"bits", 0, "16: fp16 for all; 0: what --precision says"},
};
const PassOption kBranches[] = {
    {"branches", 0, "sequences that run side by side at most; 0: what the target wants"},
};

const PassOption kRanges[] = {
    {"ranges", 0, "file of ranges, as tenon calibrate --save-ranges writes it", true},
};
const PassOption kApart[] = {
    {"apart", 0, "1: no result takes over an operand's memory"},
};

const PassInfo kTable[] = {
    // RaiseRecurrent.cpp
    {Pass, "raise-recurrent", "loops of recurrent cells become one operation", runRaiseRecurrent},
    {Pattern, "raise-recurrent.loop", "a product of a state, and maps over rows and units"},

    // FlattenControlFlow.cpp
    {Pass, "flatten-control-flow", "loops and branches become plain operations",
     runFlattenControlFlow},
    {Pattern, "flatten-control-flow.chosen-table", "rows of both tables, then a selection"},
    {Pattern, "flatten-control-flow.if", "both branches, then a selection"},
    {Pattern, "flatten-control-flow.loop",
     "one copy of the body for each of a known number of trips"},

    // Canonicalize.cpp, SimplifyBody.cpp
    {Pass, "canonicalize", "brings the graph into its simplest form", runCanonicalize},
    {Pattern, "canonicalize.splat-operand", "map(x, splat c) reads c as a constant of its body"},
    {Pattern, "canonicalize.scalar-fold", "scalar functions of constants"},
    {Pattern, "canonicalize.scalar-power", "x ^ 3 = x * x * x and other small powers and roots"},
    {Pattern, "canonicalize.scalar-identity", "x * 1 = x and its like, exact in IEEE arithmetic"},
    {Pattern, "canonicalize.dead-operand", "operands that a body does not read"},
    {Pattern, "canonicalize.duplicate-operand", "operands read twice alike"},
    {Pattern, "canonicalize.copy-into-map", "broadcasts and permutations become index maps"},
    {Pattern, "canonicalize.reshape-below-map", "map(reshape x, c) = reshape(map(x, c))"},
    {Pattern, "canonicalize.unit-reshape-into-map", "extents of 1 added or dropped before a map"},
    {Pattern, "canonicalize.identity-map", "maps that yield what they read"},
    {Pattern, "canonicalize.widened-bias", "attention widens a bias of 16 bits itself"},
    {Pattern, "canonicalize.widened-normalize",
     "normalisations widen elements of 16 bits themselves"},
    {Pattern, "canonicalize.repeated-heads", "attention shares heads of keys and values itself"},
    {Pattern, "canonicalize.unit-reduce", "reductions over extents of 1"},
    {Pattern, "canonicalize.reshape-noop", "reshapes to the same shape"},
    {Pattern, "canonicalize.reshape-of-reshape", "the last reshape decides"},
    {Pattern, "canonicalize.transpose-noop", "transposes that permute nothing"},
    {Pattern, "canonicalize.transpose-of-transpose", "permutations compose, or cancel"},
    {Pattern, "canonicalize.unit-transpose", "transposes that only move extents of 1 are reshapes"},
    {Pattern, "canonicalize.transposed-reshape",
     "reshapes of leading dimensions between two transposes of the others"},
    {Pattern, "canonicalize.reshaped-softmax",
     "a softmax between reshapes of leading dimensions, there and back"},
    {Pattern, "canonicalize.normalized-pieces",
     "normalised pieces of rows (heads) are no rows of a longer list"},
    {Pattern, "canonicalize.slice-noop", "slices that take everything"},
    {Pattern, "canonicalize.slice-of-slice", "starts and steps compose"},
    {Pattern, "canonicalize.slice-of-concat", "slices within one operand of a concat"},
    {Pattern, "canonicalize.pad-noop", "pads by nothing"},
    {Pattern, "canonicalize.pad-of-pad", "constant pads add up"},
    {Pattern, "canonicalize.concat-noop", "concats of one operand, and empty operands"},
    {Pattern, "canonicalize.concat-of-concat", "nested concats along one axis"},
    {Pattern, "canonicalize.concat-run",
     "a run of operands that another concat has joined already"},
    {Pattern, "canonicalize.gather-constant", "gathers at one known index are slices"},
    {Pattern, "canonicalize.gather-ramp", "gathers at positions one after another are slices"},
    {Pattern, "canonicalize.last-query", "a query behind all keys has no order to keep"},
    {Pattern, "canonicalize.pool-noop", "pools over windows of one element"},
    {Pattern, "canonicalize.resize-noop", "resizes to the same size"},
    {Pattern, "canonicalize.if-constant", "conditions known at compile time"},
    {Pattern, "canonicalize.captured-constant",
     "constants stand where a loop or a branch reads them"},

    // Fold.cpp
    {Pass, "fold", "evaluates at compile time what is known then", runFold, kFoldOptions},
    {Pattern, "fold.evaluate", "operations on constants"},
    {Pattern, "fold.value", "shape arithmetic whose value is known through inference"},
    {Pattern, "fold.empty", "operations whose results have no elements"},

    // Cse.cpp
    {Pass, "cse", "computes equal things once", runCse},
    {Pattern, "cse.op", "equal operations, regions included"},
    {Pattern, "cse.scalar", "equal scalars in a body"},

    // Dce.cpp
    {Pass, "dce", "removes what nothing depends on", runDce},
    {Pattern, "dce.dead-op", "operations without uses"},
    {Pattern, "dce.dead-result", "results of maps, groups and ifs without uses"},
    {Pattern, "dce.dead-operand", "captured operands that no region reads"},

    // IntegerArithmetic.cpp
    {Pass, "integer-arithmetic", "quantised islands compute with integers", runIntegerArithmetic},
    {Pattern, "integer-arithmetic.movement", "dequantize below what only moves elements"},
    {Pattern, "integer-arithmetic.concat", "quantize above concat"},
    {Pattern, "integer-arithmetic.rescale", "sums, contractions and averages in fixed point"},
    {Pattern, "integer-arithmetic.float-products",
     "rescaling by fused multiply-adds of f32, where targets have it cheaper"},
    {Pattern, "integer-arithmetic.mul-high",
     "rescaling in 32 bits, where what they drop decides nothing"},
    {Pattern, "integer-arithmetic.short-products",
     "rescaling in 32 bits by multipliers of few bits"},
    {Pattern, "integer-arithmetic.zero-point", "sums of x - z become sums of x less a constant"},
    {Pattern, "integer-arithmetic.table", "other functions of one tensor of bytes look it up"},
    {Pattern, "integer-arithmetic.softmax", "softmax of bytes sums entries of a table"},
    {Pattern, "integer-arithmetic.contract", "contractions that floats follow sum integers"},
    {Pattern, "integer-arithmetic.signed-weights",
     "weights of unsigned bytes are signed ones, without a zero point where they fit"},

    // Float8Arithmetic.cpp
    {Pass, "float8-arithmetic", "products of tensors in f8e4m3 multiply these",
     runFloat8Arithmetic},
    {Pattern, "float8-arithmetic.contract", "scales move behind convolutions and matrix products"},
    {Pattern, "float8-arithmetic.reciprocal",
     "what is stored in f8e4m3 is multiplied, not divided"},

    // NarrowWeights.cpp
    {Pass, "narrow-weights", "products with dequantised constants keep those narrow",
     runNarrowWeights},
    {Pattern, "narrow-weights.matmul", "matrix products, scales for blocks along k"},

    // MergeSiblings.cpp
    {Pass, "merge-siblings", "products of one tensor become one (CUDA; others: -O3)",
     runMergeSiblings},
    {Pattern, "merge-siblings.products", "with factors and biases of each column behind them"},

    // SplitProducts.cpp
    {Pass, "split-products", "products whose columns maps read as two halves become two (sm_90a)",
     runSplitProducts},
    {Pattern, "split-products.halves", "with maps of each column between them and the halves"},

    // quantize/Quantize.cpp
    {Pass, "quantize", "floats go through 8 bits around layers, as a file of ranges says",
     runQuantize, kRanges},
    {Pattern, "quantize.layer", "a layer with its weights and what it reads and gives"},

    // ConstantChannels.cpp
    {Pass, "constant-channels", "channels of known values are not computed", runConstantChannels},
    {Pattern, "constant-channels.remove", "filters whose integers are known from the weights"},

    // QuantizedIo.cpp
    {Pass, "quantized-io", "quantisation at the borders is the caller's (--io quantized)",
     runQuantizedIo},
    {Pattern, "quantized-io.input", "inputs that are only quantised"},
    {Pattern, "quantized-io.output", "outputs that are dequantised"},
    {Pattern, "quantized-io.softmax", "outputs that are a softmax of what is dequantised"},

    // Patches.cpp
    {Pass, "patches", "the first windows are computed strip by strip (--ram-limit)", runPatches,
     kPatchesOptions},
    {Pattern, "patches.strips", "chains of windows and maps from an input on"},

    // RaiseNormalize.cpp
    {Pass, "raise-normalize", "normalisations made of reductions and maps become one operation",
     runRaiseNormalize},
    {Pattern, "raise-normalize.map", "deviations over the root of their mean square"},
    {Pattern, "raise-normalize.length", "rows over their length, or over a bound below it"},
    {Pattern, "raise-normalize.scale",
     "map(reshape(normalize x), c) = reshape(map(normalize x, c))"},
    {Pattern, "raise-normalize.split", "normalize(reshape x) over the dimensions of x"},

    // RaiseAttention.cpp
    {Pass, "raise-attention",
     "attention made of products, maps and a softmax becomes one operation", runRaiseAttention},
    {Pattern, "raise-attention.split", "scores that are reshaped for a map and back"},
    {Pattern, "raise-attention.matmul", "products with a softmax of products"},
    {Pattern, "raise-attention.parts", "a bias of rows and columns of keys as two parts"},

    // CausalAttention.cpp
    {Pass, "causal-attention", "a bias by which queries see no later keys is an attribute",
     runCausalAttention},
    {Pattern, "causal-attention.mask", "constant biases that hide what lies above a diagonal"},
    {Pattern, "causal-attention.positions",
     "biases that hide keys by positions, which follow from extents"},

    // FoldConvScale.cpp
    {Pass, "fold-conv-scale", "per-channel scale and shift go into weights and bias",
     runFoldConvScale},
    {Pattern, "fold-conv-scale.output", "scales behind a contraction (batch normalisation)"},
    {Pattern, "fold-conv-scale.zero-bias", "contractions plus zero"},
    {Pattern, "fold-conv-scale.input", "scales, and shifts where nothing is padded, before one"},

    // DecomposeConvTranspose.cpp
    {Pass, "decompose-conv-transpose", "transposed convolutions become ordinary ones",
     runDecomposeConvTranspose},
    {Pattern, "decompose-conv-transpose.into-concat",
     "one convolution for each phase of every axis: of groups, of volumes, and where a concat of "
     "channels reads them"},
    {Pattern, "decompose-conv-transpose.phases",
     "one convolution for each phase of the rows, with filters for those of the columns"},

    // BundleGroups.cpp
    {Pass, "bundle-groups", "grouped convolutions of volumes get fewer groups", runBundleGroups},
    {Pattern, "bundle-groups.volume", "filters over the channels of several groups, with zeros"},

    // PointwiseProducts.cpp
    {Pass, "pointwise-products", "convolutions of single pixels become matrix products",
     runPointwiseProducts},
    {Pattern, "pointwise-products.conv", "where nothing around it wants channels innermost"},

    // MergeReductions.cpp
    {Pass, "merge-reductions", "reductions of the same tensors read these once",
     runMergeReductions},
    {Pattern, "merge-reductions.sibling", "one with the results of both"},

    // AbsorbPad.cpp
    {Pass, "absorb-pad", "explicit pads become those of the windows behind them", runAbsorbPad},
    {Pattern, "absorb-pad.reshape", "reshapes by extents of 1 between a pad and a window"},
    {Pattern, "absorb-pad.conv", "zero padding before a convolution"},
    {Pattern, "absorb-pad.average-pool", "zero padding before an average that counts it"},
    {Pattern, "absorb-pad.max-pool", "padding with the lowest value before a maximum"},

    // EliminateTranspose.cpp
    {Pass, "eliminate-transpose", "moves transposes down until they cancel or reach the outputs",
     runEliminateTranspose},
    {Pattern, "eliminate-transpose.map", "below maps whose large operands are transposed alike"},
    {Pattern, "eliminate-transpose.join",
     "maps of one transposed or reshaped tensor that meet again"},
    {Pattern, "eliminate-transpose.reduce", "below reductions"},
    {Pattern, "eliminate-transpose.softmax", "below softmax"},
    {Pattern, "eliminate-transpose.normalize", "below normalize"},
    {Pattern, "eliminate-transpose.slice-pad", "below slices and pads"},
    {Pattern, "eliminate-transpose.concat", "below concats of operands transposed alike"},
    {Pattern, "eliminate-transpose.matmul", "into a matrix product's flags"},
    {Pattern, "eliminate-transpose.split",
     "below a reshape that takes apart what one above merged"},
    {Pattern, "eliminate-transpose.rows", "of rows, below their product with a matrix"},
    {Pattern, "eliminate-transpose.merged-rows",
     "rows of a product with a matrix that are merged before it and taken apart behind it"},
    {Pattern, "eliminate-transpose.product",
     "of rows, from below their product with a matrix to a transpose above it"},
    {Pattern, "eliminate-transpose.shared",
     "behind slices that share out what was transposed and reshaped"},
    {Pattern, "eliminate-transpose.merge",
     "before a reshape that merges dimensions behind another transpose"},
    {Pattern, "eliminate-transpose.left",
     "around products with constants, which move to the left of what they multiply"},

    // GatherRows.cpp
    {Pass, "gather-rows", "rows that movement rearranges are gathered by a table", runGatherRows},
    {Pattern, "gather-rows.move", "rolls, and windows that are cut of images and put together"},

    // AssignPrecision.cpp, RoundWeights.cpp
    {Pass, "assign-precision", "tensors are stored, and contractions multiply, as --precision asks",
     runAssignPrecision, kPrecision},
    {Pattern, "assign-precision.weight-sums",
     "weights that meet numbers from 0 up are rounded so that their errors add up to little"},

    // AssignLayout.cpp
    {Pass, "assign-layout", "chooses the physical layout of every value", runAssignLayout,
     kAlignment},
    {Pattern, "assign-layout.channels-last",
     "convolutions, pools and resizes with channels innermost"},
    {Pattern, "assign-layout.follow",
     "maps, pads, concats, softmax and normalize keep the layout they read"},
    {Pattern, "assign-layout.view", "transposes and reshapes as views of their operand's buffer"},

    // Fuse.cpp, MergeMaps.cpp
    {Pass, "fuse", "forms groups: what one kernel computes", runFuse, kFuseOptions},
    {Fusion, "fuse.transpose-read", "maps read transposed tensors through index maps"},
    {Fusion, "fuse.reshaped-read", "maps of what a kernel makes in another shape join it"},
    {Fusion, "fuse.duplicate", "every reader dequantises for itself"},
    {Fusion, "fuse.pointwise", "chains of maps"},
    {Fusion, "fuse.conv-epilogue", "bias, activation and scale after a convolution"},
    {Fusion, "fuse.conv-residual", "maps that join a convolution with another tensor"},
    {Fusion, "fuse.matmul-epilogue", "bias, activation and scale after a matrix product"},
    {Fusion, "fuse.matmul-residual", "maps that join a matrix product with another tensor"},
    {Fusion, "fuse.pool-epilogue", "maps after a pool"},
    {Fusion, "fuse.reduce-epilogue", "maps after a reduction"},
    {Fusion, "fuse.scan-epilogue", "maps after a scan"},
    {Fusion, "fuse.softmax-epilogue", "maps after a softmax"},
    {Fusion, "fuse.attention-epilogue", "maps, such as the next quantisation, after attention"},
    {Fusion, "fuse.normalize-epilogue", "scale, bias and activation after a normalisation"},
    {Fusion, "fuse.resize-epilogue", "maps after a resize"},
    {Fusion, "fuse.gather-epilogue", "maps after a gather"},
    {Fusion, "fuse.reduce-prologue", "maps whose result is only reduced"},
    {Fusion, "fuse.prologue", "scale, shift, activation or dequantisation of an anchor's operand"},
    {Fusion, "fuse.movement", "slices, pads and transposes read by a map"},
    {Fusion, "fuse.concat-copy", "pads, slices and transposes are written straight into a concat"},
    {Fusion, "fuse.view-result",
     "reshapes and transposes before a concat join what makes the value"},
    {Fusion, "fuse.merge-maps", "the maps of a group become one body"},

    // CenterChannels.cpp
    {Pass, "center-channels",
     "16-bit tensors that only normalisations read are stored less their mean", runCenterChannels},
    {Pattern, "center-channels.stored",
     "results of maps and convolutions, through pools and concats"},

    // ConcatInPlace.cpp
    {Pass, "concat-in-place", "producers write straight into the concat's buffer", runConcatInPlace,
     kAlignment},
    {Fusion, "concat-in-place.operand", "one operand's layout becomes a window of the result's"},

    // Isolate.cpp
    {Pass, "isolate", "gives every other operation a group of its own", runIsolate, kApart, true},
    {Pattern, "isolate.op", "one operation, one group", nullptr, {}, true},

    // AssignBranches.cpp
    {Pass, "assign-branches", "groups that do not depend on each other run side by side",
     runAssignBranches, kBranches},
};

} // namespace

llvm::ArrayRef<PassInfo> passTable() { return kTable; }

std::string currentId(llvm::StringRef id) {
  constexpr llvm::StringLiteral kOld = "straighten", kNow = "flatten-control-flow";
  const bool isOld =
      id == kOld || (id.startswith(kOld) && (id[kOld.size()] == '.' || id[kOld.size()] == '*'));
  return isOld ? (kNow + id.drop_front(kOld.size())).str() : id.str();
}

const PassInfo *findRow(llvm::StringRef id) {
  const std::string current = currentId(id);
  for (const PassInfo &row : kTable)
    if (row.id == current)
      return &row;
  return nullptr;
}

} // namespace tenon

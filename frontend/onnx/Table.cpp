// The table of ONNX operators. One row per operator and range of opsets: domain, name, first and
// last opset, number of leading operands that must be there, function. Functions look at the
// opset themselves where only attributes moved. Sorted by domain and name.
#include "frontend/onnx/Table.h"

#include "frontend/Import.h"
#include "frontend/onnx/Operators.h"

#include <algorithm>

namespace tenon::frontend {
namespace {

constexpr llvm::StringLiteral kOnnx = "", kMicrosoft = "com.microsoft";

const OperatorRow kTable[] = {
    {kOnnx, "Abs", 1, kNewest, 1, importUnary<Op::Abs>},
    {kOnnx, "Acos", 7, kNewest, 1, importUnary<Op::Acos>},
    {kOnnx, "Acosh", 9, kNewest, 1, importUnary<Op::Acosh>},
    {kOnnx, "Add", 6, kNewest, 2, importBinary<Op::Add>},
    {kOnnx, "And", 6, kNewest, 2, importBinary<Op::LogicalAnd>},
    {kOnnx, "ArgMax", 1, kNewest, 1, importArgMax},
    {kOnnx, "ArgMin", 1, kNewest, 1, importArgMin},
    {kOnnx, "Asin", 7, kNewest, 1, importUnary<Op::Asin>},
    {kOnnx, "Asinh", 9, kNewest, 1, importUnary<Op::Asinh>},
    {kOnnx, "Atan", 7, kNewest, 1, importUnary<Op::Atan>},
    {kOnnx, "Atanh", 9, kNewest, 1, importUnary<Op::Atanh>},
    {kOnnx, "AveragePool", 6, kNewest, 1, importAveragePool},
    {kOnnx, "BatchNormalization", 6, kNewest, 5, importBatchNormalization},
    {kOnnx, "BitShift", 11, kNewest, 2, importBitShift},
    {kOnnx, "BitwiseAnd", 18, kNewest, 2, importBinary<Op::BitAnd>},
    {kOnnx, "BitwiseNot", 18, kNewest, 1, importUnary<Op::BitNot>},
    {kOnnx, "BitwiseOr", 18, kNewest, 2, importBinary<Op::BitOr>},
    {kOnnx, "BitwiseXor", 18, kNewest, 2, importBinary<Op::BitXor>},
    {kOnnx, "BlackmanWindow", 17, kNewest, 1, importBlackmanWindow},
    {kOnnx, "Cast", 6, kNewest, 1, importCast},
    {kOnnx, "CastLike", 15, kNewest, 2, importCastLike},
    {kOnnx, "Ceil", 6, kNewest, 1, importUnary<Op::Ceil>},
    {kOnnx, "Celu", 12, kNewest, 1, importCelu},
    {kOnnx, "CenterCropPad", 18, kNewest, 2, importCenterCropPad},
    {kOnnx, "Clip", 6, kNewest, 1, importClip},
    {kOnnx, "Concat", 4, kNewest, 1, importConcat},
    {kOnnx, "Constant", 1, kNewest, 0, importConstant},
    {kOnnx, "ConstantOfShape", 9, kNewest, 1, importConstantOfShape},
    {kOnnx, "Conv", 1, kNewest, 2, importConv},
    {kOnnx, "ConvInteger", 10, kNewest, 2, importConvInteger},
    {kOnnx, "ConvTranspose", 1, kNewest, 2, importConvTranspose},
    {kOnnx, "Cos", 7, kNewest, 1, importUnary<Op::Cos>},
    {kOnnx, "Cosh", 9, kNewest, 1, importUnary<Op::Cosh>},
    {kOnnx, "CumProd", 26, kNewest, 2, importCumProd},
    {kOnnx, "CumSum", 11, kNewest, 2, importCumSum},
    {kOnnx, "DepthToSpace", 1, kNewest, 1, importDepthToSpace},
    {kOnnx, "DequantizeLinear", 10, kNewest, 2, importDequantizeLinear},
    {kOnnx, "Div", 6, kNewest, 2, importBinary<Op::Div>},
    {kOnnx, "Dropout", 6, kNewest, 1, importDropout},
    {kOnnx, "DynamicQuantizeLinear", 11, kNewest, 1, importDynamicQuantizeLinear},
    {kOnnx, "Einsum", 12, kNewest, 1, importEinsum},
    {kOnnx, "Elu", 6, kNewest, 1, importElu},
    {kOnnx, "Equal", 6, kNewest, 2, importBinary<Op::Equal>},
    {kOnnx, "Erf", 9, kNewest, 1, importUnary<Op::Erf>},
    {kOnnx, "Exp", 6, kNewest, 1, importUnary<Op::Exp>},
    {kOnnx, "Expand", 8, kNewest, 2, importExpand},
    {kOnnx, "EyeLike", 9, kNewest, 1, importEyeLike},
    {kOnnx, "Flatten", 1, kNewest, 1, importFlatten},
    {kOnnx, "Floor", 6, kNewest, 1, importUnary<Op::Floor>},
    {kOnnx, "Gather", 1, kNewest, 2, importGather},
    {kOnnx, "GatherElements", 11, kNewest, 2, importGatherElements},
    {kOnnx, "GatherND", 11, kNewest, 2, importGatherND},
    {kOnnx, "Gelu", 20, kNewest, 1, importGelu},
    {kOnnx, "Gemm", 6, kNewest, 2, importGemm},
    {kOnnx, "GlobalAveragePool", 1, kNewest, 1, importGlobalAveragePool},
    {kOnnx, "GlobalLpPool", 2, kNewest, 1, importGlobalLpPool},
    {kOnnx, "GlobalMaxPool", 1, kNewest, 1, importGlobalMaxPool},
    {kOnnx, "Greater", 6, kNewest, 2, importBinary<Op::Greater>},
    {kOnnx, "GreaterOrEqual", 12, kNewest, 2, importBinary<Op::GreaterEqual>},
    {kOnnx, "GroupNormalization", 18, kNewest, 3, importGroupNormalization},
    {kOnnx, "HammingWindow", 17, kNewest, 1, importHammingWindow},
    {kOnnx, "HannWindow", 17, kNewest, 1, importHannWindow},
    {kOnnx, "HardSigmoid", 6, kNewest, 1, importHardSigmoid},
    {kOnnx, "HardSwish", 14, kNewest, 1, importHardSwish},
    {kOnnx, "Hardmax", 1, kNewest, 1, importHardmax},
    {kOnnx, "Identity", 1, kNewest, 1, importIdentity},
    {kOnnx, "If", 1, kNewest, 1, importIf},
    {kOnnx, "InstanceNormalization", 6, kNewest, 3, importInstanceNormalization},
    {kOnnx, "IsInf", 10, kNewest, 1, importIsInf},
    {kOnnx, "IsNaN", 9, kNewest, 1, importUnary<Op::IsNaN>},
    {kOnnx, "LRN", 1, kNewest, 1, importLRN},
    {kOnnx, "LayerNormalization", 17, kNewest, 2, importLayerNormalization},
    {kOnnx, "LeakyRelu", 6, kNewest, 1, importLeakyRelu},
    {kOnnx, "Less", 6, kNewest, 2, importBinary<Op::Less>},
    {kOnnx, "LessOrEqual", 12, kNewest, 2, importBinary<Op::LessEqual>},
    {kOnnx, "Log", 6, kNewest, 1, importUnary<Op::Log>},
    {kOnnx, "LogSoftmax", 1, kNewest, 1, importLogSoftmax},
    {kOnnx, "Loop", 1, kNewest, 0, importLoop},
    {kOnnx, "LpNormalization", 1, kNewest, 1, importLpNormalization},
    {kOnnx, "LpPool", 2, kNewest, 1, importLpPool},
    {kOnnx, "MatMul", 1, kNewest, 2, importMatMul},
    {kOnnx, "MatMulInteger", 10, kNewest, 2, importMatMulInteger},
    {kOnnx, "Max", 6, kNewest, 1, importMax},
    {kOnnx, "MaxPool", 1, kNewest, 1, importMaxPool},
    {kOnnx, "Mean", 6, kNewest, 1, importMean},
    {kOnnx, "MeanVarianceNormalization", 9, kNewest, 1, importMeanVarianceNormalization},
    {kOnnx, "Min", 6, kNewest, 1, importMin},
    {kOnnx, "Mish", 18, kNewest, 1, importMish},
    {kOnnx, "Mod", 10, kNewest, 2, importMod},
    {kOnnx, "Mul", 6, kNewest, 2, importBinary<Op::Mul>},
    {kOnnx, "Neg", 6, kNewest, 1, importUnary<Op::Neg>},
    {kOnnx, "NonZero", 9, kNewest, 1, importNonZero},
    {kOnnx, "Not", 1, kNewest, 1, importUnary<Op::LogicalNot>},
    {kOnnx, "OneHot", 9, kNewest, 3, importOneHot},
    {kOnnx, "Or", 6, kNewest, 2, importBinary<Op::LogicalOr>},
    {kOnnx, "PRelu", 6, kNewest, 2, importPRelu},
    {kOnnx, "Pad", 2, kNewest, 1, importPad},
    {kOnnx, "Pow", 6, kNewest, 2, importPow},
    {kOnnx, "QLinearConv", 10, kNewest, 8, importQLinearConv},
    {kOnnx, "QLinearMatMul", 10, kNewest, 8, importQLinearMatMul},
    {kOnnx, "QuantizeLinear", 10, kNewest, 2, importQuantizeLinear},
    {kOnnx, "RMSNormalization", 23, kNewest, 2, importRMSNormalization},
    {kOnnx, "Range", 11, kNewest, 3, importRange},
    {kOnnx, "Reciprocal", 6, kNewest, 1, importUnary<Op::Reciprocal>},
    {kOnnx, "ReduceL1", 1, kNewest, 1, importReduceL1},
    {kOnnx, "ReduceL2", 1, kNewest, 1, importReduceL2},
    {kOnnx, "ReduceLogSum", 1, kNewest, 1, importReduceLogSum},
    {kOnnx, "ReduceLogSumExp", 1, kNewest, 1, importReduceLogSumExp},
    {kOnnx, "ReduceMax", 1, kNewest, 1, importReduceMax},
    {kOnnx, "ReduceMean", 1, kNewest, 1, importReduceMean},
    {kOnnx, "ReduceMin", 1, kNewest, 1, importReduceMin},
    {kOnnx, "ReduceProd", 1, kNewest, 1, importReduceProd},
    {kOnnx, "ReduceSum", 1, kNewest, 1, importReduceSum},
    {kOnnx, "ReduceSumSquare", 1, kNewest, 1, importReduceSumSquare},
    {kOnnx, "Relu", 6, kNewest, 1, importUnary<Op::Relu>},
    {kOnnx, "Reshape", 5, kNewest, 2, importReshape},
    {kOnnx, "Resize", 10, kNewest, 1, importResize},
    {kOnnx, "ReverseSequence", 10, kNewest, 2, importReverseSequence},
    {kOnnx, "Round", 11, kNewest, 1, importUnary<Op::Round>},
    {kOnnx, "Scan", 9, kNewest, 1, importScan},
    {kOnnx, "Selu", 6, kNewest, 1, importSelu},
    {kOnnx, "Shape", 1, kNewest, 1, importShape},
    {kOnnx, "Shrink", 9, kNewest, 1, importShrink},
    {kOnnx, "Sigmoid", 6, kNewest, 1, importUnary<Op::Sigmoid>},
    {kOnnx, "Sign", 9, kNewest, 1, importUnary<Op::Sign>},
    {kOnnx, "Sin", 7, kNewest, 1, importUnary<Op::Sin>},
    {kOnnx, "Sinh", 9, kNewest, 1, importUnary<Op::Sinh>},
    {kOnnx, "Size", 1, kNewest, 1, importSize},
    {kOnnx, "Slice", 1, kNewest, 1, importSlice},
    {kOnnx, "Softmax", 1, kNewest, 1, importSoftmax},
    {kOnnx, "Softplus", 1, kNewest, 1, importSoftplus},
    {kOnnx, "Softsign", 1, kNewest, 1, importSoftsign},
    {kOnnx, "SpaceToDepth", 1, kNewest, 1, importSpaceToDepth},
    {kOnnx, "Split", 2, kNewest, 1, importSplit},
    {kOnnx, "Sqrt", 6, kNewest, 1, importUnary<Op::Sqrt>},
    {kOnnx, "Squeeze", 1, kNewest, 1, importSqueeze},
    {kOnnx, "Sub", 6, kNewest, 2, importBinary<Op::Sub>},
    {kOnnx, "Sum", 6, kNewest, 1, importSum},
    {kOnnx, "Swish", 24, kNewest, 1, importSwish},
    {kOnnx, "Tan", 7, kNewest, 1, importUnary<Op::Tan>},
    {kOnnx, "Tanh", 6, kNewest, 1, importUnary<Op::Tanh>},
    {kOnnx, "ThresholdedRelu", 10, kNewest, 1, importThresholdedRelu},
    {kOnnx, "Tile", 6, kNewest, 2, importTile},
    {kOnnx, "TopK", 1, kNewest, 1, importTopK},
    {kOnnx, "Transpose", 1, kNewest, 1, importTranspose},
    {kOnnx, "Trilu", 14, kNewest, 1, importTrilu},
    {kOnnx, "Unsqueeze", 1, kNewest, 1, importUnsqueeze},
    {kOnnx, "Upsample", 7, 9, 1, importUpsample},
    {kOnnx, "Where", 9, kNewest, 3, importWhere},
    {kOnnx, "Xor", 6, kNewest, 2, importBinary<Op::LogicalXor>},
    {kMicrosoft, "BiasGelu", 1, kNewest, 2, importBiasGelu},
    {kMicrosoft, "DequantizeLinear", 1, kNewest, 2, importDequantizeLinear},
    {kMicrosoft, "FastGelu", 1, kNewest, 1, importFastGelu},
    {kMicrosoft, "FusedMatMul", 1, kNewest, 2, importFusedMatMul},
    {kMicrosoft, "Gelu", 1, kNewest, 1, importGelu},
    {kMicrosoft, "QLinearAdd", 1, kNewest, 8, importQLinearAdd},
    {kMicrosoft, "QLinearMul", 1, kNewest, 8, importQLinearMul},
    {kMicrosoft, "QuantizeLinear", 1, kNewest, 2, importQuantizeLinear},
    {kMicrosoft, "SkipLayerNormalization", 1, kNewest, 3, importSkipLayerNormalization},
};

} // namespace

llvm::ArrayRef<OperatorRow> operatorTable() { return kTable; }

const OperatorRow *findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset) {
  auto key = std::make_pair(domain, name);
  auto at = std::lower_bound(
      std::begin(kTable), std::end(kTable), key,
      [](const OperatorRow &row, auto &k) { return std::make_pair(row.domain, row.name) < k; });
  for (; at != std::end(kTable) && at->domain == domain && at->name == name; ++at)
    if (opset >= at->since && opset <= at->until)
      return at;
  return nullptr;
}

} // namespace tenon::frontend

std::vector<tenon::SupportedOperator> tenon::supportedOperators() {
  std::vector<SupportedOperator> list;
  for (const frontend::OperatorRow &row : frontend::operatorTable())
    list.push_back({row.domain.empty() ? "ai.onnx" : row.domain, row.name, row.since, row.until});
  return list;
}

// Implements leastOpset.
#include "exporter/Opset.h"

#include "exporter/Export.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon::exporter {
namespace {

constexpr int kQuantisingOpset = 20;

/// Types that quantisation, or ONNX itself, has from opset 21 on.
bool isNewType(int32_t type) {
  switch (type) {
  case onnx::TensorProto::INT16:
  case onnx::TensorProto::UINT16:
  case onnx::TensorProto::INT4:
  case onnx::TensorProto::UINT4:
  case onnx::TensorProto::FLOAT4E2M1: return true;
  default: return false;
  }
}

bool isNewType(const onnx::ValueInfoProto &port) {
  return isNewType(port.type().tensor_type().elem_type());
}

bool needsNewest(const onnx::GraphProto &graph);

bool needsNewest(const onnx::NodeProto &node) {
  return llvm::any_of(node.attribute(), [](const onnx::AttributeProto &a) {
    if (a.name() == "block_size" || a.name() == "output_dtype")
      return true;
    return (a.name() == "to" && isNewType(int32_t(a.i()))) ||
           (a.has_t() && isNewType(a.t().data_type())) || (a.has_g() && needsNewest(a.g()));
  });
}

bool needsNewest(const onnx::GraphProto &graph) {
  auto isNew = [](const onnx::ValueInfoProto &port) { return isNewType(port); };
  return llvm::any_of(graph.input(), isNew) || llvm::any_of(graph.output(), isNew) ||
         llvm::any_of(graph.initializer(),
                      [](const onnx::TensorProto &t) { return isNewType(t.data_type()); }) ||
         llvm::any_of(graph.node(), [](const onnx::NodeProto &n) { return needsNewest(n); });
}

} // namespace

int leastOpset(const onnx::GraphProto &graph) {
  const bool quantises = llvm::any_of(
      graph.node(), [](const onnx::NodeProto &n) { return n.op_type() == "QuantizeLinear"; });
  return quantises && !needsNewest(graph) ? kQuantisingOpset : kExportOpset;
}

} // namespace tenon::exporter

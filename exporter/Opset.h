// Defines leastOpset: which opset a written graph says it is of.
#pragma once

#include "onnx-ml.pb.h"

namespace tenon::exporter {

/// Opset 20 for a graph that quantises and needs nothing of the next, else kExportOpset. In models
/// of opset 21 ONNX Runtime (seen in 1.31 and 1.32) moves quantisations with an `output_dtype`,
/// which it contradicts where the processor wants bytes without a sign, and then refuses the model.
int leastOpset(const onnx::GraphProto &graph);

} // namespace tenon::exporter

// Defines the export of a module as an ONNX model.
#pragma once

#include "ir/Diagnostics.h"

namespace tenon {

/// The newest that is written of the default domain: the first opset with integers of 4 bits and
/// scales of blocks.
constexpr int kExportOpset = 21;

struct ExportOptions {
  /// Auto: in the model, unless they would make it longer than protobuf allows.
  enum class Weights { Auto, Inline, File } weights = Weights::Auto;
  /// Of the file of weights, relative to the model's folder.
  std::string weightsFile = "model.onnx.data";
  /// Most bytes of weights that a model holds itself.
  int64_t inlineLimit = 2'000'000'000;
};

struct ExportedModel {
  /// The ModelProto.
  std::string bytes;
  /// What the file of weights holds, in order, each tensor at the next multiple of kAlignment; none
  /// where there is no such file.
  std::vector<Literal> weights;
  unsigned nodes = 0;
  int opset = kExportOpset;

  static constexpr int64_t kAlignment = 64;
  void writeWeights(llvm::raw_ostream &os) const;
};

/// The graph of `module`, of any stage, as operators of opset kExportOpset or, where it quantises
/// and needs nothing of that, the one before. What has no form there is reported with its node and
/// the reason; false then. The same module gives the same bytes.
bool exportModule(Module &module, const ExportOptions &options, ExportedModel &exported,
                  Diagnostics &diagnostics);

} // namespace tenon

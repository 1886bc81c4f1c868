// Declares what --decoder makes of a model: how its interface is read, and what stands for the
// inputs that follow from lengths. Internal to the frontend.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Reads the interface of a decoder and adds what it means to `options` (OnnxModel::readDecoder).
bool readDecoder(const onnx::GraphProto &graph, llvm::ArrayRef<DeclaredTensor> inputs,
                 llvm::ArrayRef<DeclaredTensor> outputs, const DecoderRequest &request,
                 ImportOptions &options, Diagnostics &diagnostics);

/// The interface of what is imported: the model's, and the tokens so far where `options.decoder`
/// carries them.
std::vector<DeclaredTensor> declaredInputs(const ImportOptions &options,
                                           llvm::ArrayRef<DeclaredTensor> inputs);
/// Makes the tokens so far those of the next run, where they are carried.
void carryText(const ImportOptions &options, Graph &graph, Builder &b,
               llvm::SmallVectorImpl<Value *> &results);

/// What an input is where `options.decoder` says that it follows from lengths; None for others.
llvm::Optional<Following> followingInput(const ImportOptions &options, llvm::StringRef input);

/// Makes the values of the inputs that follow from lengths known in `importer`; the others are
/// arguments of `graph` already. False after an error.
bool defineFollowing(ModelImport &state, Graph &graph, GraphImporter &importer,
                     llvm::ArrayRef<DeclaredTensor> inputs);

/// How an entry (ir/Entries.h) of a decoder is imported.
struct DecoderEntry {
  std::string name;
  ImportOptions options;
};

/// The entries beside `module`'s graph, that of the fewest tokens first: for one token, for the few
/// that a step may have, and for each length of pieces that the options ask for. None where all
/// runs take as many tokens.
std::vector<DecoderEntry> decoderEntries(const ImportOptions &options, Module &module);

/// Takes the logits of the last token where these alone are asked for, and notes in the module what
/// the program's interface has to know (decoderPorts in ir/DecoderPorts.h). False after an
/// error.
bool finishDecoder(ModelImport &state, Graph &graph);

} // namespace tenon::frontend

// Defines the options that shape what a compiler makes, as plain structures of words as a person
// types them, and what those mean to the libraries.
#pragma once

#include "frontend/Import.h"
#include "ir/Diagnostics.h"
#include "passes/Overflow.h"
#include "passes/PortForm.h"

#include <string>
#include <vector>

namespace tenon {

/// How a step, a command or the process ends.
enum Status : int {
  Done = 0,
  /// The model or input cannot be handled, or a comparison failed.
  Failed = 1,
  /// Wrong usage.
  Usage = 2,
  /// A defect of Tenon.
  Defect = 3,
};

/// What stands in memory in place of a file; the path is its name.
struct InMemory {
  std::string path;
  const std::string *bytes;
  /// What a .tn file has beside it.
  llvm::StringRef literals = {};
};

/// How the model is read.
struct ModelOptions {
  std::string model;
  /// The model itself where it is no file, and the folder of its external data.
  const InMemory *bytes = nullptr;
  std::string folder;
  std::vector<InMemory> operators;
  std::vector<std::string> bind, shape, range, state, io, op, inputRange;
  /// MAX[,prefill=128:512|none][,logits=last|all]; empty: no decoder.
  std::string decoder;
};

/// Which passes run and what is seen of them.
struct PipelineOptions {
  unsigned level = 2;
  std::vector<std::string> disable, only, printAfter, debugCounter;
  bool printAfterChange = false, verifyEach = false, timePasses = false;
};

/// What is generated.
struct CodeOptions {
  std::string target = "cpu:native", precision = "fp32", search = "heuristic";
  std::string weights = "auto", runtime = "embed", prefix, optimize, selfTest;
  int64_t workspace = -1, ramLimit = -1, textBytes = 1 << 16, kernels = 60;
  unsigned threads = 1;
  bool hooks = false;
  std::vector<std::string> report, pool, tuning;
  std::vector<InMemory> measured;
};

/// `a=1,b=2` as pairs; an item without '=' belongs to the value before it (a path with a comma).
/// The values of repeated options are taken together.
std::vector<std::pair<std::string, std::string>> keyValues(llvm::ArrayRef<std::string> words);
/// Whether no key stands in `words` twice; reports the first that does.
bool givenOnce(llvm::StringRef option, llvm::ArrayRef<std::string> words, Diagnostics &diagnostics);
/// The same of every option that names dimensions, inputs or states.
bool givenOnce(const ModelOptions &options, Diagnostics &diagnostics);
/// Items separated by commas, over repeated options.
std::vector<std::string> listItems(llvm::ArrayRef<std::string> words);

/// What --io asks: NAME=TYPE,ORDER for single ports, `quantized` or `float` for all, None where it
/// says neither. False after errors.
bool portRequests(const ModelOptions &options, std::vector<PortRequest> &ports,
                  llvm::Optional<bool> &quantized, Diagnostics &diagnostics);

/// What --input-range says of the values of inputs. False after errors.
bool inputRanges(const ModelOptions &options, std::map<std::string, Interval> &ranges,
                 Diagnostics &diagnostics);

/// What --decoder asks for. None with a message in `why` for words that are none.
llvm::Optional<DecoderRequest> decoderRequest(llvm::StringRef words, std::string &why);

/// The import's view of the options; reads the files that --bind names. False after errors.
bool importOptions(const ModelOptions &options, ImportOptions &out, Diagnostics &diagnostics);

/// Options that shape a module, as a person would type them; empty where all are the defaults.
/// Files appear by their names without folders, so that the text is the same everywhere.
std::string optionText(const ModelOptions &options);
std::string optionText(const PipelineOptions &options);

/// A tensor from a .npy or .pb file, by the file's suffix.
llvm::Optional<Tensor> readTensorFile(llvm::StringRef path, Diagnostics &diagnostics);

} // namespace tenon

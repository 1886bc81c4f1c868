// Defines what the generated C interface is made of (its header: Header.h), and the parts that C++
// and CUDA files share.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"
#include "codegen/emit/CppText.h"
#include "codegen/memory/Plan.h"
#include "passes/PortForm.h"
#include "passes/QuantizedIo.h"

namespace tenon {

class SourceWriter;

/// One input or output as the interface shows it.
struct Port {
  std::string name;       // as in the model
  std::string identifier; // for macros: upper case
  Type type;
  /// Set where the model's floats are integers here (--io quantized).
  llvm::Optional<PortQuantization> quantization;
  /// Set where --io changed the model's type or order of dimensions.
  llvm::Optional<PortForm> own;
};

/// What the functions of a decoder know of the program (--decoder).
struct DecoderInfo {
  unsigned tokens = 0; // the input
  Dim length, count;   // of the caches; of a run's tokens
  int64_t capacity = 0, vocabulary = 0;
  Element token = Element::I64, logit = Element::F32;
  bool lastLogits = true, shortens = true;
};

struct InterfaceInfo {
  std::string prefix, upper; // "digits", "DIGITS"
  std::vector<Port> inputs, outputs;
  bool states = false;
  std::vector<std::string> lengths; // symbols that grow from run to run
  bool followsData = false;         // sizes or control flow depend on data
  bool hasText = false;             // among inputs and outputs
  bool hasComplex = false;          // among all values
  llvm::Optional<DecoderInfo> decoder;
  std::string weightsFile; // name of the file beside the main one; empty: there is none
};

/// A run-time dimension that is the length of a carried value, and its value for the next run.
struct Growth {
  Dim length, next;
};
std::vector<Growth> growthsOf(Graph &graph);
/// Text of `static void advance(index_t *dims)`, which sets all lengths for the next run.
std::string advanceFunction(llvm::ArrayRef<Growth> growths, const DimSpelling &dims);

/// Whether a run spells text that stands in no input and no constant.
bool spellsText(Graph &graph);

InterfaceInfo describeInterface(Graph &graph, const CompileOptions &options);

/// Writes the conversions `opened` from the interface's handles to what they are: the structs
/// `model` and `context` of a runtime's namespace.
void writeHandles(SourceWriter &w, const InterfaceInfo &info, const std::string &runtime);

/// Expression of the message of `code`: of weights that are in a file it names that.
std::string errorMessage(const InterfaceInfo &info, const std::string &unreadable,
                         const std::string &message);

/// First comment of every generated file: what made it, from what, and how to build it.
std::string fileHead(const Module &module, const Target &target, const CompileOptions &options,
                     const std::string &buildCommand);
/// Opens what a compiler sees only where `condition` holds; otherwise it sees one error that has
/// the build command. close with endOfGuard().
std::string beginOfGuard(const std::string &condition, const Target &target,
                         const CompileOptions &options, const std::string &buildCommand);
std::string endOfGuard();

/// What a file consists of: a comment behind the head. `steps`: lines of the kernels in order.
struct FileContents {
  std::string interfaceFile;
  bool runtimeEmbedded = true;
  std::string weights, memory;
  std::vector<std::string> steps;
};
std::string contentsComment(const FileContents &contents);
/// How much memory a context has, for its line.
std::string memoryText(const CompileSummary &summary);
/// Line of a step: its function, the kernel, the nodes.
std::string contentsLine(const Step &step, const std::string &name);

/// Identifiers of the steps: step<k>_<stem of the first source node>.
std::vector<std::string> stepNames(const Plan &plan);
/// Lines that head a step: source nodes, results, tactic, work.
std::string stepHeading(const Step &step);

/// The graph's outputs whose shape depends on run-time dimensions: cases of a switch.
std::string outputDimCases(const InterfaceInfo &info, const DimSpelling &dims);

/// `static const unsigned char NAME[] = "…";` with the bytes as a string literal.
std::string weightLiteral(const std::string &name, llvm::StringRef bytes);

} // namespace tenon

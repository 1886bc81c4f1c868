// Defines the import of ONNX models: protobuf bytes → a module of stage `imported`.
//
// A model is hostile input: nothing in it is trusted, and every problem becomes a diagnostic that
// names node, operator, expected, found and remedy. Protobuf stays behind this header.
#pragma once

#include "ir/Builder.h"
#include "ir/IR.h"
#include "ir/Tensor.h"

#include "llvm/ADT/Optional.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// Longest list of integers that an option may bound, and that becomes extents.
constexpr int64_t kMostBounded = 16;

/// Inclusive bounds of a symbolic dimension, or of the integers of a tensor, such as a trip count.
struct ImportRange {
  int64_t lower = 0, upper = 0;
};

/// An output carried to the next run's input (`--state IN=OUT:append@axis`).
struct ImportState {
  std::string input, output;
  llvm::Optional<int64_t> appendAxis; // None: replaced; negative: counted from the end

  /// The axis along which a state of `rank` dimensions grows; None where it does not, or has no
  /// such axis.
  llvm::Optional<unsigned> axisOf(size_t rank) const {
    if (!appendAxis)
      return llvm::None;
    const int64_t axis = *appendAxis + (*appendAxis < 0 ? int64_t(rank) : 0);
    if (axis < 0 || axis >= int64_t(rank))
      return llvm::None;
    return unsigned(axis);
  }
};

/// What --decoder asks for.
struct DecoderRequest {
  int64_t capacity = 0;         // the most tokens that the caches hold
  std::vector<int64_t> prefill; // tokens of a run: the largest are the most that one takes
  bool prefillChosen = false;   // nobody asked for them
  bool lastLogits = true;       // of a run's last token, else of each
};

/// What an input of a decoder is whose value follows from how many tokens the caches hold, T, and
/// how many are new, S. One sequence without padding: every position counts.
enum class Following : uint8_t {
  Mask,         // which of T + S keys count, or which of them each of S queries sees
  Positions,    // T … T + S − 1
  Length,       // T
  Total,        // T + S
  LastPosition, // T + S − 1
  CacheBranch,  // whether there are caches: yes
  KeptLogits,   // of how many of the last tokens there are logits; 0: all
};

/// What --decoder found in a model's interface.
struct DecoderInterface {
  std::string tokens, logits;      // an input and an output
  std::string length, count;       // dimensions T and S; no name where S is a number
  std::vector<ImportState> caches; // in the order of their inputs
  /// The tokens so far, which are carried where no cache grows (a recurrent model): an input and an
  /// output that the model has not.
  llvm::Optional<ImportState> text;
  std::vector<std::string> given; // inputs: an encoder's keys and values, the same in all runs
  std::vector<std::pair<std::string, Following>> following; // inputs, in order
  std::vector<std::pair<std::string, int64_t>> bound; // other dimensions that were given values
  DecoderRequest request;
};

/// What a user's operator becomes: `build` creates the operations for one node and returns its
/// results, or reports an error to the builder's diagnostics and returns none.
struct UserOperator {
  std::string path; ///< of the file that declares it
  std::function<llvm::SmallVector<Value *, 2>(Builder &builder, llvm::ArrayRef<Value *> operands,
                                              const NamedAttributes &attributes)>
      build;
};

struct ImportOptions {
  /// Values of symbolic dimensions, by their name in the model or by the symbol made of it; a
  /// rank-0 integer input may be bound in the same way.
  std::map<std::string, int64_t> bindDims;
  /// Symbolic dimensions that follow from others, such as `past + 1`. A dimension that the model
  /// names so follows without being bound.
  std::map<std::string, std::string> bindExtents;
  std::map<std::string, ImportRange> ranges;
  /// Whole shapes of inputs; an entry is a number or a symbol's name.
  std::map<std::string, std::vector<std::string>> shapes;
  /// Inputs that become constants.
  std::map<std::string, Tensor> constants;
  std::vector<ImportState> states;
  /// What OnnxModel::readDecoder() found.
  llvm::Optional<DecoderInterface> decoder;
  /// Which of the decoder's entries (ir/Entries.h) is imported; none for its first graph.
  std::string entry;
  /// User operators by "domain::Type".
  std::map<std::string, UserOperator> userOperators;
};

struct ImportedModel {
  std::unique_ptr<Module> module;
  /// Every tensor name of the main graph with its value, in file order of the defining nodes;
  /// valid until a pass changes the module.
  std::vector<std::pair<std::string, Value *>> names;
  int64_t nodeCount = 0;
  /// Files of external data that were read.
  std::vector<std::string> files;
};

/// What holds a declared tensor: sequences and optionals are lists of tensors, one after the other
/// at the model's interface, called NAME[0], NAME[1] and so on.
enum class Container : uint8_t { None, Sequence, Optional, OptionalSequence };

/// One input or output as the model declares it.
struct DeclaredTensor {
  std::string name;
  Container container = Container::None;
  /// The sequence or optional that an element stands for, once their number is known.
  std::string elementOf;
  Element element = Element::F32;
  bool hasShape = false;
  /// Extents: a number, the model's own name of a symbol, or "" for an anonymous one.
  std::vector<std::string> shape;
};

/// A parsed ONNX file.
class OnnxModel {
public:
  /// Reads `path`; external data is looked for in its folder only. Null after errors.
  static std::unique_ptr<OnnxModel> load(llvm::StringRef path, Diagnostics &diagnostics);
  /// Parses `bytes`; `folder` is where external data may stand, empty for nowhere.
  static std::unique_ptr<OnnxModel> parse(llvm::StringRef bytes, llvm::StringRef folder,
                                          Diagnostics &diagnostics);
  ~OnnxModel();

  /// Says how many elements sequences and optionals (0 or 1; for a sequence in an optional 0 means
  /// that it is not there) among the inputs have, by name. Their elements are inputs from then on.
  void unfold(const std::map<std::string, int64_t> &counts);
  /// Inputs that the caller supplies (initialisers listed as inputs are left out), and outputs.
  const std::vector<DeclaredTensor> &inputs() const;
  const std::vector<DeclaredTensor> &outputs() const;

  /// Binds the symbolic dimensions of the inputs to the shapes of `data` (one per input, in order;
  /// null tensors are passed over) unless `options` already binds, ranges or shapes them. A scalar
  /// integer, which may be a trip count, gets its value as upper bound. False after reporting
  /// shapes that the model does not allow.
  bool bindFromData(llvm::ArrayRef<Tensor> data, ImportOptions &options,
                    Diagnostics &diagnostics) const;

  /// Finds what makes the model a decoder, and adds it to `options`: states, bounds and values of
  /// dimensions, and `decoder`. False after reporting what is missing or may be read in two ways.
  bool readDecoder(const DecoderRequest &request, ImportOptions &options,
                   Diagnostics &diagnostics) const;

  llvm::Optional<ImportedModel> toModule(Context &context, const ImportOptions &options,
                                         Diagnostics &diagnostics) const;

private:
  OnnxModel();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `declared` with the elements of the containers that `counts` names in their places.
std::vector<DeclaredTensor> unfolded(llvm::ArrayRef<DeclaredTensor> declared,
                                     const std::map<std::string, int64_t> &counts);

/// Reads a file that holds one SequenceProto or OptionalProto (`input_0.pb` of a test data set):
/// its tensors in order.
llvm::Optional<std::vector<Tensor>> readContainerProto(llvm::StringRef path,
                                                       Diagnostics &diagnostics);
/// Reads a file that holds one TensorProto (`input_0.pb` of a test data set).
llvm::Optional<Tensor> readTensorProto(llvm::StringRef path, Diagnostics &diagnostics,
                                       std::string *name = nullptr);
bool writeTensorProto(llvm::StringRef path, const Tensor &tensor, llvm::StringRef name,
                      Diagnostics &diagnostics);

/// The ONNX operators that can be imported: domain ("ai.onnx" for the default), name, first and
/// last opset of the row, what it takes, in table order.
struct SupportedOperator {
  llvm::StringRef domain, name;
  int since, until;      // until: INT_MAX for the newest
  llvm::StringRef takes; // besides numbers: "text", "text, sequences", or nothing
};
std::vector<SupportedOperator> supportedOperators();

} // namespace tenon

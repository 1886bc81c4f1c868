// Defines the walk over a graph's nodes: scopes, subgraphs, model-local functions. Internal to the
// frontend.
#pragma once

#include "frontend/Import.h"
#include "frontend/Literals.h"
#include "frontend/NodeIds.h"
#include "frontend/Order.h"
#include "frontend/TensorOrSequence.h"

#include "ir/Builder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tenon::frontend {

class Node;

/// Versions of operator sets by domain.
using Opsets = std::map<std::string, int64_t, std::less<>>;
/// Attributes of a function call by name, defaults included.
using AttributeScope = llvm::StringMap<const onnx::AttributeProto *>;

/// Under this name the graphs that draw random numbers find the number of the run, a u64 of rank 0.
constexpr llvm::StringLiteral kRandomRun = "\1random_run";
/// Whether a node may draw random numbers.
bool drawsNumbers(const onnx::NodeProto &node);
/// The number of the run inside a loop: another one for each iteration.
Value *runOfIteration(Builder &b, Value *run, Value *iteration);

/// What the import of one model shares.
struct ModelImport {
  ModelImport(const onnx::ModelProto &model, const ExternalFolder &folder,
              const ImportOptions &options, Diagnostics &diagnostics);

  const onnx::ModelProto &model;
  const ExternalFolder &folder;
  const ImportOptions &options;
  Opsets opsets;
  /// Model-local functions by functionKey().
  llvm::StringMap<const onnx::FunctionProto *> functions;
  FreeNames freeNames;
  NodeIds ids;
  /// Bounds of the integers in inputs, from the options.
  llvm::DenseMap<Value *, ImportRange> valueRanges;
  /// Bounds of the integers in results of nodes, from the options, by the result's name.
  llvm::StringMap<ImportRange> resultRanges;
  /// What a value is read as: itself, or the value that stands for it since its numbers are extents
  /// (frontend/DataExtents.h).
  Value *pinned(Value *v) const {
    auto it = pinned_.find(v);
    return it == pinned_.end() ? v : it->second;
  }
  void pin(Value *v, Value *known) { pinned_[v] = known; }
  /// Names of the main graph's values.
  std::vector<std::pair<std::string, Value *>> names;
  /// Symbols in order of declaration, the inputs' first.
  std::vector<Dim> symbols;
  /// How many of them the inputs have; the others are born where data decide extents.
  size_t inputSymbols = 0;
  /// Whether data decide `d`.
  bool isBorn(Dim d) const;
  int64_t nodes = 0;
  /// How often a node that draws random numbers has been imported.
  llvm::DenseMap<const onnx::NodeProto *, uint64_t> draws;

  /// Some node of the graph, of its subgraphs or of functions that they call draws random numbers.
  bool drawsRandom(const onnx::GraphProto &graph);
  /// A symbol of its own, named after the identifier `base`.
  Dim newSymbol(Context &context, llvm::StringRef base, int64_t lower, int64_t upper,
                llvm::StringRef entry = "");
  /// The same where data decide the extent: an entry's has bounds of its own.
  Dim bornSymbol(Context &context, llvm::StringRef base, int64_t lower, int64_t upper) {
    return newSymbol(context, base, lower, upper, options.entry);
  }

  /// What builders report to while a node is imported.
  Diagnostics pending;
  /// Passes pending diagnostics on, with the node they concern. After the first error further
  /// ones are its consequences and dropped.
  void flush(llvm::StringRef id, llvm::StringRef op);
  bool failed() const { return failed_ || pending.hasErrors(); }
  void error(std::string message, llvm::StringRef id = "", llvm::StringRef op = "");
  void warning(std::string message);
  /// Adds to the error that was passed on.
  void note(std::string text);
  /// Names of the main graph's inputs that `v` is computed from.
  std::vector<std::string> inputsOf(Value *v) const;

private:
  friend class ImportTrial;
  Diagnostics &diagnostics_;
  bool drawsRandom(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);
  llvm::StringSet<> symbolNames_;
  llvm::DenseMap<Value *, Value *> pinned_;
  llvm::DenseMap<const void *, bool> drawsRandom_; // by graph or function
  bool failed_ = false;
};

/// The import of a subgraph that may turn out to be of no use: what it left behind, besides
/// operations, can be taken back when those are erased.
class ImportTrial {
public:
  explicit ImportTrial(ModelImport &state);
  void undo();

private:
  ModelImport &state_;
  size_t symbols_, ids_;
  llvm::DenseMap<Value *, ImportRange> ranges_;
  llvm::DenseMap<Value *, Value *> pinned_;
  llvm::DenseMap<const onnx::NodeProto *, uint64_t> draws_;
};

std::string functionKey(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload);

/// What a subgraph takes from outside, under its name there.
struct Capture {
  std::string name;
  TensorOrSequence item;
};

/// A node of a list, with its id.
struct PendingNode {
  const onnx::NodeProto *node;
  std::string id;
};

/// The nodes behind a node that depend on its results, and which names of them are asked for later.
struct Continuation {
  std::vector<PendingNode> nodes;
  std::vector<std::string> results;
};

/// Makes a subgraph's inputs from the arguments of its region.
using RegionInputs =
    llvm::function_ref<TensorsOrSequences(Builder &builder, llvm::ArrayRef<Value *> arguments)>;

class GraphImporter {
public:
  GraphImporter(ModelImport &state, Builder &builder, std::string path, const Opsets &opsets,
                const AttributeScope *attributes, int depth);

  ModelImport &state;
  Builder &b;
  const Opsets &opsets;
  /// Attributes that `ref_attr_name` may refer to; null outside functions.
  const AttributeScope *const attributes;

  /// Makes `item` known under `name`.
  void define(llvm::StringRef name, TensorOrSequence item) { items_[name] = std::move(item); }
  /// What is called `name`; None where nothing is.
  llvm::Optional<TensorOrSequence> find(llvm::StringRef name) const;

  /// Imports initialisers and nodes. False after errors.
  bool importGraph(const onnx::GraphProto &graph);
  /// `wanted` are the names that the list gives to whoever asked for it.
  bool importNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                   std::vector<std::string> wanted);
  /// What the imported list gives; false after an error.
  bool results(TensorsOrSequences &items);

  // For control flow.
  /// Values that the subgraphs, and the continuation of node `n` behind them, take from here, each
  /// once, in order of use.
  std::vector<Capture> captures(llvm::ArrayRef<const onnx::GraphProto *> graphs);
  std::vector<Capture> captures(llvm::ArrayRef<const onnx::GraphProto *> graphs, const Node &n,
                                const Continuation &rest);
  /// Takes what depends on the node being imported out of the list, and imports all other nodes.
  Continuation takeContinuation(const Node &n);
  /// Makes a result of the node's continuation, or of the node itself, known under `name`.
  void defineResult(Node &n, llvm::StringRef name, TensorOrSequence item);
  /// Imports the continuation of `n` behind a branch that gave `results`, which become those that
  /// are asked for.
  bool importContinuation(const Node &n, Region &region, llvm::StringRef name,
                          llvm::ArrayRef<Capture> captures, const Continuation &rest,
                          TensorsOrSequences &results);
  /// Imports a subgraph of node `n`, attribute `name`, into `region`, which is isolated: its
  /// `arguments` stand for the graph's inputs; known captures are repeated inside as constants and
  /// the others become further arguments, in order. `inputs` computes the graph's inputs from the
  /// region's arguments where they differ. Gives the results, without a terminator, and in
  /// `captured` what the captures are inside.
  bool importRegion(const Node &n, const onnx::GraphProto &graph, llvm::StringRef name,
                    Region &region, llvm::ArrayRef<Type> arguments,
                    llvm::ArrayRef<Capture> captures, TensorsOrSequences &results,
                    RegionInputs inputs = nullptr, std::vector<Capture> *captured = nullptr);
  /// Imports a subgraph where the node stands.
  bool importInline(const Node &n, const onnx::GraphProto &graph, llvm::StringRef name,
                    llvm::ArrayRef<TensorOrSequence> arguments, TensorsOrSequences &results);

  /// `data` as a tensor; None after reporting at the node being imported.
  llvm::Optional<Tensor> tensor(const onnx::TensorProto &data);
  const std::string &path() const { return path_; }
  int depth() const { return depth_; }

private:
  bool importRemaining();
  bool importNode(const onnx::NodeProto &node, llvm::StringRef id);
  bool importFunction(Node &n, const onnx::FunctionProto &function);
  void importInitializers(const onnx::GraphProto &graph);

  llvm::StringMap<TensorOrSequence> items_;
  std::deque<PendingNode> remaining_; // nodes that are still to be imported
  std::vector<std::string> wanted_;
  const std::string path_;
  const int depth_;
  bool atTop() const { return path_.empty(); }
};

/// Adds the number of the run to the graph's inputs and defines it in `importer`.
Value *addRandomRun(const onnx::GraphProto &proto, Graph &graph, GraphImporter &importer);
/// Makes `run` a state that grows by one with each run; takes it away where nothing has drawn.
/// `results` are what the graph returns.
void countRuns(const onnx::GraphProto &proto, Graph &graph, Builder &b, Value *run,
               llvm::SmallVectorImpl<Value *> &results);

/// True for captures that importRegion repeats inside instead of taking an argument.
bool isRepeatable(Value *v);

} // namespace tenon::frontend

// Defines Writer: what the export of operations is made of. Nodes, initializers, names and extents
// of the ONNX graph that is being written.
#pragma once

#include "exporter/Export.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Twine.h"

#include "onnx-ml.pb.h"

#include <set>
#include <variant>

namespace tenon::exporter {

using Names = std::vector<std::string>;
using AttributeValue = std::variant<int64_t, double, std::string, Ints, onnx::GraphProto *>;
using Attributes = std::vector<std::pair<const char *, AttributeValue>>;

/// The type that stands for `e` in ONNX: integers of 2 bits are wider there.
Element storedAs(Element e);

/// Writes the graph of a module; the first operation without a form stops it.
class Writer {
public:
  Writer(Module &module, const ExportOptions &options, Diagnostics &diagnostics)
      : module_(module), options_(options), diagnostics_(diagnostics) {}

  bool write(ExportedModel &exported);

  /// Reports that the operation being written has no form; false.
  bool refuse(const llvm::Twine &reason);
  /// The same where a name is expected: empty.
  std::string refused(const llvm::Twine &reason) { return refuse(reason), std::string(); }
  bool failed() const { return failed_; }

  /// Adds a node with one result that gets a name of its own.
  std::string node(llvm::StringRef type, const Names &inputs, const Attributes &attributes = {});
  Names nodes(llvm::StringRef type, const Names &inputs, const Attributes &attributes,
              unsigned results);

  /// The name under which `v` is known; of a constant, that of an initializer.
  std::string name(const Value *v);
  /// Says that what is called `made` is `v`. A result that was made last takes v's name.
  void bind(const Value *v, const std::string &made);
  /// Says that `v` is what `other` is: an argument of a region and what comes in for it.
  void alias(const Value *v, const Value *other);
  /// What was made last keeps its name.
  void keep() { temporary_.clear(); }

  /// Initializers; equal ones of few elements are written once.
  std::string constant(const Tensor &tensor, llvm::StringRef hint = "");
  std::string scalar(Element e, double value) { return constant(Tensor::scalar(e, value)); }
  std::string integers(llvm::ArrayRef<int64_t> values) {
    return constant(Tensor::fromInts(values));
  }

  /// An extent as a tensor of one i64, a shape as one of its rank; `scalarExtent` has rank 0.
  std::string extent(Dim d);
  std::string scalarExtent(Dim d);
  std::string shape(llvm::ArrayRef<Dim> dims);
  /// 0, 1, … below the extent: i64.
  std::string range(Dim d);

  std::string reshape(const std::string &x, llvm::ArrayRef<Dim> dims);
  std::string transpose(const std::string &x, llvm::ArrayRef<int64_t> perm);
  std::string cast(const std::string &x, Element to);
  /// `x` of the given rank with its last two dimensions swapped.
  std::string swapped(const Value *v);

  /// A graph inside of a node: what is written until the next endGraph() stands in it. Its inputs
  /// and outputs are added by these.
  void beginGraph(onnx::GraphProto &graph);
  void endGraph();
  std::string graphInput(Type type, llvm::StringRef hint);
  /// Without dimensions where their number is not known.
  std::string graphInput(Element e, llvm::StringRef hint);
  void graphOutput(const std::string &made, Type type);
  void graphOutput(const std::string &made, Element e);

  bool operations(Region &region);

private:
  struct Scope {
    explicit Scope(onnx::GraphProto *graph) : graph(graph) {}
    onnx::GraphProto *graph;
    /// Looked up only.
    llvm::DenseMap<const DimNode *, std::string> extents;
    llvm::DenseMap<const DimNode *, std::pair<std::string, unsigned>> sources;
  };

  bool ports(Graph &graph);
  bool results(Graph &graph);
  bool operation(Operation &op);
  bool dispatch(Operation &op);
  /// Where the extents of a value that is known now can be taken from.
  void learnExtents(const Value *v, const std::string &name);
  std::string madeExtent(Dim d);
  std::string unique(llvm::StringRef base);
  onnx::GraphProto &graph() { return *scopes_.back().graph; }
  void addInitializer(const std::string &name, const Tensor &tensor);
  bool finish(ExportedModel &exported);
  void setType(onnx::ValueInfoProto &info, Type type);

  Module &module_;
  const ExportOptions &options_;
  Diagnostics &diagnostics_;
  onnx::ModelProto model_;
  std::vector<Scope> scopes_;
  llvm::DenseMap<const Value *, std::string> names_, wanted_; // looked up only
  std::set<std::string> used_;
  std::map<std::string, unsigned> counters_; // by base
  std::map<std::string, std::string> small_; // initializers by what they are
  std::vector<Tensor> tensors_;              // of the initializers, in order
  Operation *current_ = nullptr;
  std::string temporary_; // the name that the last node's only result got
  bool failed_ = false;
};

// What becomes of each kind of operation; false after refusing it.
bool exportMap(Operation &op, Writer &w);
bool exportReduce(Operation &op, Writer &w);
bool exportScan(Operation &op, Writer &w);
bool exportSoftmax(Operation &op, Writer &w);
bool exportQuantizedSoftmax(Operation &op, Writer &w);
bool exportNormalize(Operation &op, Writer &w);
bool exportMovement(Operation &op, Writer &w);
bool exportContraction(Operation &op, Writer &w);
bool exportAttention(Operation &op, Writer &w);
bool exportWindow(Operation &op, Writer &w);
bool exportSearch(Operation &op, Writer &w);
bool exportText(Operation &op, Writer &w);
bool exportControl(Operation &op, Writer &w);

/// Whether a convolution is written together with the map behind it, which adds its bias; that map
/// asks for it with the bias.
bool waitsForBias(const Operation &conv);
std::string exportConv(const Operation &op, const std::string &bias, Writer &w);

} // namespace tenon::exporter

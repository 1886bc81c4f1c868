// Defines Node: what an importer function sees of one ONNX node, its operands, attributes and
// builder; and how it answers with results or errors.
//
// Reads never fail hard: a malformed attribute or operand is reported once and a harmless value
// returned. The driver of the import stops after the node.
#pragma once

#include "frontend/TensorOrSequence.h"

#include "ir/Builder.h"

#include "llvm/ADT/Optional.h"

#include <string>

namespace onnx {
class AttributeProto;
class NodeProto;
} // namespace onnx

namespace tenon::frontend {

class GraphImporter;
using Shape = llvm::SmallVector<Dim, 6>;

class Node {
public:
  Node(GraphImporter &graph, const onnx::NodeProto &proto, llvm::StringRef id, int64_t opset,
       llvm::ArrayRef<TensorOrSequence> inputs);

  Builder &b;
  /// Where the node stands; for the importers of control flow.
  GraphImporter &graph;
  const onnx::NodeProto &proto;
  const std::string id;
  /// Version of the operator set of the node's domain.
  const int64_t opset;

  Context &context() const { return b.context(); }
  llvm::StringRef op() const;
  Dim dim(int64_t value) const { return context().dim(value); }

  // Operands. An operand left out (missing or "") is null, and so is one that is no tensor.
  unsigned numInputs() const { return unsigned(inputs_.size()); }
  bool has(unsigned i) const { return i < inputs_.size() && inputs_[i]; }
  /// Operand i whatever it is.
  const TensorOrSequence &item(unsigned i) const { return items_[i]; }
  llvm::ArrayRef<TensorOrSequence> items() const { return items_; }
  /// The sequence that operand i has to be; null after reporting that it is none, or one of open
  /// length.
  const Elements *sequence(unsigned i) const;
  Value *input(unsigned i) const { return has(i) ? inputs_[i] : nullptr; }
  /// Name of operand i in the model, quoted.
  std::string inputName(unsigned i) const;
  llvm::ArrayRef<Value *> inputs() const { return inputs_; }
  Type type(unsigned i) const { return inputs_[i]->type(); }
  unsigned rank(unsigned i) const { return type(i).rank(); }
  Element element(unsigned i) const { return type(i).element(); }

  // Results.
  unsigned numOutputs() const;
  /// Result i is used by the model.
  bool wants(unsigned i) const;
  void set(unsigned i, TensorOrSequence item);
  void set(unsigned i, Value *value) {
    if (value) // null: after an error, or the result is not there
      set(i, TensorOrSequence(value));
  }
  /// All results of `op`, in order; nothing for null.
  void setAll(Operation *op);
  /// Result i as it was set; None where it was not.
  llvm::Optional<TensorOrSequence> output(unsigned i) const {
    return i < outputs_.size() ? outputs_[i] : llvm::None;
  }

  // Attributes, with the operator's default where the model has none.
  bool hasAttr(llvm::StringRef name) const { return attr(name) != nullptr; }
  int64_t intAttr(llvm::StringRef name, int64_t otherwise) const;
  bool boolAttr(llvm::StringRef name, bool otherwise) const {
    return intAttr(name, otherwise) != 0;
  }
  double floatAttr(llvm::StringRef name, double otherwise) const;
  std::string stringAttr(llvm::StringRef name, llvm::StringRef otherwise) const;
  Ints intsAttr(llvm::StringRef name) const; // empty when absent
  Floats floatsAttr(llvm::StringRef name) const;
  Strings stringsAttr(llvm::StringRef name) const;
  llvm::Optional<Tensor> tensorAttr(llvm::StringRef name) const;
  /// An attribute that names an element type; None after an error.
  llvm::Optional<Element> elementAttr(llvm::StringRef name, Element otherwise) const;
  /// Numbers, strings, lists and tensors in the IR's form.
  NamedAttributes plainAttributes() const;
  /// The attribute itself, function parameters resolved; null when absent.
  const onnx::AttributeProto *attr(llvm::StringRef name) const;

  // Operands that must be known at compile time; None after an error that says how to bind them.
  llvm::Optional<Shape> shapeOperand(unsigned i) const;
  llvm::Optional<Ints> intsOperand(unsigned i) const;
  /// Real numbers or booleans: text and complex numbers are an error.
  llvm::Optional<Tensor> constantOperand(unsigned i) const;
  /// As constantOperand, silent.
  llvm::Optional<Tensor> knownOperand(unsigned i) const;

  // Errors. `error` returns null, so that `return n.error(…)` reads well in helpers.
  std::nullptr_t error(std::string message) const;
  bool failed() const;
  /// Operand i has a rank in [least, most]; reports otherwise.
  bool checkRank(unsigned i, unsigned least, unsigned most = 64) const;
  /// Operand i is floating-point; reports otherwise.
  bool checkFloat(unsigned i) const;
  /// `axis` with negative values counted from the end; None after reporting one out of range.
  llvm::Optional<int64_t> axis(int64_t axis, int64_t rank) const;
  /// Sorted, without repetition, normalised.
  llvm::Optional<Ints> axes(Ints axes, int64_t rank) const;

private:
  TensorsOrSequences items_;
  llvm::SmallVector<Value *, 8> inputs_; // the tensors among them
  llvm::SmallVector<llvm::Optional<TensorOrSequence>, 4> outputs_;
};

/// What `v` is at compile time: a constant's tensor, or the result of evaluating a small
/// computation on constants and shapes.
llvm::Optional<Tensor> knownTensor(Value *v);
/// What is known of a small integer tensor, symbols included.
llvm::Optional<Shape> knownShape(Value *v);

using ImportFunction = void (*)(Node &);

} // namespace tenon::frontend

// Implements the reading of nodes: attributes, compile-time operands, errors.
#include "frontend/onnx/Node.h"

#include "frontend/DataExtents.h"
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Common.h"

#include "ir/Interpreter.h"

namespace tenon::frontend {

Node::Node(GraphImporter &graph, const onnx::NodeProto &proto, llvm::StringRef id, int64_t opset,
           llvm::ArrayRef<TensorOrSequence> inputs)
    : b(graph.b), graph(graph), proto(proto), id(id.str()), opset(opset),
      items_(inputs.begin(), inputs.end()), outputs_(size_t(proto.output_size()), llvm::None) {
  for (const TensorOrSequence &item : items_)
    inputs_.push_back(item.tensor());
}

const Elements *Node::sequence(unsigned i) const {
  const Elements *found = i < items_.size() ? items_[i].elements() : nullptr;
  if (const auto stack = i < items_.size() ? items_[i].stack() : llvm::None)
    error("operand " + std::to_string(i) + " " + inputName(i) +
          ": expected a sequence of a known number of tensors, found one of " +
          text({stack->pieces->type().dim(0)}, "") + "; give its symbols values with --bind");
  else if (!found)
    error("operand " + std::to_string(i) + " " + inputName(i) + ": expected a sequence");
  return found;
}

llvm::StringRef Node::op() const { return proto.op_type(); }

std::string Node::inputName(unsigned i) const {
  return int(i) < proto.input_size() ? quoted(proto.input(int(i))) : "";
}

unsigned Node::numOutputs() const { return unsigned(proto.output_size()); }
bool Node::wants(unsigned i) const { return i < numOutputs() && !proto.output(int(i)).empty(); }

void Node::set(unsigned i, TensorOrSequence item) {
  if (i < outputs_.size())
    outputs_[i] = std::move(item);
}

void Node::setAll(Operation *op) {
  for (unsigned i = 0; op && i < op->numResults(); ++i)
    set(i, op->result(i));
}

std::nullptr_t Node::error(std::string message) const {
  b.diagnostics().error(std::move(message));
  return nullptr;
}

bool Node::failed() const { return graph.state.failed(); }

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *Node::attr(llvm::StringRef name) const {
  for (const onnx::AttributeProto &a : proto.attribute()) {
    if (a.name() != name)
      continue;
    if (a.ref_attr_name().empty())
      return &a;
    if (!graph.attributes)
      return nullptr;
    auto it = graph.attributes->find(a.ref_attr_name());
    return it == graph.attributes->end() ? nullptr : it->second;
  }
  return nullptr;
}

namespace {
/// The attribute when it has type `type`; an error otherwise. Files older than IR version 2 have
/// no types: `present` says whether the field is there.
const onnx::AttributeProto *typed(const Node &n, llvm::StringRef name,
                                  onnx::AttributeProto::AttributeType type, const char *what,
                                  bool (*present)(const onnx::AttributeProto &)) {
  const onnx::AttributeProto *a = n.attr(name);
  if (!a || a->type() == type || (!a->has_type() && present(*a)))
    return a;
  return n.error("attribute " + name.str() + ": expected " + what);
}
} // namespace

int64_t Node::intAttr(llvm::StringRef name, int64_t otherwise) const {
  auto *a = typed(*this, name, onnx::AttributeProto::INT, "an integer",
                  [](const onnx::AttributeProto &a) { return a.has_i(); });
  return a ? a->i() : otherwise;
}

double Node::floatAttr(llvm::StringRef name, double otherwise) const {
  auto *a = typed(*this, name, onnx::AttributeProto::FLOAT, "a number",
                  [](const onnx::AttributeProto &a) { return a.has_f(); });
  return a ? double(a->f()) : otherwise;
}

std::string Node::stringAttr(llvm::StringRef name, llvm::StringRef otherwise) const {
  auto *a = typed(*this, name, onnx::AttributeProto::STRING, "a string",
                  [](const onnx::AttributeProto &a) { return a.has_s(); });
  return a ? a->s() : otherwise.str();
}

Ints Node::intsAttr(llvm::StringRef name) const {
  auto *a = typed(*this, name, onnx::AttributeProto::INTS, "a list of integers",
                  [](const onnx::AttributeProto &a) { return a.ints_size() > 0; });
  return a ? Ints(a->ints().begin(), a->ints().end()) : Ints();
}

Floats Node::floatsAttr(llvm::StringRef name) const {
  auto *a = typed(*this, name, onnx::AttributeProto::FLOATS, "a list of numbers",
                  [](const onnx::AttributeProto &a) { return a.floats_size() > 0; });
  return a ? Floats(a->floats().begin(), a->floats().end()) : Floats();
}

Strings Node::stringsAttr(llvm::StringRef name) const {
  auto *a = typed(*this, name, onnx::AttributeProto::STRINGS, "a list of strings",
                  [](const onnx::AttributeProto &a) { return a.strings_size() > 0; });
  return a ? Strings(a->strings().begin(), a->strings().end()) : Strings();
}

llvm::Optional<Tensor> Node::tensorAttr(llvm::StringRef name) const {
  auto *a = typed(*this, name, onnx::AttributeProto::TENSOR, "a tensor",
                  [](const onnx::AttributeProto &a) { return a.has_t(); });
  return a ? graph.tensor(a->t()) : llvm::None;
}

llvm::Optional<Element> Node::elementAttr(llvm::StringRef name, Element otherwise) const {
  if (!hasAttr(name))
    return otherwise;
  const int64_t code = intAttr(name, 0);
  if (auto e = elementFromOnnx(int(code)))
    return e;
  error("attribute " + name.str() + ": " + std::to_string(code) + " is not an element type");
  return llvm::None;
}

NamedAttributes Node::plainAttributes() const {
  NamedAttributes attributes;
  for (const onnx::AttributeProto &own : proto.attribute()) {
    const onnx::AttributeProto *a = attr(own.name());
    if (!a)
      continue;
    const std::string &name = own.name();
    switch (a->type()) {
    case onnx::AttributeProto::INT: attributes.insert({name, Attribute(int64_t(a->i()))}); break;
    case onnx::AttributeProto::FLOAT: attributes.insert({name, Attribute(double(a->f()))}); break;
    case onnx::AttributeProto::STRING: attributes.insert({name, Attribute(a->s())}); break;
    case onnx::AttributeProto::INTS: attributes.insert({name, intsAttr(name)}); break;
    case onnx::AttributeProto::FLOATS: attributes.insert({name, floatsAttr(name)}); break;
    case onnx::AttributeProto::STRINGS: attributes.insert({name, stringsAttr(name)}); break;
    case onnx::AttributeProto::TENSOR:
      if (auto t = tensorAttr(name))
        attributes.insert({name, Literal(std::make_shared<const Tensor>(*t))});
      break;
    default:
      error("attribute " + name + ": graphs and types are not supported in a user's operator");
    }
  }
  return attributes;
}

//===----------------------------------------------------------------------===//
// Compile-time operands
//===----------------------------------------------------------------------===//

namespace {

constexpr int kEvaluationDepth = 64;
constexpr int kEvaluationSteps = 512;
constexpr int64_t kEvaluationElements = 4096;

/// `steps` bounds the work: operands that share their sources are evaluated again for each use.
llvm::Optional<Tensor> evaluateSmall(Value *v, int depth, int &steps) {
  Operation *def = v->def();
  if (const Literal literal = constantValue(v))
    return *literal;
  if (!def || depth > kEvaluationDepth || --steps < 0 || !v->type().isTensor() ||
      !v->type().hasStaticShape() || v->type().upperElements() > kEvaluationElements)
    return llvm::None;
  if (isInteger(v->type().element()) || isBool(v->type().element()))
    if (auto dims = inferValue(v)) {
      Tensor t(v->type().element(), v->type().staticShape());
      if (int64_t(dims->size()) != t.size())
        return llvm::None;
      for (size_t i = 0; i < dims->size(); ++i) {
        if (!(*dims)[i].isConstant())
          return llvm::None;
        t.setInt(int64_t(i), (*dims)[i].constant());
      }
      return t;
    }
  if (def->isAny(Op::If, Op::Loop, Op::NonZero, Op::TextSplit, Op::User, Op::Group, Op::ShapeOf))
    return llvm::None;
  llvm::SmallVector<Tensor, 4> operands;
  for (Value *operand : def->operands()) {
    auto t = evaluateSmall(operand, depth + 1, steps);
    if (!t || t->size() > kEvaluationElements)
      return llvm::None;
    operands.push_back(*t);
  }
  llvm::SmallVector<Tensor, 2> results;
  std::string error;
  if (!evaluateConstant(*def, operands, results, error) || v->index() >= results.size())
    return llvm::None;
  return results[v->index()];
}

} // namespace

llvm::Optional<Tensor> knownTensor(Value *v) {
  int steps = kEvaluationSteps;
  return v ? evaluateSmall(v, 0, steps) : llvm::None;
}

llvm::Optional<Shape> knownShape(Value *v) {
  if (!v || !v->type().isTensor() || !isInteger(v->type().element()))
    return llvm::None;
  if (auto dims = inferValue(v))
    return Shape(dims->begin(), dims->end());
  auto t = knownTensor(v);
  if (!t || t->size() > kEvaluationElements)
    return llvm::None;
  Shape shape;
  for (int64_t i = 0; i < t->size(); ++i)
    shape.push_back(v->type().context().dim(t->intAt(i)));
  return shape;
}

namespace {
bool checkIntegers(const Node &n, unsigned i) {
  if (isInteger(n.element(i)) && n.rank(i) <= 1)
    return true;
  n.error("operand " + n.inputName(i) + ": expected a list of integers, found " +
          toString(n.type(i)) + "; cast it to int64 and reshape it to [n]");
  return false;
}
} // namespace

llvm::Optional<Shape> Node::shapeOperand(unsigned i) const {
  if (!checkIntegers(*this, i))
    return llvm::None;
  auto shape = knownShape(graph.state.pinned(input(i)));
  return shape ? shape : dataExtents(*this, input(i));
}

llvm::Optional<Ints> Node::intsOperand(unsigned i) const {
  if (!checkIntegers(*this, i))
    return llvm::None;
  auto shape = knownShape(graph.state.pinned(input(i)));
  if (!shape) {
    error("operand " + inputName(i) +
          " is not known at compile time: expected constants; bind the "
          "input that they are computed from with --bind NAME=@FILE");
    return llvm::None;
  }
  Ints ints;
  for (Dim d : *shape) {
    if (!d.isConstant()) {
      error("operand " + inputName(i) +
            " depends on a symbolic dimension: expected a constant; give it a value with "
            "--bind SYMBOL=VALUE");
      return llvm::None;
    }
    ints.push_back(d.constant());
  }
  return ints;
}

llvm::Optional<Tensor> Node::knownOperand(unsigned i) const {
  return has(i) && !isOpaque(element(i)) ? knownTensor(input(i)) : llvm::None;
}

llvm::Optional<Tensor> Node::constantOperand(unsigned i) const {
  if (has(i) && isOpaque(element(i))) {
    error("operand " + inputName(i) + ": expected real numbers or booleans, found " +
          toString(type(i)));
    return llvm::None;
  }
  auto t = knownOperand(i);
  if (!t)
    error("operand " + inputName(i) +
          " is not known at compile time: expected a constant; bind the input that it is computed "
          "from with --bind NAME=@FILE");
  return t;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

bool Node::checkRank(unsigned i, unsigned least, unsigned most) const {
  if (rank(i) >= least && rank(i) <= most)
    return true;
  std::string expected = least == most ? std::to_string(least)
                         : most == 64  ? "at least " + std::to_string(least)
                                       : std::to_string(least) + " to " + std::to_string(most);
  error("operand " + inputName(i) + ": expected rank " + expected + ", found " + toString(type(i)));
  return false;
}

bool Node::checkFloat(unsigned i) const {
  if (isFloat(element(i)))
    return true;
  error("operand " + inputName(i) + ": expected floating-point elements, found " +
        toString(type(i)));
  return false;
}

llvm::Optional<int64_t> Node::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    error("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
    return llvm::None;
  }
  return axis < 0 ? axis + rank : axis;
}

llvm::Optional<Ints> Node::axes(Ints axes, int64_t rank) const {
  for (int64_t &a : axes) {
    auto normal = axis(a, rank);
    if (!normal)
      return llvm::None;
    a = *normal;
  }
  llvm::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

} // namespace tenon::frontend

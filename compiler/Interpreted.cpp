// Implements models on the interpreter for compiler/tenon.h.
#include "compiler/Compiler.h"
#include "compiler/LibraryInterface.h"
#include "compiler/Settings.h"
#include "ir/Interpreter.h"

#include <exception>

namespace tenon {
namespace {

/// The tensor of an array for a port of the given element type; null after an error.
Tensor tensorOf(const Array &array, const std::string &port, Diagnostics &diagnostics) {
  auto refuse = [&](const std::string &why) {
    diagnostics.error("input '" + port + "': " + why);
    return Tensor();
  };
  const auto element = parseElement(array.type);
  if (!element)
    return refuse("there is no element type '" + array.type + "'");
  int64_t count = 1;
  for (int64_t extent : array.shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      return refuse("its shape is none of a tensor in memory");
  const int64_t found =
      *element == Element::String ? int64_t(array.texts.size()) : int64_t(array.bytes.size());
  const int64_t expected = *element == Element::String ? count : byteSize(*element, count);
  if (found != expected)
    return refuse("expected " + std::to_string(expected) +
                  (*element == Element::String ? " texts" : " bytes") + " for its shape, found " +
                  std::to_string(found));
  if (*element == Element::String)
    return Tensor::strings(array.shape, array.texts);
  return Tensor(*element, array.shape, {array.bytes.begin(), array.bytes.end()});
}

Array arrayOf(const Tensor &tensor) {
  Array array;
  array.type = name(tensor.element()).str();
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  if (tensor.element() == Element::String)
    array.texts = tensor.stringValues();
  else
    array.bytes.assign(tensor.bytes().begin(), tensor.bytes().end());
  return array;
}

} // namespace

class InterpretedModel::Implementation {
public:
  explicit Implementation(const Request &request) : request_(request) {}

  bool load(Diagnostics &diagnostics) {
    if (!readRequest(request_, options_, diagnostics))
      return false;
    compiler_.emplace(host_, options_.model, options_.passes);
    const bool loaded = compiler_->open() && compiler_->load();
    moveDiagnostics(compiler_->diagnostics(), diagnostics);
    if (!loaded)
      return false;
    interface_ = interfaceOf(graph());
    reset();
    return true;
  }

  const Interface &interface() const { return interface_; }
  void reset() {
    carried_.clear();
    for (const State &s : graph().states) {
      const Type type = graph().body().argument(s.input)->type();
      llvm::SmallVector<int64_t, 6> shape;
      for (Dim d : type.shape())
        shape.push_back(d.lower());
      carried_.emplace_back(type.element(), shape);
    }
  }

  bool run(const std::vector<Array> &arrays, std::vector<Array> &results,
           Diagnostics &diagnostics) {
    if (arrays.size() != interface_.inputs.size()) {
      diagnostics.error("expected " + std::to_string(interface_.inputs.size()) + " inputs, found " +
                        std::to_string(arrays.size()));
      return false;
    }
    std::vector<Tensor> inputs(graph().inputNames.size()), outputs;
    for (size_t k = 0; k < carried_.size(); ++k)
      inputs[graph().states[k].input] = carried_[k];
    size_t next = 0;
    for (unsigned i = 0; i < inputs.size(); ++i)
      if (!graph().stateOfInput(i)) {
        inputs[i] = tensorOf(arrays[next++], graph().inputNames[i], diagnostics);
        if (inputs[i].isNull())
          return false;
      }
    if (!interpret(graph(), inputs, outputs, diagnostics))
      return false;
    for (size_t k = 0; k < carried_.size(); ++k)
      carried_[k] = outputs[graph().states[k].output];
    for (unsigned i = 0; i < outputs.size(); ++i)
      if (!graph().stateOfOutput(i))
        results.push_back(arrayOf(outputs[i]));
    return true;
  }

private:
  Graph &graph() { return compiler_->module().graph(); }

  const Request request_;  // its bytes are referred to by
  RequestOptions options_; // which the compiler refers to
  CompilerHost host_;
  std::optional<Compiler> compiler_;
  Interface interface_;
  std::vector<Tensor> carried_; // by state
};

InterpretedModel::InterpretedModel(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
InterpretedModel::~InterpretedModel() = default;

std::unique_ptr<InterpretedModel> InterpretedModel::load(const Request &request,
                                                         std::vector<Message> &messages) {
  Diagnostics diagnostics;
  std::unique_ptr<InterpretedModel> model;
  try {
    auto implementation = std::make_unique<Implementation>(request);
    if (implementation->load(diagnostics))
      model.reset(new InterpretedModel(std::move(implementation)));
  } catch (const std::exception &e) { // memory, mostly: nothing of ours throws
    diagnostics.error(e.what());
  }
  addMessages(diagnostics, messages);
  return model;
}

std::optional<std::vector<Array>> InterpretedModel::run(const std::vector<Array> &inputs,
                                                        std::vector<Message> &messages) {
  Diagnostics diagnostics;
  std::optional<std::vector<Array>> outputs;
  try {
    std::vector<Array> results;
    if (implementation_->run(inputs, results, diagnostics))
      outputs = std::move(results);
  } catch (const std::exception &e) {
    diagnostics.error(e.what());
  }
  addMessages(diagnostics, messages);
  return outputs;
}

const Interface &InterpretedModel::interface() const { return implementation_->interface(); }
void InterpretedModel::reset() { implementation_->reset(); }

} // namespace tenon

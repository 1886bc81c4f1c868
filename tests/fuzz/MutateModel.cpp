// Implements mutations of ONNX models: operators, names, attributes, shapes, types, weights.
#include "tests/fuzz/Mutate.h"

#include "frontend/Import.h"

#include "onnx-ml.pb.h"

#include <limits>
#include <vector>

namespace tenon::fuzz {

namespace {

/// The largest type code there is, and one more.
constexpr size_t kTypeCodes = 28;

class ModelMutation {
public:
  ModelMutation(onnx::ModelProto &model, Random &random) : model_(model), random_(random) {
    collect(*model.mutable_graph());
    for (auto &function : *model.mutable_functions())
      for (auto &node : *function.mutable_node())
        collect(node);
    for (const onnx::GraphProto *graph : graphs_) {
      for (const auto &info : graph->input())
        names_.push_back(info.name());
      for (const auto &weight : graph->initializer())
        names_.push_back(weight.name());
    }
    for (const onnx::NodeProto *node : nodes_)
      names_.insert(names_.end(), node->output().begin(), node->output().end());
    names_.emplace_back();
  }

  void run() {
    onnx::NodeProto *node = nodes_.empty() ? nullptr : nodes_[pick(random_, nodes_.size())];
    onnx::GraphProto &graph = *graphs_[pick(random_, graphs_.size())];
    switch (pick(random_, 12)) {
    case 0: return node ? changeOperator(*node) : void();
    case 1:
    case 2: return node ? changeOperands(*node) : void();
    case 3:
    case 4:
    case 5: return node ? changeAttributes(*node) : void();
    case 6:
      if (graph.input_size())
        changeType(*graph.mutable_input(int(pick(random_, size_t(graph.input_size())))));
      return;
    case 7: return changeNodes(graph);
    case 8:
      if (graph.output_size())
        graph.mutable_output(int(pick(random_, size_t(graph.output_size()))))->set_name(name());
      return;
    case 9:
      for (auto &set : *model_.mutable_opset_import())
        set.set_version(int64_t(pick(random_, 30)));
      return;
    default:
      if (graph.initializer_size())
        changeTensor(
            *graph.mutable_initializer(int(pick(random_, size_t(graph.initializer_size())))));
    }
  }

private:
  void collect(onnx::GraphProto &graph) {
    graphs_.push_back(&graph);
    for (auto &node : *graph.mutable_node())
      collect(node);
  }
  void collect(onnx::NodeProto &node) {
    nodes_.push_back(&node);
    for (auto &attribute : *node.mutable_attribute()) {
      attributes_.push_back(&attribute);
      if (attribute.has_g())
        collect(*attribute.mutable_g());
    }
  }

  const std::string &name() { return names_[pick(random_, names_.size())]; }

  void changeOperator(onnx::NodeProto &node) {
    static const std::vector<SupportedOperator> kOperators = supportedOperators();
    const SupportedOperator &op = kOperators[pick(random_, kOperators.size())];
    node.set_op_type(op.name.str());
    node.set_domain(op.domain.str());
    if (op.domain == "ai.onnx" ||
        llvm::any_of(model_.opset_import(), [&](auto &set) { return set.domain() == op.domain; }))
      return;
    auto *set = model_.add_opset_import();
    set->set_domain(op.domain.str());
    set->set_version(op.since);
  }

  void changeOperands(onnx::NodeProto &node) {
    const size_t inputs = size_t(node.input_size());
    switch (pick(random_, 5)) {
    case 0: node.add_input(name()); return;
    case 1:
      if (inputs)
        node.mutable_input()->RemoveLast();
      return;
    case 2: node.add_output("extra" + std::to_string(pick(random_, 4))); return;
    default:
      if (inputs)
        node.set_input(int(pick(random_, inputs)), name());
    }
  }

  void changeAttributes(onnx::NodeProto &node) {
    const size_t count = size_t(node.attribute_size());
    const size_t kind = pick(random_, 8);
    if (kind == 0 && !attributes_.empty()) { // one that stands elsewhere
      const onnx::AttributeProto copy = *attributes_[pick(random_, attributes_.size())];
      if (copy.ByteSizeLong() < 4096)
        *node.add_attribute() = copy;
      attributes_.clear(); // they may have moved
      return;
    }
    if (!count)
      return;
    auto &attribute = *node.mutable_attribute(int(pick(random_, count)));
    switch (kind) {
    case 1:
      node.mutable_attribute()->RemoveLast();
      attributes_.clear();
      return;
    case 2: attribute.set_type(onnx::AttributeProto::AttributeType(pick(random_, 15))); return;
    default: changeValue(attribute);
    }
  }

  void changeValue(onnx::AttributeProto &a) {
    constexpr float kFloats[] = {0,
                                 -1,
                                 0.5f,
                                 1e30f,
                                 -1e30f,
                                 1e-30f,
                                 std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::infinity()};
    if (a.ints_size() && pick(random_, 4))
      a.set_ints(int(pick(random_, size_t(a.ints_size()))), interesting(random_));
    else if (a.type() == onnx::AttributeProto::INTS && a.ints_size() < 16)
      a.add_ints(interesting(random_));
    else if (a.ints_size())
      a.mutable_ints()->RemoveLast();
    else if (a.floats_size())
      a.set_floats(int(pick(random_, size_t(a.floats_size()))), kFloats[pick(random_, 8)]);
    else if (a.strings_size())
      a.set_strings(int(pick(random_, size_t(a.strings_size()))), name());
    else if (a.has_t())
      changeTensor(*a.mutable_t());
    else if (a.has_f())
      a.set_f(kFloats[pick(random_, 8)]);
    else if (a.has_s())
      changeString(*a.mutable_s());
    else if (a.has_i())
      a.set_i(interesting(random_));
  }

  void changeString(std::string &s) {
    s.resize(s.size() + 8);
    s.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(s.data()), s.size() - 8, s.size()));
  }

  void changeTensor(onnx::TensorProto &t) {
    switch (pick(random_, 6)) {
    case 0: t.set_data_type(int32_t(pick(random_, kTypeCodes))); return;
    case 1: t.add_dims(interesting(random_)); return;
    case 2:
      if (t.dims_size())
        t.mutable_dims()->RemoveLast();
      return;
    case 3:
      if (t.int64_data_size())
        t.set_int64_data(int(pick(random_, size_t(t.int64_data_size()))), interesting(random_));
      else if (t.raw_data().size() >= 8) { // extents and axes are stored so
        const int64_t v = interesting(random_);
        memcpy(t.mutable_raw_data()->data() + 8 * pick(random_, t.raw_data().size() / 8), &v, 8);
      }
      return;
    case 4: changeString(*t.mutable_raw_data()); return;
    default:
      if (t.dims_size())
        t.set_dims(int(pick(random_, size_t(t.dims_size()))), interesting(random_));
    }
  }

  void changeType(onnx::ValueInfoProto &info) {
    auto &type = *info.mutable_type()->mutable_tensor_type();
    auto &shape = *type.mutable_shape();
    const size_t rank = size_t(shape.dim_size());
    switch (pick(random_, 5)) {
    case 0: type.set_elem_type(int32_t(pick(random_, kTypeCodes))); return;
    case 1: shape.add_dim()->set_dim_value(interesting(random_)); return;
    case 2:
      if (rank)
        shape.mutable_dim()->RemoveLast();
      return;
    case 3:
      if (rank)
        shape.mutable_dim(int(pick(random_, rank)))->set_dim_param("N");
      return;
    default:
      if (rank)
        shape.mutable_dim(int(pick(random_, rank)))->set_dim_value(interesting(random_));
    }
  }

  void changeNodes(onnx::GraphProto &graph) {
    const size_t count = size_t(graph.node_size());
    if (!count)
      return;
    const int at = int(pick(random_, count)), other = int(pick(random_, count));
    switch (pick(random_, 3)) {
    case 0:
      if (count < 64) {
        const onnx::NodeProto copy = graph.node(at);
        auto *node = graph.add_node();
        *node = copy;
        if (node->output_size())
          node->set_output(0, node->output(0) + "_again");
      }
      break;
    case 1: graph.mutable_node()->DeleteSubrange(at, 1); break;
    default: graph.mutable_node()->SwapElements(at, other);
    }
  }

  onnx::ModelProto &model_;
  Random &random_;
  std::vector<onnx::GraphProto *> graphs_;
  std::vector<onnx::NodeProto *> nodes_;
  std::vector<onnx::AttributeProto *> attributes_;
  std::vector<std::string> names_;
};

} // namespace

std::string mutatedModel(llvm::StringRef bytes, Random &random) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), int(bytes.size())) || !model.has_graph())
    return "";
  // What a change collects, the next one must not reuse.
  for (size_t count = 1 + pick(random, 4); count > 0; --count)
    ModelMutation(model, random).run();
  return model.SerializeAsString();
}

} // namespace tenon::fuzz

// Implements the lists that a Loop appends to:
//
//   list = Loop(start) { list = Concat(list, piece) }
//
// becomes a loop whose pieces are stacked and, behind it, Concat(start, pieces). As a carried value
// the list would have another type in each iteration.
#include "frontend/onnx/CarriedValues.h"

#include "frontend/Literals.h"
#include "frontend/onnx/Common.h"

#include "onnx-ml.pb.h"

namespace tenon::frontend {
namespace {

bool reads(const onnx::GraphProto &graph, const std::string &name);
/// Whether a subgraph of the node captures `name`.
bool captures(const onnx::NodeProto &node, const std::string &name) {
  return llvm::any_of(node.attribute(), [&](const onnx::AttributeProto &a) {
    return (a.has_g() && reads(a.g(), name)) ||
           llvm::any_of(a.graphs(), [&](const onnx::GraphProto &g) { return reads(g, name); });
  });
}
bool reads(const onnx::GraphProto &graph, const std::string &name) {
  return llvm::any_of(graph.node(),
                      [&](const onnx::NodeProto &node) {
                        return llvm::is_contained(node.input(), name) || captures(node, name);
                      }) ||
         llvm::any_of(graph.output(),
                      [&](const onnx::ValueInfoProto &out) { return out.name() == name; });
}

/// The only node of `graph` that reads `name`, once; null where there is none or more.
const onnx::NodeProto *onlyReader(const onnx::GraphProto &graph, const std::string &name) {
  const onnx::NodeProto *reader = nullptr;
  for (const onnx::NodeProto &node : graph.node()) {
    const auto times = llvm::count(node.input(), name);
    if (captures(node, name) || times > 1 || (times == 1 && reader))
      return nullptr;
    if (times == 1)
      reader = &node;
  }
  return reader;
}

/// Carried value `i`, of type `t`, as a list that `body` only appends to.
llvm::Optional<AppendedList> appendedList(const onnx::GraphProto &body, unsigned i, Type t) {
  if (!t.isTensor() || isOpaque(t.element()) || t.rank() == 0)
    return llvm::None;
  std::string name = body.input(int(i) + 2).name();
  const std::string &result = body.output(int(i) + 1).name();
  llvm::Optional<int64_t> axis;
  while (!axis || name != result) {
    const onnx::NodeProto *node = onlyReader(body, name);
    const bool isOutput = llvm::any_of(
        body.output(), [&](const onnx::ValueInfoProto &out) { return out.name() == name; });
    if (!node || isOutput || !node->domain().empty() || node->output_size() != 1)
      return llvm::None;
    auto attribute = [&](llvm::StringRef wanted) -> llvm::Optional<int64_t> {
      for (const onnx::AttributeProto &a : node->attribute())
        if (a.name() == wanted && a.type() == onnx::AttributeProto::INT)
          return a.i();
      return llvm::None;
    };
    if (node->op_type() == "Concat" && !axis && node->input(0) == name) {
      axis = attribute("axis");
      if (axis && *axis < 0)
        *axis += t.rank();
      if (!axis || *axis < 0 || *axis >= int64_t(t.rank()))
        return llvm::None;
    } else if (node->op_type() == "Cast") {
      const auto to = attribute("to");
      std::string unknown;
      const auto element = to ? toElement(int(*to), unknown) : llvm::None;
      if (!element || *element != t.element())
        return llvm::None;
    } else if (node->op_type() != "Identity") {
      return llvm::None;
    }
    name = node->output(0);
  }
  // The result is no operand and no second result.
  int64_t times = 0;
  for (const onnx::ValueInfoProto &out : body.output())
    times += out.name() == result;
  const bool read = llvm::any_of(body.node(), [&](const onnx::NodeProto &node) {
    return llvm::is_contained(node.input(), result) || captures(node, result);
  });
  return times == 1 && !read ? llvm::Optional<AppendedList>({i, *axis}) : llvm::None;
}

/// `start` and behind it the pieces [iterations, piece…] along `axis`.
Value *appended(Builder &b, Value *start, Value *pieces, int64_t axis) {
  Ints perm = allAxes(1, axis + 1);
  perm.push_back(0);
  for (int64_t d = axis + 1; d < int64_t(pieces->type().rank()); ++d)
    perm.push_back(d);
  Value *turned = b.transpose(pieces, perm);
  if (!turned)
    return nullptr;
  const auto rows = unsigned(axis);
  Shape shape(turned->type().shape().begin(), turned->type().shape().end());
  shape[rows] = shape[rows] * shape[rows + 1];
  shape.erase(shape.begin() + rows + 1);
  Value *list = b.reshape(turned, shape);
  if (!list || start->type().dim(rows).isConstant(0))
    return list;
  return b.value(Op::Concat, {start, list}, {{"axis", axis}});
}

} // namespace

CarriedValues::CarriedValues(const Node &n, const onnx::GraphProto &body, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    if (auto list = appendedList(body, i, n.type(i + 2)))
      lists_.push_back(*list);
    else
      kept_.push_back(i);
}

llvm::SmallVector<Value *, 8> CarriedValues::inputs(const Node &n, Builder &b,
                                                    llvm::ArrayRef<Value *> arguments) const {
  llvm::SmallVector<Value *, 8> all(2 + kept_.size() + lists_.size());
  all[0] = arguments[0], all[1] = arguments[1];
  for (size_t k = 0; k < kept_.size(); ++k)
    all[2 + kept_[k]] = arguments[2 + k];
  for (const AppendedList &list : lists_) {
    const Type t = n.type(list.carried + 2);
    Shape none(t.shape().begin(), t.shape().end());
    none[size_t(list.axis)] = b.context().dim(0);
    all[2 + list.carried] = b.broadcastTo(b.scalarConstant(t.element(), 0), none);
  }
  return all;
}

llvm::SmallVector<Value *, 8> CarriedValues::results(llvm::ArrayRef<Value *> yields) const {
  llvm::SmallVector<Value *, 8> all{yields[0]};
  for (unsigned k : kept_)
    all.push_back(yields[1 + k]);
  for (const AppendedList &list : lists_)
    all.push_back(yields[1 + list.carried]);
  const auto stacked = yields.drop_front(all.size());
  all.append(stacked.begin(), stacked.end());
  return all;
}

void CarriedValues::set(Node &n, Operation *loop) const {
  for (unsigned k = 0; loop && k < loop->numResults(); ++k) {
    Value *result = loop->result(k);
    if (k < kept_.size()) {
      n.set(kept_[k], result);
    } else if (k < kept_.size() + lists_.size()) {
      const AppendedList &list = lists_[k - kept_.size()];
      n.set(list.carried, appended(n.b, n.input(list.carried + 2), result, list.axis));
    } else {
      n.set(k, result);
    }
  }
}

} // namespace tenon::frontend

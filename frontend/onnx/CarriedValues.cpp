// Implements the lists that a Loop appends to:
//
//   list = Loop(start) { list = Concat(list, piece) }
//
// becomes a loop whose pieces are stacked and, behind it, Concat(start, pieces), and so does one of
// SequenceInsert(list, piece). As a carried value the list would have another type in each
// iteration.
#include "frontend/onnx/CarriedValues.h"

#include "frontend/GraphImporter.h"
#include "frontend/Literals.h"
#include "frontend/Proto.h"
#include "frontend/onnx/Operators.h"
#include "ir/BornExtents.h"

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

/// Whether the sequence `name` is nothing in `graph` but the start of result `k`, to which at most
/// one tensor is appended on the way, in branches of an If, too.
bool appendsTo(const onnx::GraphProto &graph, std::string name, const std::string &result) {
  bool grows = false;
  while (name != result) {
    const onnx::NodeProto *next = nullptr;
    for (const onnx::NodeProto &node : graph.node())
      if (llvm::is_contained(node.input(), name) || captures(node, name)) {
        if (next)
          return false;
        next = &node;
      }
    if (!next || !next->domain().empty() ||
        llvm::any_of(graph.output(),
                     [&](const onnx::ValueInfoProto &v) { return v.name() == name; }))
      return false;
    int k = 0;
    if (next->op_type() == "If" && !grows) {
      grows = true;
      const auto follows = [&](const onnx::AttributeProto &branch) {
        return k < branch.g().output_size() &&
               appendsTo(branch.g(), name, branch.g().output(k).name());
      };
      while (k < next->output_size() && !llvm::all_of(next->attribute(), follows))
        ++k;
    } else if (next->op_type() == "SequenceInsert" && !grows) {
      grows = true;
      if (next->input_size() != 2 || next->input(0) != name || next->input(1) == name)
        return false;
    } else if (next->op_type() != "Identity") {
      return false;
    }
    if (k >= next->output_size())
      return false;
    name = next->output(k);
  }
  return true;
}

/// Carried value `i`, `item` at the start, as a list that `body` only appends to.
llvm::Optional<AppendedList> appendedList(const onnx::GraphProto &body, unsigned i,
                                          const TensorOrSequence &item) {
  const Type t = item.tensor() ? item.tensor()->type() : Type();
  if (item.tensor() ? !t.isTensor() || isOpaque(t.element()) || t.rank() == 0 : !item.elements())
    return llvm::None;
  std::string name = body.input(int(i) + 2).name();
  const std::string &result = body.output(int(i) + 1).name();
  llvm::Optional<int64_t> axis;
  bool grows = false;
  if (!item.tensor() && !appendsTo(body, name, result))
    return llvm::None;
  while (item.tensor() && (!grows || name != result)) {
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
    if (node->op_type() == "Concat" && !grows && node->input(0) == name) {
      grows = true;
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
  return times == 1 && !read ? llvm::Optional<AppendedList>({i, axis}) : llvm::None;
}

/// `start` and behind it the pieces [iterations, piece…] along `axis`.
Value *extended(Node &n, Value *start, const Stack &pieces, int64_t axis) {
  Value *list = joinStack(n, pieces, axis, false);
  if (!list || start->type().dim(unsigned(axis)).isConstant(0))
    return list;
  return n.b.value(Op::Concat, {start, list}, {{"axis", axis}});
}

/// Makes result i of `n` the sequence of `start` and `pieces`.
void setSequence(Node &n, unsigned i, const Elements &start, Stack pieces) {
  if (!start.empty()) {
    Value *first = stackAlong(n.b, start, 0, true);
    pieces = {first && pieces.pieces ? evened(n, pieces) : nullptr};
    if (pieces.pieces)
      pieces.pieces = n.b.value(Op::Concat, {first, pieces.pieces}, {{"axis", int64_t(0)}});
  }
  if (pieces.pieces)
    n.set(i, TensorOrSequence(pieces));
}

} // namespace

bool isAppendedSequence(const Node &n, const onnx::GraphProto &body, unsigned i) {
  return n.item(i + 2).elements() && appendedList(body, i, n.item(i + 2));
}

CarriedValues::CarriedValues(const Node &n, const onnx::GraphProto &body, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    if (auto list = appendedList(body, i, n.item(i + 2)))
      lists_.push_back(*list);
    else
      kept_.push_back(i);
}

TensorsOrSequences CarriedValues::inputs(const Node &n, Builder &b,
                                         llvm::ArrayRef<Value *> arguments) const {
  TensorsOrSequences all(2 + kept_.size() + lists_.size());
  all[0] = arguments[0], all[1] = arguments[1];
  for (size_t k = 0; k < kept_.size(); ++k)
    all[2 + kept_[k]] = arguments[2 + k];
  for (const AppendedList &list : lists_) {
    if (!list.axis) {
      all[2 + list.carried] = TensorOrSequence(Elements());
      continue;
    }
    const Type t = n.type(list.carried + 2);
    Shape none(t.shape().begin(), t.shape().end());
    none[size_t(*list.axis)] = b.context().dim(0);
    all[2 + list.carried] = b.broadcastTo(b.scalarConstant(t.element(), 0), none);
  }
  return all;
}

TensorsOrSequences CarriedValues::appended(llvm::ArrayRef<TensorOrSequence> results) {
  TensorsOrSequences all(results.begin(), results.end());
  for (AppendedList &list : lists_) {
    TensorOrSequence &piece = all[1 + list.carried];
    if (const auto stack = piece.stack(); stack && !stack->lengths) {
      list.several = true;
      piece = TensorOrSequence(stack->pieces);
    } else if (const Elements *one = piece.elements(); one && one->size() == 1) {
      piece = TensorOrSequence((*one)[0]);
    }
  }
  return all;
}

Value *CarriedValues::filledUp(const Node &n, Builder &b, Value *piece, unsigned k,
                               llvm::ArrayRef<Dim> born) {
  const Type t = piece->type();
  Dims high;
  for (unsigned d = 0; d < t.rank(); ++d) {
    const Dim extent = t.dim(d);
    high.push_back(b.context().dim(0));
    if (!mentions(extent, born))
      continue;
    const int64_t most = extent.upper();
    if (most > kElementLimit)
      return n.error("a piece of each iteration is " + toString(t) +
                     ", and nothing bounds its dimension " + std::to_string(d) +
                     ": say how much it is at most with --range");
    high.back() = b.context().dim(most) - extent;
    ragged_.push_back({k, d, 0});
  }
  if (ragged_.empty() || ragged_.back().piece != k)
    return piece;
  const Dims low(t.rank(), b.context().dim(0));
  return b.value(Op::Pad, {piece}, {{"low", low}, {"high", high}, {"mode", Word{"constant"}}});
}

llvm::SmallVector<Value *, 8> CarriedValues::results(const Node &n, Builder &b,
                                                     llvm::ArrayRef<Value *> yields,
                                                     llvm::ArrayRef<Dim> born) {
  llvm::SmallVector<Value *, 8> all{yields[0]};
  for (unsigned k : kept_)
    all.push_back(yields[1 + k]);
  for (const AppendedList &list : lists_)
    all.push_back(yields[1 + list.carried]);
  const auto stacked = yields.drop_front(all.size());
  all.append(stacked.begin(), stacked.end());
  const llvm::SmallVector<Value *, 8> pieces = all;
  for (unsigned k = unsigned(kept_.size()); k + 1 < pieces.size(); ++k)
    if (!(all[1 + k] = filledUp(n, b, pieces[1 + k], k, born)))
      return {};
  for (RaggedExtent &r : ragged_) {
    r.length = unsigned(all.size() - 1);
    all.push_back(extentProduct(b, pieces[1 + r.piece], {r.axis}, Element::I64));
  }
  return llvm::is_contained(all, nullptr) ? llvm::SmallVector<Value *, 8>() : all;
}

Stack CarriedValues::stack(Node &n, Operation *loop, unsigned k) const {
  Stack stack{loop->result(k)};
  const size_t list = k - kept_.size();
  bool free = list < lists_.size(); // pieces of a list may differ in one extent
  for (const RaggedExtent &r : ragged_) {
    if (r.piece != k || !stack.pieces)
      continue;
    Value *lengths = loop->result(r.length);
    if (free && r.axis == (lists_[list].several ? 0 : lists_[list].axis.getValueOr(r.axis))) {
      free = false;
      stack.lengths = lengths;
      stack.axis = r.axis;
    } else {
      stack.pieces = evened(n, {stack.pieces, lengths, r.axis});
    }
  }
  return stack;
}

void CarriedValues::set(Node &n, Operation *loop) const {
  for (unsigned k = 0; loop && k < loop->numResults() - ragged_.size(); ++k) {
    if (k < kept_.size()) {
      n.set(kept_[k], loop->result(k));
      continue;
    }
    const Stack pieces = stack(n, loop, k);
    if (!pieces.pieces)
      return;
    if (k >= kept_.size() + lists_.size()) {
      n.set(k, pieces.pieces);
      continue;
    }
    const AppendedList &list = lists_[k - kept_.size()];
    if (list.axis)
      n.set(list.carried, extended(n, n.input(list.carried + 2), pieces, *list.axis));
    else
      setSequence(n, list.carried, *n.item(list.carried + 2).elements(),
                  list.several ? Stack{joinStack(n, pieces, 0, false)} : pieces);
  }
}

} // namespace tenon::frontend

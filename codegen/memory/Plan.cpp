// Implements memory planning: alias classes, live ranges, offsets.
//
// Every value belongs to one buffer: views share their operand's, an in-place concat's operands
// share its result's, and a group's result takes over the buffer of an operand that dies there and
// is read only at the very points that are written. Buffers share bytes when every step that
// touches one has finished before any that touches the other starts (StepOrder.h), and where a
// result may run over an operand that dies, behind the reads of its kernel (Overlap.h); where they
// lie is ArenaLayout's.
#include "codegen/memory/Plan.h"

#include "codegen/core/GroupForm.h"
#include "codegen/memory/ArenaLayout.h"
#include "codegen/memory/Overlap.h"
#include "codegen/memory/Packing.h"
#include "ir/Views.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <memory>

namespace tenon {
namespace {

class Planner {
public:
  explicit Planner(Graph &graph) : graph_(graph) {}

  Plan run() {
    number(graph_.body());
    order_ = std::make_unique<StepOrder>(orderOf(plan_));
    inputs();
    buffers(graph_.body());
    outputs();
    liveRanges(graph_.body());
    compact();
    place();
    for (auto &[v, a] : aliases_) {
      Placement p;
      p.buffer = a.buffer;
      p.home = plan_.buffers[a.buffer].home;
      p.at = plan_.buffers[a.buffer].at;
      if (p.home != Home::Input && p.home != Home::Output && p.home != Home::Text)
        p.at += a.offset;
      p.offset = a.offset;
      p.start = a.start;
      plan_.placements[v] = p;
    }
    return std::move(plan_);
  }

private:
  struct Alias {
    unsigned buffer;
    int64_t offset; // bytes from the buffer's start
    Dim start;      // and elements known at run time; null for none
  };

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  void number(Region &r) {
    for (Operation &op : r) {
      if (!op.isAny(Op::Group, Op::If, Op::Loop))
        continue;
      const int mine = int(plan_.steps.size());
      Step s;
      s.op = &op;
      s.number = mine;
      plan_.steps.push_back(s);
      first_[&op] = mine;
      for (unsigned i = 0; i < op.numRegions() && !op.is(Op::Group); ++i)
        number(op.region(i));
      last_[&op] = int(plan_.steps.size()) - 1;
    }
  }

  //===--------------------------------------------------------------------===//
  // Buffers and aliases
  //===--------------------------------------------------------------------===//

  unsigned makeBuffer(Value *v, Home home, int64_t at, int64_t bytes) {
    BufferInfo b;
    b.home = home;
    b.at = at;
    b.bytes = bytes;
    b.firstStep = INT32_MAX;
    b.lastStep = -1;
    plan_.buffers.push_back(b);
    const auto id = unsigned(plan_.buffers.size() - 1);
    alias(v, {id, 0, Dim()});
    return id;
  }
  void alias(Value *v, Alias a) {
    aliases_[v] = a;
    plan_.buffers[a.buffer].values.push_back(v);
  }
  /// The place `elements` behind `a`.
  static Alias behind(Alias a, Type t, Dim elements) {
    const int64_t bits = bitWidth(t.element());
    if (elements.isConstant() && elements.constant() * bits % 8 == 0)
      a.offset += bytesOf(t, elements);
    else
      a.start = a.start ? a.start + elements : elements;
    return a;
  }
  unsigned find(Value *v) const { return aliases_.find(v)->second.buffer; }
  static int64_t bytesOf(Type t) { return byteSize(t.element(), allocatedElements(t)); }
  static int64_t bytesOf(Type t, Dim elements) {
    return elements.upper() * int64_t(bitWidth(t.element())) / 8;
  }

  void buffers(Region &r) {
    // Operands of an in-place concat need the concat's buffer before they are defined: reserve.
    for (Operation &op : llvm::reverse(r))
      if (op.is(Op::Concat)) {
        Value *y = op.result();
        if (!aliases_.count(y))
          makeBuffer(y, Home::Arena, 0, bytesOf(y->type()));
        const Alias a = aliases_[y];
        Dim start = y->type().context().dim(0);
        for (unsigned i = 0; i < op.numOperands(); ++i) {
          const Alias part = behind(a, y->type(), *windowOffset(op, i, start));
          start = start + op.operand(i)->type().dim(unsigned(op.intAttr("axis")));
          // What the operand renames is written there.
          for (Value *v = op.operand(i); v && !aliases_.count(v);
               v = v->def() ? renamedValue(*v->def()) : nullptr)
            alias(v, part);
        }
      }
    for (Operation &op : r) {
      switch (op.kind()) {
      case Op::Constant: {
        if (op.result()->type().element() == Element::String) {
          makeBuffer(op.result(), Home::Text, int64_t(plan_.texts.size()), 0);
          plan_.texts.push_back(op.result());
          break;
        }
        if (Value *same = equalConstant(op)) { // one copy for all that read it in this form
          alias(op.result(), {find(same), 0, Dim()});
          break;
        }
        const int64_t at = plan_.weightBytes;
        const int64_t bytes = storedBytes(op);
        makeBuffer(op.result(), Home::Weights, at, bytes);
        plan_.constants.push_back(op.result());
        plan_.weightBytes = at + alignInArena(bytes);
        break;
      }
      case Op::Reshape:
      case Op::Transpose:
      case Op::Slice:
        if (!aliases_.count(op.result())) {
          const Alias a = aliases_[op.operand(0)];
          alias(op.result(), behind(a, op.result()->type(), *viewOffset(op)));
        }
        break;
      case Op::Group: groupResults(op); break;
      case Op::If:
      case Op::Loop: controlFlow(op); break;
      default: break;
      }
    }
  }

  /// A constant before `op` of the same elements, stored in the same way; remembers `op` otherwise.
  Value *equalConstant(Operation &op) {
    const Tensor &value = **op.find("value")->get<Literal>();
    auto &like = constants_[{op.wordAttr("stored").str(), value.bytes().size()}];
    for (Value *v : like)
      if (v->type() == op.result()->type() &&
          (*v->def()->find("value")->get<Literal>())->sameBytes(value))
        return v;
    like.push_back(op.result());
    return nullptr;
  }

  void groupResults(Operation &group) {
    llvm::SmallVector<bool, 8> taken(group.numOperands(), false);
    for (Value *y : group.results()) {
      if (aliases_.count(y))
        continue;
      int reuse = inPlaceOperand(group, y, taken);
      if (reuse >= 0) {
        taken[reuse] = true;
        const Alias a = aliases_[group.operand(reuse)];
        alias(y, a);
      } else {
        makeBuffer(y, Home::Arena, 0, bytesOf(y->type()));
      }
    }
  }

  /// An operand whose memory the result may take over: it is all of its buffer, the group is the
  /// last to read that, and the body reads it only at the point it writes.
  int inPlaceOperand(Operation &group, Value *y, llvm::ArrayRef<bool> taken) {
    if (group.boolAttr("apart"))
      return -1;
    auto form = analyzeGroup(group);
    if (!form || form->isChain())
      return -1;
    const OutputForm &out = form->outputs[y->index()];
    const auto rank = unsigned(form->body.space.size());
    const Strides write = stridesOf(out, rank);
    for (unsigned i = 0; i < group.numOperands(); ++i) {
      Value *x = group.operand(i);
      if (taken[i] || !aliases_.count(x) || x->type().element() != y->type().element() ||
          bytesOf(x->type()) != bytesOf(y->type()))
        continue;
      const BufferInfo &b = plan_.buffers[find(x)];
      if (b.home != Home::Arena || b.bytes != bytesOf(y->type()) || !diesAt(b, group))
        continue;
      // Several operands may share the buffer (views); each must be read pointwise.
      bool pointwise = true, read = false;
      auto check = [&](const ScalarProgram &p, bool body) {
        for (const Access &a : p.inputs) {
          Value *source = group.operand(a.source->index());
          if (!aliases_.count(source) || find(source) != find(x))
            continue;
          read = true;
          const Strides s = stridesOf(a, unsigned(p.space.size()));
          pointwise &= body && source == x && !a.bounded && s.offset == write.offset &&
                       s.strides == write.strides;
        }
      };
      for (const ScalarProgram &p : form->anchorInputs)
        check(p, false);
      check(form->body, true);
      if (pointwise && read)
        return int(i);
    }
    return -1;
  }

  /// The last step that reads `v`, directly or through views; INT32_MAX when it is returned.
  int lastRead(Value *v) const {
    int last = -1;
    for (Use *u : v->uses()) {
      Operation *user = u->owner();
      if (user->isTerminator())
        return INT32_MAX;
      auto it = last_.find(user);
      last = std::max(last, it != last_.end() ? it->second : lastRead(user->result()));
    }
    return last;
  }
  /// No value of the buffer is used after `group`, nor beside it, nor returned, nor from another
  /// region.
  bool diesAt(const BufferInfo &b, Operation &group) const {
    for (Value *v : b.values)
      if (lastRead(v) > stepOf(group) || !v->def() || v->def()->parent() != group.parent() ||
          (!order_->isChain() && isReadBeside(v, stepOf(group))))
        return false;
    return true;
  }
  /// Whether a step that reads `v` may run while `step` does.
  bool isReadBeside(Value *v, int step) const {
    for (Use *u : v->uses()) {
      auto it = first_.find(u->owner());
      if (it == first_.end() ? isReadBeside(u->owner()->result(), step)
                             : it->second != step && !order_->before(it->second, step))
        return true;
    }
    return false;
  }
  int stepOf(const Operation &op) const { return first_.find(&op)->second; }

  /// Regions' arguments share the memory of what is passed; results have buffers that the yields
  /// are copied to by the emitted control flow.
  void controlFlow(Operation &op) {
    for (Value *y : op.results())
      if (!aliases_.count(y))
        makeBuffer(y, Home::Arena, 0, bytesOf(y->type()));
    for (unsigned i = 0; i < op.numRegions(); ++i) {
      Region &r = op.region(i);
      for (Value *a : r.arguments())
        if (!aliases_.count(a)) {
          // What a loop only captures is read where it is; what it carries has memory of its own.
          Value *passed = op.is(Op::If) ? op.operand(a->index() + 1)
                          : int64_t(a->index()) >= 2 + op.intAttr("carried")
                              ? op.operand(a->index())
                              : nullptr;
          if (passed && aliases_.count(passed))
            alias(a, Alias(aliases_[passed]));
          else
            makeBuffer(a, Home::Arena, 0, bytesOf(a->type()));
        }
      buffers(r);
    }
  }

  /// Inputs are read where the caller or the context's states hold them.
  void inputs() {
    int64_t next = 0;
    for (unsigned i = 0; i < graph_.body().numArguments(); ++i) {
      Value *v = graph_.body().argument(i);
      const State *s = graph_.stateOfInput(i);
      if (!s) {
        makeBuffer(v, Home::Input, next++, 0);
        continue;
      }
      // A cache is as large as it becomes; what is appended to it in place is a part of it.
      Value *whole = graph_.returnOp()->operand(s->output);
      const int64_t bytes = std::max(bytesOf(v->type()), bytesOf(whole->type()));
      const unsigned buffer = makeBuffer(v, Home::State, plan_.stateBytes, bytes);
      plan_.stateBytes += alignInArena(bytes);
      if (Operation *op = appendOf(graph_, *s))
        if (auto offset = viewOffset(*op); offset && offset->isConstant(0))
          alias(whole, {buffer, 0, Dim()});
    }
  }

  /// The graph's outputs are written straight into the caller's memory; those that become states
  /// stay in the arena until the end, when they are carried over.
  void outputs() {
    Operation *end = graph_.returnOp();
    int64_t next = 0;
    for (unsigned i = 0; i < end->numOperands(); ++i) {
      BufferInfo &b = plan_.buffers[find(end->operand(i))];
      if (graph_.stateOfOutput(i)) {
        b.lastStep = int(plan_.steps.size()) - 1;
        continue;
      }
      if (b.home == Home::Arena) {
        b.home = Home::Output;
        b.at = next;
      }
      ++next;
    }
  }

  //===--------------------------------------------------------------------===//
  // Live ranges and placement
  //===--------------------------------------------------------------------===//

  void touch(Value *v, int step) {
    auto it = aliases_.find(v);
    if (it == aliases_.end())
      return;
    BufferInfo &b = plan_.buffers[it->second.buffer];
    b.firstStep = std::min(b.firstStep, step);
    b.lastStep = std::max(b.lastStep, step);
    if (!llvm::is_contained(b.steps, step))
      b.steps.push_back(step);
  }

  void liveRanges(Region &r) {
    for (Operation &op : r) {
      if (op.isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::Concat, Op::Constant))
        continue; // their users count
      auto it = first_.find(&op);
      if (it == first_.end()) {
        if (op.isTerminator() && op.parentOp())
          for (Value *v : op.operands())
            touch(v, last_.find(op.parentOp())->second);
        continue;
      }
      for (Value *v : op.operands())
        touch(v, it->second);
      for (Value *v : op.results())
        touch(v, it->second);
      if (op.is(Op::Group))
        continue;
      // Control flow: what enters, leaves or is captured lives through all of it.
      const int end = last_.find(&op)->second;
      for (Value *v : op.operands())
        touch(v, end);
      for (Value *v : op.results())
        touch(v, end);
      for (unsigned i = 0; i < op.numRegions(); ++i) {
        for (Value *a : op.region(i).arguments()) {
          touch(a, it->second);
          touch(a, end);
        }
        liveRanges(op.region(i));
      }
    }
  }

  /// Scratch joins as buffers of one step.
  void compact() {
    for (Step &s : plan_.steps) {
      if (int64_t bytes = s.op->intAttr("scratch")) {
        s.scratchBytes = bytes;
        plan_.scratchBytes = std::max(plan_.scratchBytes, bytes);
      }
      if (int64_t bytes = s.op->intAttr("zeroed")) {
        s.zeroedAt = plan_.zeroedBytes;
        s.zeroedBytes = bytes;
        plan_.zeroedBytes += alignInArena(bytes);
      }
    }
  }

  /// What lies in the arena: a buffer or the scratch of a step.
  struct Item {
    ArenaItem extent;
    llvm::ArrayRef<int> steps;
    int64_t *at;
  };

  /// Whether two items may be live at the same time.
  bool meet(const Item &a, const Item &b) const {
    if (a.extent.first <= b.extent.last && b.extent.first <= a.extent.last)
      return true;
    if (order_->isChain())
      return false;
    const bool aFirst = a.extent.last < b.extent.first;
    for (int s : (aFirst ? a : b).steps)
      for (int t : (aFirst ? b : a).steps)
        if (!order_->before(s, t))
          return true;
    return false;
  }

  /// The results that may lie over an operand, both of which are whole buffers and of no use to
  /// other steps at the same time.
  std::vector<ArenaOverlay> overlays(llvm::ArrayRef<Item> items) {
    std::vector<ArenaOverlay> all;
    llvm::DenseMap<const int64_t *, unsigned> itemOf;
    for (unsigned i = 0; i < items.size(); ++i)
      itemOf[items[i].at] = i;
    for (const Step &s : plan_.steps) {
      const auto overlap = overlapOf(*s.op);
      const auto distance = overlap ? overlap->distance(kArenaAlignment) : llvm::None;
      if (!distance || s.op->boolAttr("apart") || !order_->isChain())
        continue;
      const Alias x = aliases_[s.op->operand(overlap->operand)], y = aliases_[s.op->result(0)];
      const BufferInfo &operand = plan_.buffers[x.buffer], &result = plan_.buffers[y.buffer];
      const auto whole = [](const Alias &a) { return a.offset == 0 && !a.start; };
      const auto readers = llvm::count_if(
          s.op->operands(), [&](Value *v) { return aliases_.count(v) && find(v) == x.buffer; });
      const auto over = itemOf.find(&result.at), under = itemOf.find(&operand.at);
      if (whole(x) && whole(y) && readers == 1 && operand.lastStep == s.number &&
          result.firstStep == s.number && over != itemOf.end() && under != itemOf.end())
        all.push_back({over->second, under->second, s.number, *distance});
    }
    return all;
  }

  void place() {
    std::vector<Item> items;
    for (BufferInfo &b : plan_.buffers)
      if (b.home == Home::Arena && b.lastStep >= 0 && b.bytes > 0)
        items.push_back({{alignInArena(b.bytes), b.firstStep, b.lastStep, false}, b.steps, &b.at});
    for (Step &s : plan_.steps)
      if (s.scratchBytes)
        items.push_back(
            {{alignInArena(s.scratchBytes), s.number, s.number, true}, s.number, &s.scratchAt});
    std::vector<ArenaItem> extents;
    extents.reserve(items.size());
    for (const Item &it : items)
      extents.push_back(it.extent);
    std::vector<Pool> pools = poolsOf(graph_.module());
    if (pools.empty())
      pools.push_back({"", INT64_MAX});
    const ArenaLayout layout = layOutArena(
        extents, [&](unsigned a, unsigned b) { return meet(items[a], items[b]); }, overlays(items),
        pools);
    for (size_t i = 0; i < items.size(); ++i)
      *items[i].at = layout.at[i];
    plan_.arenaBytes = layout.bytes;
    plan_.boundBytes = layout.boundBytes;
  }

  /// Distinct constants, by how they are stored and the bytes of their elements; looked up only.
  std::map<std::pair<std::string, size_t>, llvm::SmallVector<Value *, 2>> constants_;
  Graph &graph_;
  Plan plan_;
  std::unique_ptr<StepOrder> order_;
  llvm::DenseMap<const Operation *, int> first_, last_;
  llvm::MapVector<Value *, Alias> aliases_;
};

} // namespace

Plan planMemory(Graph &graph) { return Planner(graph).run(); }

int64_t Plan::liveBytes(int step) const {
  int64_t bytes = 0;
  for (const BufferInfo &b : buffers)
    if (b.home == Home::Arena && b.firstStep <= step && step <= b.lastStep)
      bytes += b.bytes;
  return bytes;
}

StepOrder orderOf(const Plan &plan) {
  std::vector<Operation *> steps;
  for (const Step &s : plan.steps)
    steps.push_back(s.op);
  return StepOrder(steps);
}

} // namespace tenon

// Implements the check of memory plans: every overlap of bytes against the order of steps.
#include "codegen/memory/PlanVerifier.h"

#include "codegen/memory/Overlap.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

/// Bytes of the arena and the steps that touch them.
struct Extent {
  std::string what;
  int64_t at, bytes;
  llvm::SmallVector<int, 4> steps;
  bool toTheEnd; // carried to the next run when all steps are done
  int buffer;    // -1: scratch
};

class Verifier {
public:
  Verifier(const Plan &plan, Diagnostics &diagnostics)
      : plan_(plan), order_(orderOf(plan)), diagnostics_(diagnostics) {}

  bool run() {
    for (const Step &s : plan_.steps)
      stepOf_[s.op] = s.number;
    for (const Step &s : plan_.steps)
      reads(s);
    overlaid_ = overlaidResults(plan_);
    const std::vector<Extent> extents = this->extents();
    for (size_t a = 0; a < extents.size(); ++a)
      for (size_t b = a + 1; b < extents.size(); ++b)
        if (extents[a].at < extents[b].at + extents[b].bytes &&
            extents[b].at < extents[a].at + extents[a].bytes)
          overlap(extents[a], extents[b]);
    for (const Overlaid &o : overlaid_)
      overlaid(o);
    for (const BufferInfo &b : plan_.buffers) {
      inPlace(b);
      if (b.home == Home::Output)
        output(b);
    }
    return ok_;
  }

private:
  void fail(const Operation &op, const std::string &message) {
    ok_ = false;
    diagnostics_.error(op, "defect of the memory plan: " + message);
  }
  void fail(int step, const std::string &message) { fail(*plan_.steps[size_t(step)].op, message); }

  void reads(const Step &s) {
    llvm::SmallVector<int, 8> makers;
    for (Value *v : s.op->operands())
      stepsBehind(v, stepOf_, makers);
    for (int m : makers)
      if (!order_.before(m, s.number))
        fail(s.number, "step " + std::to_string(s.number) + " does not wait for step " +
                           std::to_string(m) + ", whose result it reads");
  }

  std::vector<Extent> extents() const {
    std::vector<Extent> all;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const BufferInfo &b = plan_.buffers[i];
      if (b.home != Home::Arena || b.bytes == 0 || b.steps.empty())
        continue;
      all.push_back({"buffer " + std::to_string(i), b.at, b.bytes, b.steps,
                     b.lastStep > *std::max_element(b.steps.begin(), b.steps.end()), int(i)});
    }
    for (const Step &s : plan_.steps)
      if (s.scratchBytes > 0)
        all.push_back({"the scratch of step " + std::to_string(s.number),
                       s.scratchAt,
                       s.scratchBytes,
                       {s.number},
                       false,
                       -1});
    return all;
  }

  bool allBefore(const Extent &a, const Extent &b) const {
    return !a.toTheEnd && llvm::all_of(a.steps, [&](int s) {
      return llvm::all_of(b.steps, [&](int t) { return order_.before(s, t); });
    });
  }
  void overlap(const Extent &a, const Extent &b) {
    for (const Overlaid &o : overlaid_)
      if ((a.buffer == int(o.result) && b.buffer == int(o.operand)) ||
          (b.buffer == int(o.result) && a.buffer == int(o.operand)))
        return; // overlaid() looks at these
    if (!allBefore(a, b) && !allBefore(b, a))
      fail(b.steps.front(), a.what + " and " + b.what + " share bytes and may be live together");
  }

  /// A result over an operand that dies keeps behind its reads, which nothing else makes.
  void overlaid(const Overlaid &o) {
    const Operation &group = *o.step->op;
    const Overlap permitted = *overlapOf(group);
    unsigned reads = 0;
    for (Value *v : group.operands())
      reads += plan_.placements.count(v) && plan_[v].buffer == o.operand;
    const Placement &x = plan_[group.operand(permitted.operand)], &y = plan_[group.result(0)];
    const bool alone = reads == 1 && x.offset == 0 && y.offset == 0 && !x.start && !y.start &&
                       !group.boolAttr("apart") && order_.isChain();
    if (!alone || !permitted.permits(o.distance))
      fail(o.step->number,
           "step " + std::to_string(o.step->number) +
               " may write over an operand that it has not read; its result begins " +
               std::to_string(o.distance) + " bytes before it");
  }

  void touching(Value *v, llvm::SmallVectorImpl<int> &out) const {
    for (Use *u : v->uses()) {
      auto it = stepOf_.find(u->owner());
      if (it != stepOf_.end())
        out.push_back(it->second);
      else if (!u->owner()->isTerminator())
        touching(u->owner()->result(), out);
    }
  }

  /// Byte of its buffer at which a value's first element lies; windows of it have their origins.
  Dim beginOf(Value *v) const {
    const Type t = v->type();
    const Placement &p = plan_[v];
    const Dim first = addressing(t).offset;
    return (p.start ? first + p.start : first) * (bitWidth(t.element()) / 8) + p.offset;
  }

  /// Values of one buffer that begin at one place: the later is written over the earlier.
  void inPlace(const BufferInfo &b) {
    for (Value *late : b.values) {
      auto maker = late->def() ? stepOf_.find(late->def()) : stepOf_.end();
      if (maker == stepOf_.end())
        continue;
      for (Value *early : b.values) {
        auto first = early->def() ? stepOf_.find(early->def()) : stepOf_.end();
        if (first == stepOf_.end() || first->second >= maker->second ||
            early->type().upperElements() == 0 || beginOf(early) != beginOf(late))
          continue;
        llvm::SmallVector<int, 8> steps{first->second};
        touching(early, steps);
        for (int s : steps)
          if (s != maker->second && !order_.before(s, maker->second))
            fail(maker->second, "step " + std::to_string(maker->second) +
                                    " writes over what step " + std::to_string(s) + " uses");
      }
    }
  }

  /// The caller's memory has room for the elements of the output, and for nothing beside them.
  void output(const BufferInfo &b) {
    for (Value *v : b.values) {
      const bool returned = llvm::any_of(
          v->uses(), [](Use *u) { return u->owner()->isTerminator() && !u->owner()->parentOp(); });
      if (returned && (plan_[v].offset != 0 ||
                       b.bytes > byteSize(v->type().element(), v->type().upperElements())))
        fail(*v->def(), "the buffer of an output holds more than the output");
    }
  }

  const Plan &plan_;
  const StepOrder order_;
  Diagnostics &diagnostics_;
  llvm::DenseMap<const Operation *, int> stepOf_;
  std::vector<Overlaid> overlaid_;
  bool ok_ = true;
};

} // namespace

bool verifyPlan(const Plan &plan, Diagnostics &diagnostics) {
  return Verifier(plan, diagnostics).run();
}

} // namespace tenon

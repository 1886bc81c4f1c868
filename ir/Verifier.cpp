// Implements the verifier.
#include "ir/Verifier.h"

#include "ir/Builder.h"
#include "ir/Text.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

/// Same logical type: layout and space are the compiler's choice and not inferred.
bool sameLogical(Type a, Type b) {
  if (a == b)
    return true;
  return a.isTensor() && b.isTensor() && a.element() == b.element() && a.shape() == b.shape();
}

class Verifier {
public:
  Verifier(Graph &graph, Diagnostics &diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  void run() {
    Operation *end = graph_.returnOp();
    if (!end || !end->is(Op::Return)) {
      diagnostics_.error("graph '" + graph_.name + "' does not end with return").about =
          end                     ? end
          : graph_.body().empty() ? nullptr
                                  : &graph_.body().back();
      return;
    }
    if (end->numOperands() != graph_.outputNames.size())
      diagnostics_
          .error("graph '" + graph_.name + "' names " + std::to_string(graph_.outputNames.size()) +
                 " outputs, return has " + std::to_string(end->numOperands()))
          .about = end;
    if (graph_.body().numArguments() != graph_.inputNames.size())
      diagnostics_.error("graph '" + graph_.name + "' names " +
                         std::to_string(graph_.inputNames.size()) + " inputs and has " +
                         std::to_string(graph_.body().numArguments()) + " arguments");
    for (Value *v : graph_.body().arguments())
      if (std::string why = inMemory(v); !why.empty())
        diagnostics_.error("graph '" + graph_.name + "', input " + std::to_string(v->index()) +
                           ": " + why);
    region(graph_.body());
  }

private:
  void fail(const Operation &op, std::string message) {
    Diagnostic &d = diagnostics_.error(op, std::move(message));
    std::string text;
    llvm::raw_string_ostream os(text);
    print(op, os);
    llvm::StringRef line = llvm::StringRef(os.str()).split('\n').first;
    d.notes.push_back("in " + line.take_front(200).str());
  }

  static std::string inMemory(Value *v) {
    return v->type().isTensor() ? whyNotInMemory(v->type()) : "";
  }

  void region(Region &r) {
    llvm::SmallVector<Value *, 16> added;
    auto define = [&](Value *v) {
      visible_.insert(v);
      added.push_back(v);
    };
    for (Value *a : r.arguments())
      define(a);
    for (Operation &op : r) {
      operation(op, &op == &r.back());
      for (Value *v : op.results())
        define(v);
    }
    for (Value *v : added)
      visible_.erase(v);
  }

  void operation(Operation &op, bool last) {
    const OpInfo &info = op.info();
    if (op.isTerminator() != last)
      fail(op,
           last ? "region does not end with a terminator" : "terminator in the middle of a region");
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (!v) {
        fail(op, "operand " + std::to_string(i) + " is missing");
        return;
      }
      if (!visible_.count(v)) {
        fail(op, "operand " + std::to_string(i) +
                     " is not defined before this operation or not visible in its region");
        return;
      }
    }
    const bool inBody =
        op.parentOp() && op.parentOp()->isAny(Op::Map, Op::Reduce, Op::Scan, Op::Recurrent);
    if ((info.traits & OpTrait::Scalar) && !inBody)
      fail(op, "scalar operation outside the body of a map, reduce, scan or recurrent");
    if (inBody && !(info.traits & OpTrait::Scalar) && !op.isTerminator())
      fail(op, "the body of a map, reduce, scan or recurrent holds only scalar operations");
    if (op.is(Op::Group) && op.parentOp() &&
        op.parentOp()->isAny(Op::Group, Op::Map, Op::Reduce, Op::Scan, Op::Recurrent))
      fail(op, "group inside a kernel; groups stand in graphs and in the regions of if and loop");
    llvm::SmallVector<Type, 2> types;
    std::string error;
    if (!inferTypes(op, types, error)) {
      fail(op, error);
    } else if (info.infer) {
      if (types.size() != op.numResults()) {
        fail(op, "expected " + std::to_string(types.size()) + " results, found " +
                     std::to_string(op.numResults()));
      } else {
        for (unsigned i = 0; i < types.size(); ++i)
          if (!sameLogical(types[i], op.result(i)->type()))
            fail(op, "result " + std::to_string(i) + " should be " + toString(types[i]) +
                         ", found " + toString(op.result(i)->type()));
        if (info.verify && !info.verify(op, error))
          fail(op, error);
      }
    }
    for (Value *v : op.results())
      if (std::string why = inMemory(v); !why.empty())
        fail(op, why);
    for (unsigned i = 0; i < op.numRegions(); ++i) {
      for (Value *v : op.region(i).arguments())
        if (std::string why = inMemory(v); !why.empty())
          fail(op, "argument " + std::to_string(v->index()) + ": " + why);
      if (!op.region(i).terminator()) {
        fail(op, "region " + std::to_string(i) + " has no terminator");
        continue;
      }
      if (info.traits & OpTrait::Isolated) {
        llvm::DenseSet<Value *> outer;
        std::swap(outer, visible_);
        region(op.region(i));
        std::swap(outer, visible_);
      } else {
        region(op.region(i));
      }
    }
  }

  Graph &graph_;
  Diagnostics &diagnostics_;
  llvm::DenseSet<Value *> visible_;
};

} // namespace

bool verify(Graph &graph, Diagnostics &diagnostics) {
  const size_t before = diagnostics.list().size();
  Verifier(graph, diagnostics).run();
  for (size_t i = before; i < diagnostics.list().size(); ++i)
    if (diagnostics.list()[i].severity == Severity::Error)
      return false;
  return true;
}

bool verify(Module &module, Diagnostics &diagnostics) {
  bool ok = true;
  for (auto &g : module.graphs)
    ok &= verify(*g, diagnostics);
  return ok;
}

} // namespace tenon

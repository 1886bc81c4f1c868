// Control flow, kernel boundaries, user operators and terminators. Regions are isolated: what a
// region uses from outside is an operand and comes in as an argument.
//
//   if (cond, captures…) { (captures…) … yield r… } { (captures…) … yield r… }
//     the first region when cond holds, else the second. Both yield the same types, but for extents
//     where `extents`, the shapes of all results one after another, has symbols: those are born
//     here, and are what the region that ran yields.
//   loop (trip, cond, carried…, captures…) {carried, scans, max_trip} { (iteration, cond,
//        carried…, captures…) … yield cond, carried…, scan… }
//     runs the region while fewer than `trip` iterations are done and cond holds. Results are the
//     last carried values (the initial ones when nothing ran), then each scan element of every
//     iteration stacked along a new first dimension of extent `max_trip`: a constant where the
//     number of iterations is known, else a symbol born here.
//   group (x…) {schedule, scratch} { (x…) … yield r… }
//     one kernel. Arguments mirror the operands. `schedule` says how it is computed and `scratch`
//     which buffers it needs besides; both leave its value unchanged.
//   user (x…) {name, types, …}
//     an operator that the user brings; `types` is the type of its result. A region, if there is
//     one, is its reference body in terms of other ops.
//   yield r…   ends a region;   return r…   ends a graph.
#include "ir/UserFunction.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

#include "llvm/ADT/StringExtras.h"

namespace tenon {
namespace {

bool isOneElement(Type t, Element e) {
  if (!t.isTensor() || t.element() != e)
    return false;
  for (Dim d : t.shape())
    if (!d.isConstant(1))
      return false;
  return true;
}

bool checkArguments(const Operation &op, unsigned region, unsigned firstArgument,
                    unsigned firstOperand, std::string &error) {
  Region &r = op.region(region);
  const unsigned expected = firstArgument + op.numOperands() - firstOperand;
  if (r.numArguments() != expected)
    return fail(error, "region " + llvm::Twine(region) + ": expected " + llvm::Twine(expected) +
                           " arguments, found " + llvm::Twine(r.numArguments()));
  for (unsigned i = firstOperand; i < op.numOperands(); ++i) {
    Type outer = op.operand(i)->type();
    Type inner = r.argument(firstArgument + i - firstOperand)->type();
    if (!sameLogical(outer, inner))
      return fail(error, "region " + llvm::Twine(region) + ", argument " +
                             llvm::Twine(firstArgument + i - firstOperand) + ": expected " +
                             toString(outer) + ", found " + toString(inner));
  }
  return true;
}

bool inferIf(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  if (!isOneElement(op.operand(0)->type(), Element::Bool))
    return fail(error, "cond: expected one boolean, found " + toString(op.operand(0)->type()));
  if (!checkArguments(op, 0, 0, 1, error) || !checkArguments(op, 1, 0, 1, error))
    return false;
  Operation *yes = regionEnd(op, 0, error), *no = yes ? regionEnd(op, 1, error) : nullptr;
  if (!no)
    return false;
  if (yes->numOperands() != no->numOperands())
    return fail(error, "branches yield " + llvm::Twine(yes->numOperands()) + " and " +
                           llvm::Twine(no->numOperands()) + " values: expected the same number");
  llvm::ArrayRef<Dim> extents = op.dimsAttr("extents");
  for (unsigned i = 0; i < yes->numOperands(); ++i) {
    Type a = yes->operand(i)->type(), b = no->operand(i)->type();
    auto differ = [&](const llvm::Twine &expected) {
      return fail(error, "result " + llvm::Twine(i) + ": branches yield " + toString(a) + " and " +
                             toString(b) + ": expected " + expected);
    };
    if (!op.has("extents")) {
      if (!sameLogical(a, b))
        return differ("one type");
      results.push_back(logical(a));
      continue;
    }
    if (!a.isTensor() || !b.isTensor() || a.element() != b.element() || a.rank() != b.rank())
      return differ("one type of element and one rank");
    if (extents.size() < a.rank())
      return fail(error, "attribute extents: expected the shapes of all results");
    for (unsigned d = 0; d < a.rank(); ++d)
      if (const Dim e = extents[d]; !e.isSymbol() && (a.dim(d) != e || b.dim(d) != e))
        return differ("the extent " + text(e) + " of both, or a symbol of the result's own");
    results.push_back(Type::tensor(a.context(), a.element(), extents.take_front(a.rank())));
    extents = extents.drop_front(a.rank());
  }
  return extents.empty() || fail(error, "attribute extents: expected the shapes of all results");
}

bool inferLoop(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  const int64_t carried = op.intAttr("carried"), scans = op.intAttr("scans");
  if (carried < 0 || carried > int64_t(op.numOperands()) - 2)
    return fail(error, "attribute carried: expected 0 to " + llvm::Twine(op.numOperands() - 2) +
                           ", found " + llvm::Twine(carried));
  Type trip = op.operand(0)->type(), cond = op.operand(1)->type();
  if (!isOneElement(trip, Element::I64))
    return fail(error, "trip: expected one i64, found " + toString(trip));
  if (!isOneElement(cond, Element::Bool))
    return fail(error, "cond: expected one boolean, found " + toString(cond));
  if (!checkArguments(op, 0, 2, 2, error))
    return false;
  Region &body = op.region();
  if (!isOneElement(body.argument(0)->type(), Element::I64) ||
      !isOneElement(body.argument(1)->type(), Element::Bool))
    return fail(error, "region 0: expected arguments (i64 iteration, i1 condition, …)");
  Operation *end = regionEnd(op, 0, error);
  if (!end)
    return false;
  if (scans < 0 || int64_t(end->numOperands()) - 1 - carried != scans)
    return fail(error, "region 0 yields " + llvm::Twine(end->numOperands()) +
                           " values: expected the condition, " + llvm::Twine(carried) +
                           " carried values and " + llvm::Twine(scans) + " scan elements");
  if (!isOneElement(end->operand(0)->type(), Element::Bool))
    return fail(error, "region 0 yields " + toString(end->operand(0)->type()) +
                           " as condition: expected one boolean");
  for (unsigned i = 0; i < carried; ++i) {
    Type in = op.operand(2 + i)->type(), out = end->operand(1 + i)->type();
    if (!sameLogical(in, out))
      return fail(error, "carried value " + llvm::Twine(i) + " starts as " + toString(in) +
                             " and is yielded as " + toString(out) + ": expected one type");
    results.push_back(logical(in));
  }
  const Dims &bound = op.dimsAttr("max_trip");
  if (scans > 0 && bound.size() != 1)
    return fail(error, "attribute max_trip: expected the extent of the scans, found " +
                           llvm::Twine(bound.size()) + " extents");
  for (unsigned i = 0; i < scans; ++i) {
    Type element = end->operand(unsigned(1 + carried) + i)->type();
    if (!element.isTensor())
      return fail(error,
                  "scan " + llvm::Twine(i) + ": expected a tensor, found " + toString(element));
    llvm::SmallVector<Dim, 6> shape{bound[0]};
    shape.append(element.shape().begin(), element.shape().end());
    results.push_back(Type::tensor(element.context(), element.element(), shape));
  }
  return true;
}

bool inferGroup(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkArguments(op, 0, 0, 0, error))
    return false;
  Operation *end = regionEnd(op, 0, error);
  if (!end)
    return false;
  for (Value *v : end->operands()) {
    if (v->type().isScalar())
      return fail(error, "a group yields tensors, found " + toString(v->type()));
    results.push_back(logical(v->type()));
  }
  return true;
}

/// What names the function of an operator of the user's.
bool checkFunction(const Operation &op, std::string &error) {
  for (llvm::StringRef key : {"function", "header"})
    if (const Attribute *a = op.find(key); a && !a->get<std::string>())
      return fail(error, "attribute " + key + ": expected a string");
  const llvm::StringRef function = op.stringAttr("function"), header = op.stringAttr("header");
  if (op.has("function"))
    if (std::string why = whyNoFunctionName(function); !why.empty())
      return fail(error, "attribute function: " + why);
  if (function.contains("::") && !op.has("header"))
    return fail(error, "attribute function: '" + function +
                           "' is declared by no header: expected the attribute header, or the name "
                           "of a C function");
  if (op.has("header"))
    if (std::string why = whyNoHeaderName(header); !why.empty())
      return fail(error, "attribute header: " + why);
  if (const Attribute *a = op.find("extents"); a && !a->get<Dims>())
    return fail(error, "attribute extents: expected extents");
  return true;
}

bool inferUser(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  // Further attributes are the user's own, so the form is not checked against the table.
  const Attribute *type = op.find("types");
  if (!type || !type->get<Type>() || !type->get<Type>()->isTensor())
    return fail(error, "attribute types: expected the tensor type of the result");
  if (op.stringAttr("name").empty())
    return fail(error, "attribute name: expected the name of the operator");
  if (!checkFunction(op, error))
    return false;
  Type result = logical(*type->get<Type>());
  if (op.numRegions() > 0) {
    if (!checkArguments(op, 0, 0, 0, error))
      return false;
    Operation *end = regionEnd(op, 0, error);
    if (!end)
      return false;
    if (end->numOperands() != 1 || !sameLogical(end->operand(0)->type(), result))
      return fail(error, "region 0: expected to yield one " + toString(result));
  }
  results.push_back(result);
  return true;
}

bool inferNothing(const Operation &op, llvm::SmallVectorImpl<Type> &, std::string &error) {
  return checkForm(op, error);
}

const llvm::StringRef kIfOperands[] = {"cond", "captures…"};
const llvm::StringRef kLoopOperands[] = {"trip", "cond", "carried and captures…"};
const llvm::StringRef kMany[] = {"x…"};
const AttrInfo kIf[] = {
    {"extents", AttrKind::Dims, false,
     "shapes of all results, with symbols where the regions' differ"},
};
const AttrInfo kLoop[] = {
    {"carried", AttrKind::Int, true, "number of operands that the region replaces"},
    {"scans", AttrKind::Int, true, "number of stacked results"},
    {"max_trip", AttrKind::Dims, false, "extent of the stacked results"},
};
const AttrInfo kGroup[] = {
    {"schedule", AttrKind::Schedule, false, "the chosen kernel and its parameters"},
    {"scratch", AttrKind::Int, false, "bytes that live as long as the kernel runs"},
    {"zeroed", AttrKind::Int, false, "bytes that are zero at creation and left zero"},
    {"overlap", AttrKind::Ints, false,
     "operand, bytes, step: where the result may lie over that operand, which dies there"},
    {"apart", AttrKind::Bool, false, "results take over no operand's memory, as at -O0"},
    {"branch", AttrKind::Int, false, "groups of different branches may run side by side"},
};
const AttrInfo kUser[] = {
    {"name", AttrKind::String, true, "name of the operator"},
    {"types", AttrKind::Type, true, "type of the result"},
    {"function", AttrKind::String, false, "C++ function that computes it; without one, the region"},
    {"header", AttrKind::String, false, "file that declares the function"},
    {"extents", AttrKind::Dims, false, "extents that the function takes after the pointers"},
};

} // namespace

llvm::ArrayRef<OpRow> controlOps() {
  static const OpRow kRows[] = {
      {Op::If,
       {"if", "Evaluates one of two regions.", kIfOperands, kIf, kVariadic, 2, OpTrait::Isolated,
        inferIf, nullptr, evaluateIf}},
      {Op::Loop,
       {"loop", "Repeats a region with carried values.", kLoopOperands, kLoop, kVariadic, 1,
        OpTrait::Isolated, inferLoop, nullptr, evaluateLoop}},
      {Op::Group,
       {"group", "What one kernel computes.", kMany, kGroup, kVariadic, 1, OpTrait::Isolated,
        inferGroup, nullptr, evaluateGroup}},
      {Op::User,
       {"user", "An operator that the user brings.", kMany, kUser, 1, kVariadic, OpTrait::Effect,
        inferUser, nullptr, evaluateUser}},
      {Op::Yield,
       {"yield", "Ends a region with its results.", kMany, kNoAttributes, 0, 0, OpTrait::Terminator,
        inferNothing, nullptr, nullptr}},
      {Op::Return,
       {"return", "Ends a graph with its outputs.", kMany, kNoAttributes, 0, 0, OpTrait::Terminator,
        inferNothing, nullptr, nullptr}},
  };
  return kRows;
}

} // namespace tenon

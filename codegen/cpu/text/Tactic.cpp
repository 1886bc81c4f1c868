// Defines the tactics `text_map`, functions of text as maps, and `text_split`.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/emit/TextTables.h"

namespace tenon::cpu {
namespace {

/// The view of an operand over the result's space: along dimensions that it lacks, or has once, it
/// stands still.
std::string broadcastView(StepWriter &out, const ScalarProgram &operand, unsigned rank) {
  const auto own = unsigned(operand.space.size());
  const Access &access = operand.inputs[0];
  const Strides from = stridesOf(access, own);
  Strides strides;
  strides.offset = from.offset;
  for (unsigned d = 0; d < rank; ++d) {
    const unsigned missing = rank - own;
    const bool still = d < missing || operand.space[d - missing].isConstant(1);
    strides.strides.push_back(still ? access.type.context().dim(0) : from.strides[d - missing]);
  }
  return out.view(access.source, strides);
}

/// The function as an object of runtime/cpu/text_functions.h.
std::string functionOf(const Operation &op, StepWriter &out) {
  const llvm::StringRef function = op.wordAttr("function");
  if (function == "concat")
    return "cpu::text_concat{f.texts}";
  if (function == "lower")
    return "cpu::text_case<'A'>{f.texts}";
  if (function == "upper")
    return "cpu::text_case<'a'>{f.texts}";
  if (function == "equal")
    return "cpu::text_equal{}";
  if (function == "count")
    return "cpu::text_count{text" + textElement(op.stringAttr("delimiter")) + ", " +
           std::to_string(op.intAttr("limit", -1)) + "}";
  if (function == "number")
    return "cpu::text_number<" + cppElement(op.result()->type().element()).str() +
           ">{f.failure, rt::text_no_number}";
  if (function == "digits")
    return "cpu::text_digits{f.texts}";
  if (function == "match")
    return "cpu::text_match{" +
           writeTextAutomaton(out.declarations(), out.name(), op.stringAttr("pattern")) + "}";
  return "cpu::text_place{" +
         writeTextIndex(out.declarations(), out.name(), *op.find("keys")->get<Strings>()) + "}";
}

struct TextMap {
  static constexpr llvm::StringLiteral id = "text_map",
                                       summary = "functions of text, one element at a time";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::TextMap).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const auto rank = unsigned(form.body.space.size());
    out.include("cpu/map.h");
    out.include("cpu/text_functions.h");
    std::string ins;
    for (const ScalarProgram &operand : form.anchorInputs)
      ins += (ins.empty() ? "" : ", ") + broadcastView(out, operand, rank);
    // What spells new text takes turns at the store, and one thread says that something failed.
    const bool serial = form.anchor->result()->type().element() == Element::String ||
                        form.anchor->wordAttr("function") == "number";
    const std::string function = functionOf(*form.anchor, out);
    out.code().line("cpu::map(" + out.dims().list(form.body.space) + ", pack(" +
                    resultView(out, form) + "), pack(" + ins + "), " + function + ", " +
                    (serial ? "cpu::serial_pool()" : "*f.workers") + ");");
  }
};

struct TextSplit {
  static constexpr llvm::StringLiteral id = "text_split",
                                       summary = "pieces of text between delimiters";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::TextSplit).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const Dim pieces = op.result()->type().shape().back();
    out.include("cpu/text_split.h");
    SourceWriter &w = out.code();
    w.line("const index_t most = cpu::text_split(" + out.dims().list(form.anchorInputs[0].space) +
           ", " + plainView(out, form.anchorInputs[0]) + ", text" +
           textElement(op.stringAttr("delimiter")) + ", " +
           std::to_string(op.intAttr("limit", -1)) + ", " + std::to_string(pieces.upper()) + ", " +
           out.resultPointer(0, op.result()->type().context().dim(0)) + ");");
    w.line("if (most < 0) *f.failure = rt::dimension_out_of_range;");
    w.line("f.dims[" + std::to_string(out.dims().indexOf(pieces.symbol())) +
           "] = most < 0 ? 0 : most;");
  }
};

} // namespace

const Tactic &kTextMap = kTacticOf<TextMap>;
const Tactic &kTextSplit = kTacticOf<TextSplit>;

} // namespace tenon::cpu

// Implements StepWriter.
#include "codegen/emit/StepWriter.h"

#include "codegen/memory/Alignment.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/BodyWriter.h"
#include "ir/Names.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdlib>

namespace tenon {

StepWriter::StepWriter(const Plan &plan, const Step &step, const DimSpelling &dims,
                       const TargetLevel &level, std::string name, const PlaceNames *places,
                       const DeclaredTypes *shared)
    : places_(plan, dims, places), step_(step), dims_(dims), level_(level), name_(std::move(name)),
      shared_(shared) {}

void StepWriter::declare(const std::string &type, llvm::StringRef text) {
  std::string key;
  llvm::SmallVector<llvm::StringRef, 32> lines, comments;
  text.drop_front(("struct " + type).size()).split(lines, '\n');
  for (llvm::StringRef l : lines)
    if (l.ltrim().startswith("//"))
      comments.push_back(l.ltrim());
    else
      key += l.str() + "\n";
  if (shape_)
    shape_->add(key);
  auto nameIn = [&](const DeclaredTypes &types) {
    auto it = types.find(key);
    return it == types.end() ? nullptr : &it->second;
  };
  const std::string *known = shared_ ? nameIn(*shared_) : nullptr;
  if (shared_ && !known)
    known = nameIn(declared_);
  used_.push_back(known ? *known : type);
  if (!known || *known == type) { // another variant's step of this name may be the same
    declared_.emplace(key, type);
    declarations_.raw(text);
    return;
  }
  for (llvm::StringRef l : comments)
    declarations_.line(l);
  declarations_.line("using " + type + " = " + *known + ";");
}

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

StepWriter::Config::Config(StepWriter &step, llvm::StringRef suffix, llvm::StringRef base)
    : step_(step), name_(step.name() + "_" + suffix.str()) {
  body_.open("struct " + name_ + (base.empty() ? "" : " : " + base.str()));
}

StepWriter::Config &StepWriter::Config::extent(llvm::StringRef member, Dim value) {
  if (value.isConstant())
    return extent(member, value.constant());
  body_.line("dyn " + member.str() + ";");
  runtime_.emplace_back(member.str(), step_.dims().value(value));
  return *this;
}

StepWriter::Config &StepWriter::Config::extent(llvm::StringRef member, int64_t value) {
  body_.line("static constexpr fixed<" + std::to_string(value) + "> " + member.str() + "{};");
  return *this;
}

StepWriter::Config &StepWriter::Config::extents(llvm::StringRef member,
                                                llvm::ArrayRef<Dim> values) {
  std::string list = step_.dims().list(values);
  const bool constant = llvm::all_of(values, [](Dim d) { return d.isConstant(); });
  const std::string type = list.substr(0, list.find('{'));
  if (constant) {
    // Device code cannot refer to static members of class type.
    const bool device = step_.level().family->facts.device;
    body_.line((device ? "" : "static constexpr ") + type + " " + member.str() + "{};");
  } else {
    body_.line(type + " " + member.str() + ";");
    runtime_.emplace_back(member.str(), list);
  }
  return *this;
}

StepWriter::Config &StepWriter::Config::parameter(llvm::StringRef member, Dim value) {
  return value.isConstant() ? parameter(member, value.constant()) : extent(member, value);
}

StepWriter::Config &StepWriter::Config::parameter(llvm::StringRef member, int64_t value) {
  const auto type = step_.parameter(value);
  if (!type)
    return extent(member, value);
  body_.line(*type + " " + member.str() + ";");
  runtime_.emplace_back(member.str(), std::to_string(value));
  return *this;
}

StepWriter::Config &StepWriter::Config::parameters(llvm::StringRef member,
                                                   llvm::ArrayRef<Dim> values) {
  const std::string list = step_.list(values);
  const size_t brace = list.find('{');
  const bool constant = brace + 2 == list.size();
  body_.line(list.substr(0, brace) + " " + member.str() + (constant ? "{};" : ";"));
  if (!constant)
    runtime_.emplace_back(member.str(), list);
  return *this;
}

StepWriter::Config &StepWriter::Config::number(llvm::StringRef member, int64_t value) {
  body_.line("static constexpr int " + member.str() + " = " + std::to_string(value) + ";");
  return *this;
}

StepWriter::Config &StepWriter::Config::constant(llvm::StringRef member, int64_t value) {
  if (!step_.takesConstantsOut_ || !step_.takesNextOut())
    return extent(member, value);
  step_.constants_.push_back(std::to_string(value));
  body_.line("dyn " + member.str() + ";");
  runtime_.emplace_back(member.str(), std::to_string(value));
  return *this;
}

StepWriter::Config &StepWriter::Config::flag(llvm::StringRef member, bool value) {
  body_.line("static constexpr bool " + member.str() + (value ? " = true;" : " = false;"));
  return *this;
}

StepWriter::Config &StepWriter::Config::type(llvm::StringRef member, llvm::StringRef cppType) {
  body_.line("using " + member.str() + " = " + cppType.str() + ";");
  return *this;
}

StepWriter::Config &StepWriter::Config::array(llvm::StringRef member,
                                              llvm::ArrayRef<int64_t> values) {
  std::string text;
  for (int64_t v : values)
    text += (text.empty() ? "" : ", ") + std::to_string(v);
  body_.line("static constexpr index_t " + member.str() + "[] = {" + text + "};");
  return *this;
}

StepWriter::Config &StepWriter::Config::floats(llvm::StringRef member,
                                               llvm::ArrayRef<double> values) {
  std::string text;
  for (double v : values)
    text += (text.empty() ? "" : ", ") + cppScalar(Element::F32, v);
  body_.line("static constexpr float " + member.str() + "[] = {" + text + "};");
  return *this;
}

std::string StepWriter::Config::finish() {
  body_.close("};");
  step_.declare(name_, body_.take());
  if (runtime_.empty())
    return name_ + "{}";
  std::string variable = name_.substr(name_.rfind('_') + 1);
  step_.code().line(name_ + " " + variable + ";");
  for (auto &[member, value] : runtime_)
    step_.code().line(variable + "." + member + " = " + value + ";");
  return variable;
}

bool StepWriter::takesNextOut() {
  const size_t n = constantsMet_++;
  return whichConstants_.empty() || whichConstants_[n];
}

std::string StepWriter::body(const ScalarProgram &program, llvm::ArrayRef<Element> anchors,
                             llvm::StringRef suffix) {
  const std::string type = name_ + "_" + suffix.str();
  std::vector<std::string> legend;
  for (const Access &a : program.inputs) {
    // As .tn text has it, so that code from text is the same.
    const std::string hint = sanitizeName(operandOf(a.source)->hint());
    legend.push_back((hint.empty() ? "" : hint + " ") + describe(a.source->type()));
  }
  const auto isMember = [&](bool table) {
    return !(table && sharesCode_) && takesNextOut(); // tables stay with a device's code
  };
  BodyWriter writer(program, level_, takesConstantsOut_ ? isMember : std::function<bool(bool)>(),
                    suffix == kStoredBody);
  declare(type, writer.declaration(type, anchors, legend));
  if (writer.looksUp())
    include("common/lookup.h");
  std::vector<std::string> values;
  for (const BodyWriter::Member &member : writer.members()) {
    constants_.push_back(member.value);
    values.push_back(member.value);
    if (!member.isTable)
      continue;
    values.back() = suffix.str() + "_" + member.name;
    code_.line("static constexpr " + member.type + " " + values.back() + "[256] = " + member.value +
               ";");
  }
  return type + "{" + llvm::join(values, ", ") + "}";
}

//===----------------------------------------------------------------------===//
// Places and views
//===----------------------------------------------------------------------===//

Value *StepWriter::operandOf(Value *argument) const {
  return argument->argumentOf() && argument->argumentOf() == &step_.op->region()
             ? step_.op->operand(argument->index())
             : argument;
}

std::string Places::scratch(const Step &step, llvm::StringRef cppType) const {
  return "f.at<" + cppType.str() + ">(" +
         (names_ && step.scratchBytes ? names_->scratch(step.number)
                                      : std::to_string(step.scratchAt)) +
         ")";
}

std::string Places::zeroed(const Step &step, llvm::StringRef cppType) const {
  return "f.zeroed<" + cppType.str() + ">(" +
         (names_ && step.zeroedBytes ? names_->zeroed(step.number)
                                     : std::to_string(step.zeroedAt)) +
         ")";
}

std::string Places::pointer(Value *value, llvm::StringRef element, bool constant,
                            Dim offset) const {
  const Placement &p = plan_[value];
  if (p.start)
    offset = offset + p.start;
  const std::string plain = element.str(), type = (constant ? "const " : "") + plain;
  const unsigned bits = bitWidth(value->type().element());
  const int64_t width = std::max<int64_t>(bits / 8, 1);
  if (p.home == Home::Input || p.home == Home::Output || p.home == Home::Text) {
    const Dim total = offset + p.offset * 8 / int64_t(bits);
    const std::string plus = total.isConstant(0) ? "" : " + " + dims_.value(total);
    if (p.home == Home::Text)
      return (names_ ? names_->of(value) : "text_" + std::to_string(p.at)) + plus;
    return (p.home == Home::Input ? "f.input<" + plain : "f.output<" + type) + ">(" +
           (names_ ? names_->of(value) : std::to_string(p.at)) + ")" + plus;
  }
  // Constant offsets of whole bytes disappear in the byte offset.
  const bool absorbed = offset.isConstant() && (bits >= 8 || offset.isConstant(0));
  const int64_t behind = absorbed ? offset.constant() * width : 0;
  const std::string place =
      !names_  ? std::to_string(p.at + behind)
      : behind ? names_->of(value) + (behind < 0 ? " - " : " + ") + std::to_string(std::abs(behind))
               : names_->of(value);
  const std::string plus = absorbed ? "" : " + " + dims_.value(offset);
  const std::string call = p.home == Home::Arena   ? "f.at<" + type
                           : p.home == Home::State ? "f.state<" + type
                                                   : "f.weight<" + plain;
  return call + ">(" + place + ")" + plus;
}

std::string Places::pointer(Value *value, bool constant) const {
  return pointer(value, cppElement(value->type().element()), constant,
                 value->type().context().dim(0));
}

bool Places::isAligned(Value *value, Dim offset, int64_t bytes) const {
  const Placement &p = plan_[value];
  const Element element = value->type().element();
  const llvm::Optional<int64_t> behind = bytesBehind(p, offset, element, bytes);
  if (!behind || bitWidth(element) < 8)
    return false; // known at run time only
  if (p.home == Home::Input || p.home == Home::Output)
    return isKnownAligned(plan_, value, *behind, bytes);
  return (p.at + *behind) % bytes == 0;
}

std::string StepWriter::pointer(Value *argument, Dim offset) {
  if (shape_)
    shape_->add(cppElement(argument->type().element()));
  return places_.pointer(operandOf(argument), cppElement(argument->type().element()), true, offset);
}

std::string StepWriter::resultPointer(unsigned result, Dim offset) {
  Value *v = step_.op->result(result);
  if (shape_)
    shape_->add(cppElement(v->type().element()));
  return places_.pointer(v, cppElement(v->type().element()), false, offset);
}

std::string StepWriter::scratchPointer(llvm::StringRef cppType) const {
  return places_.scratch(step_, cppType);
}

std::string StepWriter::zeroedPointer(llvm::StringRef cppType) const {
  return places_.zeroed(step_, cppType);
}

llvm::Optional<std::string> StepWriter::parameter(int64_t number) {
  if (!shape_ || !shapeVaries_)
    return llvm::None;
  auto type = shape_->parameter(number);
  if (type)
    include("cuda/base/multiple.h");
  return type;
}

std::string StepWriter::list(llvm::ArrayRef<Dim> numbers) {
  std::string types, values;
  bool any = false;
  for (Dim n : numbers) {
    llvm::Optional<std::string> type;
    if (n.isConstant() && !n.isConstant(0) && !n.isConstant(1))
      type = parameter(n.constant());
    any = any || type;
    types += (types.empty() ? "" : ", ") + (type ? *type : dims_.type(n));
    values += std::string(values.empty() ? "" : ", ") +
              (type || !n.isConstant() ? "{" + dims_.value(n) + "}" : "{}");
  }
  if (shape_)
    shape_->add(types);
  return any ? "dims<" + types + ">{" + values + "}" : dims_.list(numbers);
}

std::string StepWriter::viewText(const std::string &pointer, const Strides &s) {
  return "make_view(" + pointer + ", " +
         (sharesCode_ ? dims_.valueList(s.strides) : list(s.strides)) + ")";
}

std::string StepWriter::view(Value *argument, const Strides &s) {
  return viewText(pointer(argument, s.offset), s);
}

std::string StepWriter::resultView(unsigned result, const Strides &s) {
  return viewText(resultPointer(result, s.offset), s);
}

std::string StepWriter::paddedText(const Access &a, const std::string &pointer, const Strides &s,
                                   llvm::ArrayRef<std::pair<Dim, Dim>> inside) const {
  llvm::SmallVector<Dim, 6> low, high;
  for (auto &[l, h] : inside) {
    low.push_back(l);
    high.push_back(h);
  }
  const std::string rest = ", " + dims_.list(s.strides) + ", " + dims_.list(low) + ", " +
                           dims_.list(high) + ", " + cppScalar(a.source->type().element(), a.fill) +
                           ")";
  if (shape_)
    shape_->add(rest);
  return "tenon::make_padded_view(" + pointer + rest;
}

std::string StepWriter::view(const Access &a, unsigned rank) {
  const Strides s = stridesOf(a, rank);
  const std::string p = pointer(a.source, s.offset);
  return a.bounded ? paddedText(a, p, s, a.inside) : viewText(p, s);
}

std::string StepWriter::view(const OutputForm &o, unsigned result, unsigned rank) {
  const Strides s = stridesOf(o, rank);
  return viewText(resultPointer(result, s.offset), s);
}

std::string StepWriter::packText(const ScalarProgram &program, llvm::ArrayRef<std::string> views,
                                 llvm::ArrayRef<int> placeOf) const {
  std::string text;
  for (const std::string &v : views)
    text += (text.empty() ? "" : ", ") + v;
  std::set<int> indices;
  for (const ScalarNode &n : program.nodes)
    if (n.indexDim >= 0)
      indices.insert(n.indexDim);
  for (int d : indices)
    text += (text.empty() ? "" : ", ") +
            ("index_view<" + cppElement(indexElement(program, d)) + ", ").str() +
            std::to_string(placeOf.empty() ? d : placeOf[d]) + ">{}";
  return "pack(" + text + ")";
}

std::string StepWriter::inputs(const ScalarProgram &program) {
  std::vector<std::string> views;
  for (const Access &a : program.inputs)
    views.push_back(view(a, unsigned(program.space.size())));
  return packText(program, views, {});
}

std::string StepWriter::outputs(const GroupForm &form) {
  std::string text;
  for (unsigned i = 0; i < form.outputs.size(); ++i)
    text += (i ? ", " : "") + view(form.outputs[i], i, unsigned(form.body.space.size()));
  return "pack(" + text + ")";
}

std::string StepWriter::inputs(const ScalarProgram &program, Change change) {
  std::vector<std::string> views;
  for (const Access &a : program.inputs)
    views.push_back(view(a.source, change(stridesOf(a, unsigned(program.space.size())))));
  return packText(program, views, {});
}

std::string StepWriter::outputs(const GroupForm &form, Change change) {
  std::string text;
  for (unsigned i = 0; i < form.outputs.size(); ++i) {
    const Strides s = change(stridesOf(form.outputs[i], unsigned(form.body.space.size())));
    text += (i ? ", " : "") + viewText(resultPointer(i, s.offset), s);
  }
  return "pack(" + text + ")";
}

std::string StepWriter::inputs(const ScalarProgram &program, const LoopNest &nest) {
  std::vector<std::string> views;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Access &a = program.inputs[i];
    const std::string p = pointer(a.source, nest.inputs[i].offset);
    views.push_back(a.bounded ? paddedText(a, p, nest.inputs[i], nest.inside[i])
                              : viewText(p, nest.inputs[i]));
  }
  return packText(program, views, nest.placeOf);
}

std::string StepWriter::outputs(const GroupForm &form, const LoopNest &nest) {
  std::string text;
  for (unsigned i = 0; i < form.outputs.size(); ++i)
    text += (i ? ", " : "") + viewText(resultPointer(i, nest.outputs[i].offset), nest.outputs[i]);
  return "pack(" + text + ")";
}

} // namespace tenon

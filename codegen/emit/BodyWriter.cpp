// Implements BodyWriter.
#include "codegen/emit/BodyWriter.h"

#include "codegen/emit/CppText.h"

namespace tenon {

namespace {

std::string joined(llvm::ArrayRef<std::string> parts) {
  std::string text;
  for (const std::string &p : parts)
    text += (text.empty() ? "" : ", ") + p;
  return text;
}

std::string substitute(llvm::StringRef spelling, llvm::ArrayRef<std::string> operands,
                       llvm::StringRef type, llvm::StringRef source, llvm::StringRef table) {
  std::string s;
  for (size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] != '$' || i + 1 == spelling.size()) {
      s += spelling[i];
      continue;
    }
    const char c = spelling[++i];
    s += c == 'T'   ? type.str()
         : c == 'S' ? source.str()
         : c == 'A' ? table.str()
                    : operands[size_t(c - '0')];
  }
  return s;
}

/// An `index` op that is a parameter of the body as it is.
bool isPlainIndex(const ScalarNode &n) {
  return n.indexDim >= 0 && n.indexStep == 1 && n.indexOffset == 0;
}

bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }

/// Whether a float of 16 bits is one already, and not what f32 knows of it: what was loaded or
/// rounded is.
bool isNumberOfItsType(const ScalarProgram &p, unsigned node) {
  const ScalarNode &n = p.nodes[node];
  if (n.kind == ScalarNode::Input)
    return p.inputs[n.index].source->argumentOf(); // else a chain's anchor made it
  return n.kind == ScalarNode::Function && n.op->is(Op::Cast) && n.op->boolAttr("rounds");
}

/// Literal of a `const` op.
std::string literalOf(const ScalarNode &n) {
  const Attribute &v = *n.op->find("value");
  if (const double *d = v.get<double>())
    return cppScalar(n.element, *d);
  const int64_t *i = v.get<int64_t>();
  return cppScalar(n.element, i ? *i : int64_t(*v.get<bool>()));
}

} // namespace

Element indexElement(const ScalarProgram &program, int dim) {
  const auto isIndex = [&](unsigned node) { return program.nodes[node].indexDim == dim; };
  for (const ScalarNode &n : program.nodes) {
    if (n.indexDim == dim && !isPlainIndex(n))
      return Element::I64;
    const bool isNarrowing =
        n.kind == ScalarNode::Function && n.op->is(Op::Cast) && n.element == Element::I32;
    if (llvm::any_of(n.operands, isIndex) && !isNarrowing)
      return Element::I64;
  }
  return llvm::any_of(program.outputs, isIndex) ? Element::I64 : Element::I32;
}

BodyWriter::BodyWriter(const ScalarProgram &program, const TargetLevel &level,
                       std::function<bool(bool)> isMember, bool storesOutputs)
    : program_(program), isMember_(std::move(isMember)), storesOutputs_(storesOutputs),
      spellings_(program.nodes.size()), used_(program.nodes.size()), names_(program.nodes.size()) {
  const ScalarSpeller spell(program, level, /*sharedConstants=*/isMember_ != nullptr);
  for (unsigned o : program.outputs)
    used_[o] = true;
  for (size_t i = program.nodes.size(); i-- > 0;)
    if (used_[i] && program.nodes[i].kind == ScalarNode::Function) {
      spellings_[i] = spell(unsigned(i));
      for (unsigned k : spellings_[i].operands)
        used_[k] = true;
    }
}

std::string BodyWriter::declaration(const std::string &type, llvm::ArrayRef<Element> anchors,
                                    llvm::ArrayRef<std::string> legend) {
  std::vector<std::string> types, values;
  for (unsigned o : program_.outputs)
    types.push_back(typeOf(o));
  const bool one = types.size() == 1;
  w_.open("struct " + type);
  for (size_t i = 0; i < legend.size(); ++i)
    w_.comment("x" + std::to_string(i) + ": " + legend[i]);
  w_.line("template <class L>");
  w_.open("TENON_FN " + (one ? types[0] : "results<" + joined(types) + ">") + " operator()(" +
          parameters(anchors) + ") const");
  for (size_t i = 0; i < program_.nodes.size(); ++i)
    if (program_.nodes[i].kind == ScalarNode::Function && used_[i] &&
        !isPlainIndex(program_.nodes[i]))
      operation(i);
  for (unsigned o : program_.outputs)
    values.push_back(read(o));
  w_.line("return " + (one ? values[0] : "pack(" + joined(values) + ")") + ";");
  w_.close();
  for (const Member &member : members_)
    w_.line(member.isTable ? "const " + member.type + " (&" + member.name + ")[256];"
                           : member.type + " " + member.name + ";");
  w_.close("};");
  return w_.take();
}

std::string BodyWriter::parameters(llvm::ArrayRef<Element> anchors) {
  // Only what the program reads gets a name.
  std::vector<std::string> anchorNames(anchors.size()), inputNames(program_.inputs.size());
  std::map<int, std::string> indexNames;
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    const ScalarNode &n = program_.nodes[i];
    if (n.kind == ScalarNode::Anchor && used_[i])
      names_[i] = anchorNames[n.index] =
          anchors.size() == 1 ? "acc" : "acc" + std::to_string(n.index);
    else if (n.kind == ScalarNode::Input && used_[i])
      names_[i] = inputNames[n.index] = "x" + std::to_string(n.index);
    else if (n.indexDim >= 0)
      names_[i] = indexNames[n.indexDim] = "i" + std::to_string(n.indexDim);
  }
  std::vector<std::string> all = {"L"};
  auto add = [&](const std::string &type, const std::string &name) {
    all.push_back(name.empty() ? type : type + " " + name);
  };
  for (size_t i = 0; i < anchors.size(); ++i)
    add(cppLanes(anchors[i]), anchorNames[i]);
  for (size_t i = 0; i < program_.inputs.size(); ++i)
    add(cppLanes(program_.inputs[i].source->type().element()), inputNames[i]);
  for (const auto &index : indexNames)
    add(cppLanes(indexElement(program_, index.first)), index.second);
  return joined(all);
}

void BodyWriter::operation(size_t node) {
  const ScalarNode &n = program_.nodes[node];
  if (n.op->is(Op::Lookup))
    table(node);
  if (n.op->is(Op::Cast))
    if (const ScalarNode &from = program_.nodes[n.operands[0]];
        isPlainIndex(from) && indexElement(program_, from.indexDim) == n.element) {
      names_[node] = names_[n.operands[0]];
      return;
    }
  if (n.op->is(Op::Const) && isMember_)
    return; // where it is read
  const std::string expression = n.op->is(Op::Index)   ? index(node)
                                 : n.op->is(Op::Const) ? constant(n)
                                                       : function(node);
  define(node, expression);
}

void BodyWriter::define(size_t node, const std::string &expression) {
  names_[node] = "t" + std::to_string(locals_++);
  w_.line("const " + typeOf(unsigned(node)) + " " + names_[node] + " = " + expression + ";");
}

/// The name of a node for one that reads it. Constants that may be members are one for each reader:
/// two that happen to be equal would tell a body from others that it is like.
std::string BodyWriter::read(unsigned node) {
  const ScalarNode &n = program_.nodes[node];
  if (isMember_ && n.kind == ScalarNode::Function && n.op->is(Op::Const))
    define(node, constant(n));
  return names_[node];
}

/// What is rounded to bytes on a device and stored is rounded where that happens.
std::string BodyWriter::typeOf(unsigned node) const {
  const Element e = program_.nodes[node].element;
  const bool isKept = storesOutputs_ && program_.outputs.size() == 1 &&
                      program_.outputs[0] == node &&
                      llvm::StringRef(spellings_[node].pattern).startswith("round_to<");
  return isKept ? "byte_result<L, " + cppElement(e).str() + ">" : cppLanes(e);
}

void BodyWriter::table(size_t node) {
  const ScalarNode &n = program_.nodes[node];
  names_[node] = "table" + std::to_string(tables_++);
  std::vector<std::string> entries;
  for (int64_t v : n.op->intsAttr("table"))
    entries.push_back(std::to_string(v));
  const std::string type = cppElement(n.element).str(), values = "{" + joined(entries) + "}";
  if (isMember_ && isMember_(true))
    members_.push_back({type, names_[node], values, true});
  else
    w_.line("static constexpr " + type + " " + names_[node] + "[256] = " + values + ";");
}

std::string BodyWriter::constant(const ScalarNode &n) {
  std::string literal = literalOf(n);
  if (isMember_ && isMember_(false)) {
    const std::string member = "c" + std::to_string(members_.size());
    members_.push_back({cppElement(computeElement(n.element)).str(), member, literal, false});
    literal = member;
  }
  return "broadcast<L>(" + literal + ")";
}

std::string BodyWriter::index(size_t node) const {
  const ScalarNode &n = program_.nodes[node];
  auto lanes = [&](int64_t v) { return "broadcast<L>(" + cppScalar(n.element, v) + ")"; };
  const std::string offset = lanes(n.indexOffset);
  return n.indexDim < 0 ? offset : names_[node] + " * " + lanes(n.indexStep) + " + " + offset;
}

std::string BodyWriter::function(size_t node) {
  const ScalarNode &n = program_.nodes[node];
  const ScalarSpelling &spelling = spellings_[node];
  llvm::SmallVector<std::string, 3> operands;
  for (unsigned k : spelling.operands)
    operands.push_back(read(k));
  const Element source = n.operands.empty() ? n.element : program_.nodes[n.operands[0]].element;
  if (n.op->is(Op::Cast) && spelling.operands == n.operands)
    return cast(node);
  if (isInteger(n.element) && n.op->isAny(Op::Add, Op::Sub, Op::Mul) &&
      spelling.operands == n.operands) // operators would not wrap
    return n.op->name().str() + "<L>(" + operands[0] + ", " + operands[1] + ")";
  return substitute(spelling.pattern, operands, cppElement(computeElement(n.element)),
                    cppElement(computeElement(source)), names_[node]);
}

/// Floats of 16 bits keep what f32 knows more until they are stored, unless the cast rounds; those
/// of fewer bits are made to be coarse, so that a conversion rounds even where nothing stores.
std::string BodyWriter::cast(size_t node) const {
  const ScalarNode &n = program_.nodes[node];
  const unsigned operand = n.operands[0];
  const Element from = program_.nodes[operand].element, to = n.element;
  const bool rounds = n.op->boolAttr("rounds");
  std::string text = names_[operand];
  auto convert = [&](Element target, Element source) {
    text =
        "cast<L, " + cppElement(target).str() + ", " + cppElement(source).str() + ">(" + text + ")";
  };
  if (rounds && isHalf(from) && !isNumberOfItsType(program_, operand))
    convert(from, Element::F32);
  const bool coarse = isFloat(to) && bitWidth(to) <= 8;
  if (computeElement(to) != computeElement(from) || (coarse && to != from))
    convert(coarse ? to : computeElement(to), computeElement(from));
  if (rounds && isHalf(to) && to != from && !isOnlyStored(node))
    convert(to, Element::F32);
  return text;
}

/// True for what is an output that is stored, and nothing else.
bool BodyWriter::isOnlyStored(size_t node) const {
  return storesOutputs_ && llvm::is_contained(program_.outputs, unsigned(node)) &&
         llvm::none_of(program_.nodes, [&](const ScalarNode &n) {
           return llvm::is_contained(n.operands, unsigned(node));
         });
}

} // namespace tenon

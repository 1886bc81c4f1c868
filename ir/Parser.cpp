// Implements parsing of the textual form: modules, graphs and operations.
//
// Recursive descent over characters; every error carries its place. Input is hostile: nesting is
// bounded, sizes are checked before memory is taken.
#include "ir/Builder.h"
#include "ir/Suggestion.h"
#include "ir/SumBounds.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "ir/text/AttributeParser.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace tenon {
namespace {

class Parser : AttributeParser {
public:
  Parser(Context &context, const llvm::MemoryBuffer &buffer, llvm::StringRef data,
         Diagnostics &diagnostics)
      : AttributeParser(context, buffer.getBuffer(), data, diagnostics) {}

  std::unique_ptr<Module> module() {
    auto m = std::make_unique<Module>(context_);
    if (!expect("module") || !place(parts_.name) || !string(m->name) || !expect("stage") ||
        !expect("=") || !place(parts_.stage) || !stage(m->stage) || !expect("{"))
      return nullptr;
    while (!accept("}")) {
      const bool parsed = accept("fact")     ? fact(*m)
                          : accept("symbol") ? symbol(*m)
                          : accept("sum")    ? sum(*m)
                          : accept("graph")  ? graph(*m)
                                             : unknownPart();
      if (!parsed)
        return nullptr;
    }
    if (mark() != text_.size())
      return fail("expected the end of the file after the module"), nullptr;
    if (m->graphs.empty())
      return fail("module has no graph: expected graph @NAME (%x \"x\": TYPE, …) -> (\"y\", …) { … "
                  "return %y }"),
             nullptr;
    return m;
  }

  TextPlaces places() {
    for (const auto &[name, at] : symbolPlaces_)
      parts_.symbols.insert({name, location(at)});
    return parts_;
  }

  /// Gives diagnostics about operations of the module their places.
  void place(Diagnostics &diagnostics) const {
    for (Diagnostic &d : diagnostics.list())
      if (auto it = places_.find(d.about); it != places_.end() && !d.where.isValid()) {
        d.where = location(it->second);
        d.notes.clear(); // they quote the line that the caret points into
      }
  }

private:
  llvm::SMLoc location(size_t at) const { return llvm::SMLoc::getFromPointer(text_.data() + at); }
  /// Notes where the next token stands.
  bool place(llvm::SMLoc &out) {
    out = location(mark());
    return true;
  }

  bool unknownPart() {
    const size_t start = mark();
    const llvm::StringRef found = wordCharacters();
    return failAt(start, "expected fact, symbol, sum, graph or '}'" + foundWord(found) +
                             didYouMean(found, {"fact", "symbol", "sum", "graph"}));
  }

  bool stage(Stage &out) {
    const size_t start = mark();
    std::string name;
    if (!word(name))
      return false;
    for (auto [known, value] :
         {std::pair("imported", Stage::Imported), std::pair("optimized", Stage::Optimized),
          std::pair("scheduled", Stage::Scheduled)})
      if (name == known) {
        out = value;
        return true;
      }
    return failAt(start, "expected stage imported, optimized or scheduled, found '" + name + "'" +
                             didYouMean(name, {"imported", "optimized", "scheduled"}));
  }

  bool fact(Module &m) {
    std::string key, value;
    const size_t start = mark();
    if (!string(key) || !expect("=") || !string(value))
      return false;
    if (!m.facts.insert({key, value}).second)
      return failAt(start, "fact '" + key + "' is given twice");
    parts_.facts[key] = location(start);
    return true;
  }

  /// A dimension's name with its bounds.
  bool symbol(Module &m) {
    std::string name;
    int64_t lower, upper;
    const size_t start = mark();
    if (!word(name) || !expect("=") || !integer(lower) || !expect("..") || !integer(upper))
      return false;
    if (lower < 0 || upper < lower)
      return failAt(start, "expected 0 <= lower <= upper in the bounds of '" + name + "'");
    const Dim declared = context_.symbol(name, lower, upper);
    if (llvm::is_contained(m.symbols, declared))
      return failAt(start, "symbol '" + name + "' is declared twice");
    m.symbols.push_back(declared);
    symbolPlaces_.try_emplace(name, start);
    return true;
  }

  /// What two symbols are together, at most.
  bool sum(Module &m) {
    SumBound bound;
    const size_t start = mark();
    if (!declaredSymbol(m, bound.first) || !expect("+") || !declaredSymbol(m, bound.second) ||
        !expect("<=") || !integer(bound.upper))
      return false;
    if (!m.graphs.empty())
      return failAt(start, "expected sums of symbols before graphs");
    if (bound.first == bound.second)
      return failAt(start, "expected two symbols");
    const int64_t lower = bound.first.lower() + bound.second.lower();
    if (bound.upper < lower)
      return failAt(start, "expected a sum of at least " + std::to_string(lower) + ", found " +
                               std::to_string(bound.upper));
    boundSum(bound.first, bound.second, bound.upper);
    return true;
  }

  bool declaredSymbol(const Module &m, Dim &out) {
    std::string name;
    const size_t start = mark();
    if (!word(name))
      return false;
    out = context_.symbol(name);
    return llvm::is_contained(m.symbols, out) ||
           failAt(start, "expected a symbol that is declared above, found '" + name + "'");
  }

  bool valueName(std::string &out) {
    if (!expect("%"))
      return false;
    out = wordCharacters().str();
    return !out.empty() || fail("expected a value name after '%'");
  }

  /// A value's name with the place where it stands.
  struct Name {
    std::string text;
    size_t at = 0;
  };
  bool valueName(Name &out) {
    out.at = mark();
    return valueName(out.text);
  }

  bool define(const Name &name, Value *v) {
    if (!name.text.empty() && !isdigit(static_cast<unsigned char>(name.text[0])))
      v->setHint(name.text);
    return values_.try_emplace(name.text, v).second ||
           failAt(name.at, "value '%" + name.text + "' is defined twice");
  }

  /// `open each, each, … close`, `open` being accepted already.
  template <class Each> bool commaSeparated(llvm::StringRef close, Each each) {
    for (bool first = true; !accept(close); first = false)
      if ((!first && !expect(",")) || !each())
        return false;
    return true;
  }

  bool graph(Module &m) {
    std::string name;
    place(parts_.graphs.emplace_back());
    if (!expect("@") || !word(name))
      return false;
    Graph &g = m.addGraph(name);
    if (accept("target") && (!expect("=") || !string(g.target)))
      return false;
    values_.clear();
    const auto input = [&] {
      Name value;
      Type t;
      if (parts_.graphs.size() == 1)
        place(parts_.inputs.emplace_back());
      return valueName(value) && string(g.inputNames.emplace_back()) && expect(":") && type(t) &&
             define(value, g.body().addArgument(t));
    };
    const auto output = [&] { return string(g.outputNames.emplace_back()); };
    if (!expect("(") || !commaSeparated(")", input) || !expect("->") || !expect("(") ||
        !commaSeparated(")", output))
      return false;
    while (accept("state"))
      if (!state(g))
        return false;
    return operations(g.body(), 0);
  }

  /// `(input = output)` or `(input = output append axis)`, by their numbers.
  bool state(Graph &g) {
    State s;
    int64_t in, out, axis;
    const size_t start = mark();
    if (!expect("(") || !integer(in) || !expect("=") || !integer(out))
      return false;
    if (accept("append")) {
      if (!integer(axis))
        return false;
      s.appendAxis = int(axis);
    }
    if (in < 0 || in >= int64_t(g.inputNames.size()) || out < 0 ||
        out >= int64_t(g.outputNames.size()))
      return failAt(start, "state names an input or output that does not exist");
    s.input = unsigned(in);
    s.output = unsigned(out);
    g.states.push_back(s);
    return expect(")");
  }

  /// `{ op … }` into `r`.
  bool operations(Region &r, unsigned depth) {
    if (depth > kMaxDepth)
      return fail("regions are nested too deeply");
    if (!expect("{"))
      return false;
    while (!accept("}"))
      if (!operation(r, depth))
        return false;
    return true;
  }

  bool operation(Region &into, unsigned depth) {
    llvm::SmallVector<Name, 2> resultNames;
    if (peek() == '%') {
      do {
        if (!valueName(resultNames.emplace_back()))
          return false;
      } while (accept(","));
      if (!expect("="))
        return false;
    }
    std::string opName;
    const size_t nameAt = mark();
    if (!word(opName))
      return false;
    const auto kind = parseOp(opName);
    if (!kind)
      return failAt(nameAt, unknownOperation(opName));
    Operands operands;
    NamedAttributes attributes;
    if (!parseOperands(operands) || (accept("{") && !namedAttributes(opInfo(*kind), attributes)))
      return false;
    if (*kind == Op::Map || *kind == Op::Reduce)
      attributes.insert({"maps", operands.maps});
    else if (operands.mapped)
      return failAt(nameAt, "only map and reduce take index maps");
    Operation *op = Operation::create(*kind, operands.values, std::move(attributes), {});
    into.push_back(op);
    places_[op] = nameAt;
    return regions(*op, depth) && results(*op, resultNames) && location(*op) &&
           inferredAsWritten(*op, opName, nameAt);
  }

  struct Operands {
    llvm::SmallVector<Value *, 4> values;
    IntLists maps; ///< which dimension of the operation each of an operand's is; -1: none
    bool mapped = false;
  };
  /// `%a, %b[0, _, 1]`
  bool parseOperands(Operands &out) {
    while (peek() == '%') {
      Name name;
      if (!valueName(name))
        return false;
      Value *v = values_.lookup(name.text);
      if (!v)
        return failAt(name.at, "value '%" + name.text + "' is not defined here");
      out.values.push_back(v);
      Ints &map = out.maps.emplace_back(identityMap(v->type().isTensor() ? v->type().rank() : 0));
      if (peek() == '[') {
        out.mapped = true;
        map.clear();
        if (!list([&] {
              return accept("_") ? (map.push_back(-1), true) : integer(map.emplace_back());
            }))
          return false;
      }
      if (!accept(","))
        break;
    }
    return true;
  }

  /// `key = value, … }`
  bool namedAttributes(const OpInfo &info, NamedAttributes &out) {
    return commaSeparated("}", [&] {
      const size_t start = mark();
      std::string key;
      if (!word(key) || !expect("="))
        return false;
      if (!info.attribute(key))
        return failAt(start, unknownAttribute(info, key));
      const auto value = attribute();
      if (!value)
        return fail("expected an attribute value");
      return out.insert({key, *value}).second ||
             failAt(start, "attribute '" + key + "' is given twice");
    });
  }

  /// `(%x: type, …) { op … }` for each region.
  bool regions(Operation &op, unsigned depth) {
    while (accept("(")) {
      Region &r = op.addRegion();
      const auto argument = [&] {
        Name name;
        Type t;
        return valueName(name) && expect(":") && type(t) && define(name, r.addArgument(t));
      };
      if (!commaSeparated(")", argument) || !operations(r, depth + 1))
        return false;
    }
    return true;
  }

  bool results(Operation &op, llvm::ArrayRef<Name> names) {
    if (!names.empty() && !expect(":"))
      return false;
    for (const Name &name : names) {
      Type t;
      if ((&name != &names.front() && !expect(",")) || !type(t) || !define(name, op.addResult(t)))
        return false;
    }
    return true;
  }

  /// `loc("node", …)`, where it stands.
  bool location(Operation &op) {
    if (!accept("loc"))
      return true;
    return expect("(") && commaSeparated(")", [&] { return string(op.loc().emplace_back()); });
  }

  /// Checked here as well as by the verifier, so that the message has a place.
  bool inferredAsWritten(Operation &op, llvm::StringRef name, size_t nameAt) {
    llvm::SmallVector<Type, 2> types;
    std::string error;
    if (!inferTypes(op, types, error))
      return failAt(nameAt, error);
    if (types.size() != op.numResults() && op.info().infer)
      return failAt(nameAt, name.str() + " makes " + std::to_string(types.size()) +
                                " results, found " + std::to_string(op.numResults()));
    return true;
  }

  static std::string unknownOperation(llvm::StringRef name) {
    std::vector<llvm::StringRef> known;
    for (Op op : allOps())
      known.push_back(opInfo(op).name);
    const std::string slip = didYouMean(name, known);
    return "unknown operation '" + name.str() + "'" +
           (slip.empty() ? "; `tenon ops` lists what exists" : slip);
  }

  llvm::StringMap<Value *> values_;
  TextPlaces parts_;
  llvm::DenseMap<const Operation *, size_t> places_; // looked up only
};

} // namespace

std::unique_ptr<Module> parseModule(Context &context, const llvm::MemoryBuffer &buffer,
                                    llvm::StringRef data, Diagnostics &diagnostics,
                                    ModuleCheck check) {
  Parser parser(context, buffer, data, diagnostics);
  auto m = parser.module();
  if (!m || diagnostics.hasErrors())
    return nullptr;
  if (verify(*m, diagnostics) && check)
    check(*m, parser.places(), diagnostics);
  if (diagnostics.hasErrors()) {
    parser.place(diagnostics);
    return nullptr;
  }
  return m;
}

} // namespace tenon

// Implements parsing of the textual form, and reading and writing of .tn files.
//
// Recursive descent over characters; every error carries its place. Input is hostile: nesting is
// bounded, sizes are checked before memory is taken.
#include "ir/Builder.h"
#include "ir/Text.h"
#include "ir/Verifier.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace tenon {
namespace {

constexpr unsigned kMaxDepth = 64;
constexpr int64_t kMaxBytes = int64_t(1) << 36;

class Parser {
public:
  Parser(Context &context, const llvm::MemoryBuffer &buffer, llvm::StringRef data,
         Diagnostics &diagnostics)
      : context_(context), text_(buffer.getBuffer()), data_(data), diagnostics_(diagnostics) {}

  std::unique_ptr<Module> module() {
    auto m = std::make_unique<Module>(context_);
    std::string stage;
    if (!keyword("module") || !string(m->name) || !keyword("stage") || !expect("=") || !word(stage))
      return nullptr;
    if (stage == "imported")
      m->stage = Stage::Imported;
    else if (stage == "optimized")
      m->stage = Stage::Optimized;
    else if (stage == "scheduled")
      m->stage = Stage::Scheduled;
    else
      return fail("expected stage imported, optimized or scheduled, found '" + stage + "'"),
             nullptr;
    if (!expect("{"))
      return nullptr;
    while (!accept("}")) {
      if (accept("fact")) {
        std::string key, value;
        if (!string(key) || !expect("=") || !string(value))
          return nullptr;
        m->facts[key] = value;
      } else if (accept("symbol")) {
        std::string symbol;
        int64_t lower, upper;
        if (!word(symbol) || !expect("=") || !integer(lower) || !expect("..") || !integer(upper))
          return nullptr;
        if (lower < 0 || upper < lower)
          return fail("expected 0 <= lower <= upper in the bounds of '" + symbol + "'"), nullptr;
        m->symbols.push_back(context_.symbol(symbol, lower, upper));
      } else if (accept("graph")) {
        if (!graph(*m))
          return nullptr;
      } else {
        return fail("expected fact, symbol, graph or '}'"), nullptr;
      }
    }
    skip();
    if (at_ != text_.size())
      return fail("expected the end of the file after the module"), nullptr;
    if (m->graphs.empty())
      return fail("module has no graph"), nullptr;
    return m;
  }

  /// Gives diagnostics about operations of the module their places.
  void place(Diagnostics &diagnostics) const {
    for (Diagnostic &d : diagnostics.list())
      if (auto it = places_.find(d.about); it != places_.end() && !d.where.isValid()) {
        d.where = llvm::SMLoc::getFromPointer(text_.data() + it->second);
        d.notes.clear(); // they quote the line that the caret points into
      }
  }

private:
  //===--------------------------------------------------------------------===//
  // Characters
  //===--------------------------------------------------------------------===//

  bool fail(std::string message) {
    if (!failed_) {
      diagnostics_.error(std::move(message)).where =
          llvm::SMLoc::getFromPointer(text_.data() + std::min(at_, text_.size()));
      failed_ = true;
    }
    return false;
  }
  void skip() {
    while (at_ < text_.size()) {
      if (isspace(static_cast<unsigned char>(text_[at_])))
        ++at_;
      else if (text_.substr(at_).startswith("//"))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        break;
    }
  }
  static bool wordChar(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  /// Accepts punctuation or a whole keyword.
  bool accept(llvm::StringRef token) {
    skip();
    if (!text_.substr(at_).startswith(token))
      return false;
    const size_t end = at_ + token.size();
    if (wordChar(token.back()) && end < text_.size() && wordChar(text_[end]))
      return false;
    at_ = end;
    return true;
  }
  bool expect(llvm::StringRef token) {
    return accept(token) || fail("expected '" + token.str() + "'");
  }
  bool keyword(llvm::StringRef k) { return expect(k); }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool word(std::string &out) {
    skip();
    size_t end = at_;
    while (end < text_.size() && (wordChar(text_[end]) || (end > at_ && text_[end] == '.' &&
                                                           !text_.substr(end).startswith(".."))))
      ++end;
    if (end == at_ || isdigit(static_cast<unsigned char>(text_[at_])))
      return fail("expected a name");
    out = text_.slice(at_, end).str();
    at_ = end;
    return true;
  }
  bool string(std::string &out) {
    if (!expect("\""))
      return false;
    out.clear();
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size())
        break;
      c = text_[at_++];
      switch (c) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case '\\':
      case '"': out += c; break;
      case 'x': {
        unsigned v;
        if (text_.substr(at_, 2).getAsInteger(16, v))
          return fail("expected two hexadecimal digits after \\x");
        out += char(v);
        at_ += 2;
        break;
      }
      default: return fail("unknown escape in a string");
      }
    }
    return expect("\"");
  }
  bool integer(int64_t &out) {
    skip();
    size_t end = at_ + (at_ < text_.size() && text_[at_] == '-');
    while (end < text_.size() && isdigit(static_cast<unsigned char>(text_[end])))
      ++end;
    if (text_.slice(at_, end).getAsInteger(10, out))
      return fail("expected an integer of 64 bits");
    at_ = end;
    return true;
  }
  /// A number; `isInt` when it has neither fraction nor exponent.
  bool number(double &out, int64_t &asInt, bool &isInt) {
    skip();
    for (llvm::StringRef special : {"nan", "inf", "-inf"})
      if (accept(special)) {
        out = special == "nan" ? NAN : special == "inf" ? INFINITY : -INFINITY;
        isInt = false;
        return true;
      }
    size_t end = at_;
    while (end < text_.size() && (isdigit(static_cast<unsigned char>(text_[end])) ||
                                  text_[end] == '.' || text_[end] == 'e' || text_[end] == 'E' ||
                                  ((text_[end] == '-' || text_[end] == '+') &&
                                   (end == at_ || tolower(text_[end - 1]) == 'e'))))
      ++end;
    llvm::StringRef s = text_.slice(at_, end);
    isInt = s.find_first_of(".eE") == llvm::StringRef::npos;
    if (isInt ? s.getAsInteger(10, asInt) : s.getAsDouble(out))
      return fail("expected a number");
    if (isInt)
      out = double(asInt);
    at_ = end;
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Types
  //===--------------------------------------------------------------------===//

  /// Extent inside braces or a list: integer, symbol, (a + b), (a * b), floordiv(a, b) …
  bool dimExpression(Dim &out, unsigned depth = 0) {
    if (depth > kMaxDepth)
      return fail("extent is nested too deeply");
    const char c = peek();
    if (isdigit(static_cast<unsigned char>(c)) || c == '-') {
      int64_t v;
      if (!integer(v))
        return false;
      out = context_.dim(v);
      return true;
    }
    Dim a, b;
    if (accept("(")) {
      if (!dimExpression(a, depth + 1))
        return false;
      const bool sum = accept("+");
      if (!sum && !expect("*"))
        return false;
      if (!dimExpression(b, depth + 1) || !expect(")"))
        return false;
      out = sum ? a + b : a * b;
      return true;
    }
    using Fold = Dim (*)(Dim, Dim);
    static const std::pair<const char *, Fold> kCalls[] = {
        {"floordiv", [](Dim x, Dim y) { return floorDiv(x, y); }},
        {"ceildiv", [](Dim x, Dim y) { return ceilDiv(x, y); }},
        {"mod", [](Dim x, Dim y) { return mod(x, y); }},
        {"min", [](Dim x, Dim y) { return min(x, y); }},
        {"max", [](Dim x, Dim y) { return max(x, y); }}};
    for (auto &[call, fold] : kCalls) {
      const size_t before = at_;
      if (!accept(call))
        continue;
      if (!accept("(")) { // a symbol that happens to have this name
        at_ = before;
        break;
      }
      if (!dimExpression(a, depth + 1) || !expect(",") || !dimExpression(b, depth + 1) ||
          !expect(")"))
        return false;
      out = fold(a, b);
      return true;
    }
    std::string symbol;
    if (!word(symbol))
      return false;
    out = context_.symbol(symbol);
    return true;
  }
  bool dim(Dim &out) {
    if (accept("{"))
      return dimExpression(out) && expect("}");
    int64_t v;
    if (!integer(v))
      return false;
    out = context_.dim(v);
    return true;
  }

  bool element(Element &out) {
    skip();
    size_t end = at_;
    while (end < text_.size() && wordChar(text_[end]))
      ++end;
    auto e = parseElement(text_.slice(at_, end));
    if (!e)
      return fail("expected an element type such as f32 or i8");
    out = *e;
    at_ = end;
    return true;
  }

  /// `1x{N}x3xf32`
  bool shapeAndElement(llvm::SmallVectorImpl<Dim> &shape, Element &e) {
    while (true) {
      const char c = peek();
      if (!isdigit(static_cast<unsigned char>(c)) && c != '{')
        return element(e);
      Dim d;
      if (!dim(d))
        return false;
      if (d.isConstant() && d.constant() < 0)
        return fail("expected an extent of at least 0");
      shape.push_back(d);
      if (at_ >= text_.size() || text_[at_] != 'x')
        return fail("expected 'x' after an extent");
      ++at_;
    }
  }

  bool layout(unsigned rank, Layout &out) {
    for (auto &[known, knownRank] :
         {std::pair("nwc", 3u), std::pair("nhwc", 4u), std::pair("ndhwc", 5u)})
      if (accept(known)) {
        if (rank != knownRank)
          return fail("layout does not fit a tensor of rank " + std::to_string(rank));
        out = Layout::channelsLast(context_, rank);
        return true;
      }
    if (!expect("["))
      return false;
    llvm::SmallVector<LayoutAxis, 6> axes;
    llvm::SmallVector<int64_t, 6> outer(rank, 0), inner(rank, 0);
    while (!accept("]")) {
      if (!axes.empty() && !expect(","))
        return false;
      LayoutAxis a;
      int64_t d;
      if (!integer(d))
        return false;
      if (d < 0 || d >= int64_t(rank))
        return fail("layout names dimension " + std::to_string(d) + " of a tensor of rank " +
                    std::to_string(rank));
      a.dim = int(d);
      if (accept("/") || (a.inner = accept("%"))) {
        if (!integer(a.block))
          return false;
        if (a.block < 1)
          return fail("expected a block of at least 1");
      }
      if (accept(":") && !dim(a.alloc))
        return false;
      if (accept("@") && !integer(a.origin))
        return false;
      (a.inner ? inner : outer)[d] += 1;
      axes.push_back(a);
    }
    for (unsigned i = 0; i < rank; ++i)
      if (outer[i] != 1 || inner[i] > 1)
        return fail("layout must name each dimension once (or as d/b and d%b)");
    out = Layout::get(context_, axes);
    return true;
  }

  bool type(Type &out, unsigned depth = 0) {
    if (depth > kMaxDepth)
      return fail("type is nested too deeply");
    if (accept("tensor")) {
      llvm::SmallVector<Dim, 6> shape;
      Element e = Element::F32;
      Layout l;
      Space space = Space::Device;
      if (!expect("<") || !shapeAndElement(shape, e))
        return false;
      while (accept(",")) {
        if (accept("host"))
          space = Space::Host;
        else if (!layout(unsigned(shape.size()), l))
          return false;
      }
      out = Type::tensor(context_, e, shape, l, space);
      return expect(">");
    }
    const bool sequence = accept("seq");
    if (sequence || accept("optional")) {
      Type inner;
      if (!expect("<") || !type(inner, depth + 1))
        return false;
      out = sequence ? Type::sequence(inner) : Type::optional(inner);
      return expect(">");
    }
    Element e = Element::F32;
    if (!element(e))
      return false;
    out = Type::scalar(context_, e);
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Attributes
  //===--------------------------------------------------------------------===//

  template <class Each> bool list(Each each) {
    if (!expect("["))
      return false;
    for (bool first = true; !accept("]"); first = false)
      if ((!first && !expect(",")) || !each())
        return false;
    return true;
  }

  bool ints(Ints &out) {
    return list([&] {
      int64_t v;
      if (!integer(v))
        return false;
      out.push_back(v);
      return true;
    });
  }

  llvm::Optional<Attribute> attribute() {
    const char c = peek();
    if (c == '"') {
      std::string s;
      return string(s) ? llvm::Optional<Attribute>(std::move(s)) : llvm::None;
    }
    if (c == '[') {
      Ints v;
      return ints(v) ? llvm::Optional<Attribute>(std::move(v)) : llvm::None;
    }
    if (accept("!")) {
      Type t;
      return type(t) ? llvm::Optional<Attribute>(t) : llvm::None;
    }
    if (isdigit(static_cast<unsigned char>(c)) || c == '-' || lookingAtNumberWord()) {
      double d;
      int64_t i;
      bool isInt;
      if (!number(d, i, isInt))
        return llvm::None;
      return isInt ? Attribute(i) : Attribute(d);
    }
    if (accept("true"))
      return Attribute(true);
    if (accept("false"))
      return Attribute(false);
    std::string w;
    if (!word(w))
      return llvm::None;
    if (w == "lists" && peek() == '[') {
      IntLists v;
      if (!list([&] {
            v.emplace_back();
            return ints(v.back());
          }))
        return llvm::None;
      return Attribute(std::move(v));
    }
    if (w == "floats" && peek() == '[') {
      Floats v;
      if (!list([&] {
            double d;
            int64_t i;
            bool isInt;
            if (!number(d, i, isInt))
              return false;
            v.push_back(d);
            return true;
          }))
        return llvm::None;
      return Attribute(std::move(v));
    }
    if (w == "dims" && peek() == '[') {
      Dims v;
      if (!list([&] {
            Dim d;
            if (!dim(d))
              return false;
            v.push_back(d);
            return true;
          }))
        return llvm::None;
      return Attribute(std::move(v));
    }
    if (w == "strings" && peek() == '[') {
      Strings v;
      if (!list([&] {
            v.emplace_back();
            return string(v.back());
          }))
        return llvm::None;
      return Attribute(std::move(v));
    }
    if (peek() != '<')
      return Attribute(Word{w});
    if (w == "dense" || w == "splat" || w == "data" || w == "elided")
      return literal(w);
    Schedule s;
    s.tactic = w;
    if (!expect("<"))
      return llvm::None;
    for (bool first = true; !accept(">"); first = false) {
      std::string key;
      int64_t value;
      if ((!first && !expect(",")) || !word(key) || !expect("=") || !integer(value))
        return llvm::None;
      s.params.emplace_back(key, value);
    }
    return Attribute(std::move(s));
  }

  bool lookingAtNumberWord() {
    for (llvm::StringRef w : {"nan", "inf"}) {
      llvm::StringRef rest = text_.substr(at_);
      if (rest.startswith(w) && (rest.size() == w.size() || !wordChar(rest[w.size()])))
        return true;
    }
    return false;
  }

  llvm::Optional<Attribute> literal(llvm::StringRef kind) {
    llvm::SmallVector<Dim, 6> dims;
    Element e;
    if (!expect("<") || !shapeAndElement(dims, e))
      return llvm::None;
    llvm::SmallVector<int64_t, 6> shape;
    int64_t count = 1;
    for (Dim d : dims) {
      if (!d.isConstant()) {
        fail("a literal needs constant extents");
        return llvm::None;
      }
      shape.push_back(d.constant());
      if (llvm::MulOverflow(count, d.constant(), count) || count > kMaxBytes) {
        fail("literal is too large");
        return llvm::None;
      }
    }
    if (kind == "elided") {
      fail("elided literals are for reading only; write the module with 'tenon opt -o FILE.tn'");
      return llvm::None;
    }
    if (!expect(":"))
      return llvm::None;
    if (kind == "data") {
      int64_t offset;
      if (!integer(offset) || !expect(">"))
        return llvm::None;
      const int64_t bytes = byteSize(e, count);
      if (offset < 0 || bytes > int64_t(data_.size()) || offset > int64_t(data_.size()) - bytes) {
        fail("the side file is missing or too short: expected " + std::to_string(bytes) +
             " bytes at offset " + std::to_string(offset) + ", found a file of " +
             std::to_string(data_.size()));
        return llvm::None;
      }
      auto *first = reinterpret_cast<const uint8_t *>(data_.data()) + offset;
      return Attribute(Literal(
          std::make_shared<const Tensor>(e, shape, std::vector<uint8_t>(first, first + bytes))));
    }
    const bool splat = kind == "splat";
    // A dense list holds each element, so its length bounds what is allocated.
    if (!splat && count > int64_t(text_.size())) {
      fail("expected " + std::to_string(count) + " elements");
      return llvm::None;
    }
    if (e == Element::String) {
      std::vector<std::string> values;
      for (int64_t i = 0; i < (splat ? 1 : count); ++i) {
        values.emplace_back();
        if ((i && !expect(",")) || !string(values.back()))
          return llvm::None;
      }
      if (splat)
        values.resize(count, values.front());
      if (!expect(">"))
        return llvm::None;
      return Attribute(
          Literal(std::make_shared<const Tensor>(Tensor::strings(shape, std::move(values)))));
    }
    Tensor t(e, shape);
    for (int64_t i = 0; i < (splat ? std::min<int64_t>(count, 1) : count); ++i) {
      if (i && !expect(","))
        return llvm::None;
      if (accept("bits")) {
        int64_t bits;
        if (!expect("(") || !integer(bits) || !expect(")"))
          return llvm::None;
        memcpy(t.mutableBytes() + i * (bitWidth(e) / 8), &bits, bitWidth(e) / 8);
        continue;
      }
      double d;
      int64_t v;
      bool isInt;
      if (!number(d, v, isInt))
        return llvm::None;
      if (isFloat(e))
        t.set(i, d);
      else if (isInt)
        t.setInt(i, v);
      else {
        fail("expected an integer");
        return llvm::None;
      }
    }
    if (splat) {
      const int64_t bits = bitWidth(e);
      if (bits >= 8)
        for (int64_t i = 1; i < count; ++i)
          memcpy(t.mutableBytes() + i * (bits / 8), t.bytes().data(), bits / 8);
      else
        for (int64_t i = 1; i < count; ++i)
          isFloat(e) ? t.set(i, t.at(0)) : t.setInt(i, t.intAt(0));
    }
    if (!expect(">"))
      return llvm::None;
    return Attribute(Literal(std::make_shared<const Tensor>(std::move(t))));
  }

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  bool valueName(std::string &out) {
    if (!expect("%"))
      return false;
    size_t end = at_;
    while (end < text_.size() && wordChar(text_[end]))
      ++end;
    if (end == at_)
      return fail("expected a value name after '%'");
    out = text_.slice(at_, end).str();
    at_ = end;
    return true;
  }

  bool define(llvm::StringRef name, Value *v) {
    if (!name.empty() && !isdigit(static_cast<unsigned char>(name[0])))
      v->setHint(name);
    return values_.try_emplace(name, v).second ||
           fail("value '%" + name.str() + "' is defined twice");
  }

  bool graph(Module &m) {
    std::string name;
    if (!expect("@") || !word(name))
      return false;
    Graph &g = m.addGraph(name);
    if (accept("target") && (!expect("=") || !string(g.target)))
      return false;
    values_.clear();
    if (!expect("("))
      return false;
    for (bool first = true; !accept(")"); first = false) {
      std::string value, input;
      Type t;
      if ((!first && !expect(",")) || !valueName(value) || !string(input) || !expect(":") ||
          !type(t) || !define(value, g.body().addArgument(t)))
        return false;
      g.inputNames.push_back(input);
    }
    if (!expect("->") || !expect("("))
      return false;
    for (bool first = true; !accept(")"); first = false) {
      g.outputNames.emplace_back();
      if ((!first && !expect(",")) || !string(g.outputNames.back()))
        return false;
    }
    while (accept("state")) {
      State s;
      int64_t in, out, axis;
      if (!expect("(") || !integer(in) || !expect("=") || !integer(out))
        return false;
      if (accept("append")) {
        if (!integer(axis))
          return false;
        s.appendAxis = int(axis);
      }
      if (in < 0 || in >= int64_t(g.inputNames.size()) || out < 0 ||
          out >= int64_t(g.outputNames.size()))
        return fail("state names an input or output that does not exist");
      s.input = unsigned(in);
      s.output = unsigned(out);
      g.states.push_back(s);
      if (!expect(")"))
        return false;
    }
    return operations(g.body(), 0);
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
    llvm::SmallVector<std::string, 2> resultNames;
    if (peek() == '%') {
      do {
        resultNames.emplace_back();
        if (!valueName(resultNames.back()))
          return false;
      } while (accept(","));
      if (!expect("="))
        return false;
    }
    std::string opName;
    skip();
    const size_t nameAt = at_;
    if (!word(opName))
      return false;
    auto kind = parseOp(opName);
    if (!kind) {
      at_ = nameAt;
      return fail("unknown operation '" + opName + "'; 'tenon ops' lists what exists");
    }
    llvm::SmallVector<Value *, 4> operands;
    IntLists maps;
    bool mapped = false;
    while (peek() == '%') {
      std::string name;
      if (!valueName(name))
        return false;
      Value *v = values_.lookup(name);
      if (!v)
        return fail("value '%" + name + "' is not defined here");
      operands.push_back(v);
      maps.push_back(identityMap(v->type().isTensor() ? v->type().rank() : 0));
      if (peek() == '[') {
        mapped = true;
        maps.back().clear();
        if (!list([&] {
              if (accept("_")) {
                maps.back().push_back(-1);
                return true;
              }
              int64_t d;
              if (!integer(d))
                return false;
              maps.back().push_back(d);
              return true;
            }))
          return false;
      }
      if (!accept(","))
        break;
    }
    NamedAttributes attributes;
    if (accept("{"))
      for (bool first = true; !accept("}"); first = false) {
        std::string key;
        if ((!first && !expect(",")) || !word(key) || !expect("="))
          return false;
        auto value = attribute();
        if (!value)
          return fail("expected an attribute value");
        if (!attributes.insert({key, *value}).second)
          return fail("attribute '" + key + "' is given twice");
      }
    if (*kind == Op::Map || *kind == Op::Reduce)
      attributes.insert({"maps", maps});
    else if (mapped)
      return fail("only map and reduce take index maps");
    Operation *op = Operation::create(*kind, operands, std::move(attributes), {});
    into.push_back(op);
    places_[op] = nameAt;
    while (peek() == '(') {
      Region &r = op->addRegion();
      expect("(");
      for (bool first = true; !accept(")"); first = false) {
        std::string name;
        Type t;
        if ((!first && !expect(",")) || !valueName(name) || !expect(":") || !type(t) ||
            !define(name, r.addArgument(t)))
          return false;
      }
      if (!operations(r, depth + 1))
        return false;
    }
    if (!resultNames.empty() && !expect(":"))
      return false;
    for (size_t i = 0; i < resultNames.size(); ++i) {
      Type t;
      if ((i && !expect(",")) || !type(t) || !define(resultNames[i], op->addResult(t)))
        return false;
    }
    if (accept("loc")) {
      if (!expect("("))
        return false;
      for (bool first = true; !accept(")"); first = false) {
        op->loc().emplace_back();
        if ((!first && !expect(",")) || !string(op->loc().back()))
          return false;
      }
    }
    // Checked here as well as by the verifier, so that the message has a place.
    llvm::SmallVector<Type, 2> types;
    std::string error;
    at_ = std::min(at_, text_.size());
    const size_t end = at_;
    at_ = nameAt;
    if (!inferTypes(*op, types, error))
      return fail(error);
    if (types.size() != op->numResults() && op->info().infer)
      return fail(opName + " makes " + std::to_string(types.size()) + " results, found " +
                  std::to_string(op->numResults()));
    at_ = end;
    return true;
  }

  Context &context_;
  llvm::StringRef text_, data_;
  Diagnostics &diagnostics_;
  size_t at_ = 0;
  bool failed_ = false;
  llvm::StringMap<Value *> values_;
  llvm::DenseMap<const Operation *, size_t> places_; // looked up only
};

} // namespace

std::unique_ptr<Module> parseModule(Context &context, const llvm::MemoryBuffer &buffer,
                                    llvm::StringRef data, Diagnostics &diagnostics) {
  Parser parser(context, buffer, data, diagnostics);
  auto m = parser.module();
  if (!m || diagnostics.hasErrors())
    return nullptr;
  if (!verify(*m, diagnostics)) {
    parser.place(diagnostics);
    return nullptr;
  }
  return m;
}

void printWithCarets(const Diagnostics &diagnostics, const llvm::MemoryBuffer &buffer,
                     llvm::raw_ostream &os) {
  llvm::SourceMgr manager;
  manager.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(buffer.getMemBufferRef(), /*RequiresNullTerminator=*/false),
      llvm::SMLoc());
  Diagnostics plain;
  for (const Diagnostic &d : diagnostics.list()) {
    if (!d.where.isValid()) {
      plain.report(d.severity, d.message) = d;
      continue;
    }
    const auto kind = d.severity == Severity::Error     ? llvm::SourceMgr::DK_Error
                      : d.severity == Severity::Warning ? llvm::SourceMgr::DK_Warning
                                                        : llvm::SourceMgr::DK_Remark;
    manager.PrintMessage(os, d.where, kind, d.message, {}, {}, /*ShowColors=*/false);
    for (const std::string &n : d.notes)
      os << "note: " << n << '\n';
  }
  plain.print(os);
}

std::unique_ptr<Module> readModule(Context &context, llvm::StringRef path,
                                   Diagnostics &diagnostics) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    diagnostics.error("cannot read '" + path.str() + "': " + buffer.getError().message());
    return nullptr;
  }
  auto data = llvm::MemoryBuffer::getFile(path + ".data", /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  Diagnostics local;
  auto m = parseModule(context, **buffer, data ? (*data)->getBuffer() : llvm::StringRef(), local);
  if (local.list().empty())
    return m;
  // Carets need the buffer, which dies here: the text goes into the message.
  std::string text;
  llvm::raw_string_ostream os(text);
  printWithCarets(local, **buffer, os);
  os.flush();
  if (m)
    diagnostics.warning(text);
  else
    diagnostics.error("cannot parse '" + path.str() + "'\n" + llvm::StringRef(text).rtrim().str());
  return m;
}

namespace {
bool writeFile(llvm::StringRef path, llvm::StringRef bytes, Diagnostics &diagnostics) {
  const std::string temporary = path.str() + ".tmp";
  std::error_code code;
  {
    llvm::raw_fd_ostream os(temporary, code);
    if (!code) {
      os << bytes;
      os.close();
      code = os.error();
      os.clear_error();
    }
  }
  if (!code)
    code = llvm::sys::fs::rename(temporary, path);
  if (code) {
    llvm::sys::fs::remove(temporary);
    diagnostics.error("cannot write '" + path.str() + "': " + code.message());
  }
  return !code;
}
} // namespace

bool writeModule(const Module &module, llvm::StringRef path, Diagnostics &diagnostics) {
  std::string text, data;
  PrintOptions options;
  options.data = &data;
  {
    llvm::raw_string_ostream os(text);
    print(module, os, options);
  }
  if (path == "-") {
    llvm::outs() << toString(module);
    return true;
  }
  if (!data.empty() && !writeFile((path + ".data").str(), data, diagnostics))
    return false;
  return writeFile(path, text, diagnostics);
}

} // namespace tenon

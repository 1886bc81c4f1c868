// Implements printing of the textual form. Grammar: docs/ir.md.
#include "ir/Names.h"
#include "ir/SumBounds.h"
#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace tenon {
namespace {

void printString(llvm::raw_ostream &os, llvm::StringRef s) {
  os << '"';
  os.write_escaped(s, /*UseHexEscapes=*/true);
  os << '"';
}

/// Shortest of %.6g, %.9g, %.17g that reads back as the same double, always with a mark that
/// tells it from an integer.
void printDouble(llvm::raw_ostream &os, double v) {
  if (std::isnan(v)) {
    os << "nan";
    return;
  }
  if (std::isinf(v)) {
    os << (v < 0 ? "-inf" : "inf");
    return;
  }
  char text[40];
  for (const char *format : {"%.6g", "%.9g", "%.17g"}) {
    snprintf(text, sizeof text, format, v);
    if (strtod(text, nullptr) == v)
      break;
  }
  llvm::StringRef s(text);
  os << s;
  if (s.find_first_of(".e") == llvm::StringRef::npos)
    os << ".0";
}

void printDim(llvm::raw_ostream &os, Dim d) {
  if (d.isConstant())
    os << d;
  else
    os << '{' << d << '}';
}

class Printer {
public:
  Printer(llvm::raw_ostream &os, const PrintOptions &options) : os_(os), options_(options) {}

  void module(const Module &m) {
    os_ << "module ";
    printString(os_, m.name);
    os_ << " stage=" << name(m.stage) << " {\n";
    for (auto &[key, value] : m.facts) {
      os_ << "  fact ";
      printString(os_, key);
      os_ << " = ";
      printString(os_, value);
      os_ << '\n';
    }
    for (Dim s : m.symbols)
      os_ << "  symbol " << s.symbol() << " = " << s.lower() << ".." << s.upper() << '\n';
    for (const SumBound &s : sumsOf(m.symbols))
      os_ << "  sum " << s.first << " + " << s.second << " <= " << s.upper << '\n';
    for (auto &g : m.graphs)
      graph(*g);
    os_ << "}\n";
  }

  void graph(const Graph &g) {
    ValueNames names(g);
    names_ = &names;
    os_ << "  graph @" << g.name;
    if (!g.target.empty()) {
      os_ << " target=";
      printString(os_, g.target);
    }
    os_ << " (";
    for (unsigned i = 0; i < g.body().numArguments(); ++i) {
      Value *a = g.body().argument(i);
      os_ << (i ? ", " : "") << '%' << names[a] << ' ';
      printString(os_, g.inputNames[i]);
      os_ << ": " << a->type();
    }
    os_ << ") -> (";
    for (size_t i = 0; i < g.outputNames.size(); ++i) {
      os_ << (i ? ", " : "");
      printString(os_, g.outputNames[i]);
    }
    os_ << ')';
    for (const State &s : g.states) {
      os_ << " state(" << s.input << " = " << s.output;
      if (s.appendAxis >= 0)
        os_ << " append " << s.appendAxis;
      os_ << ')';
    }
    os_ << " {\n";
    for (const Operation &op : const_cast<Region &>(g.body()))
      operation(op, 4);
    os_ << "  }\n";
    names_ = nullptr;
  }

  void operation(const Operation &op, unsigned indent) {
    os_.indent(indent);
    for (unsigned i = 0; i < op.numResults(); ++i)
      os_ << (i ? ", %" : "%") << (*names_)[op.result(i)];
    if (op.numResults())
      os_ << " = ";
    os_ << op.name();
    const IntLists &maps = op.intListsAttr("maps");
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      os_ << (i ? ", %" : " %") << (*names_)[op.operand(i)];
      if (i < maps.size())
        indexMap(op.operand(i)->type(), maps[i]);
    }
    const char *separator = " {";
    for (auto &[key, value] : op.attributes()) {
      if (key == "maps")
        continue; // printed with the operands
      os_ << separator << key << " = ";
      attribute(value);
      separator = ", ";
    }
    if (separator[0] == ',')
      os_ << '}';
    for (unsigned r = 0; r < op.numRegions(); ++r)
      region(op.region(r), indent);
    for (unsigned i = 0; i < op.numResults(); ++i)
      os_ << (i ? ", " : " : ") << op.result(i)->type();
    if (options_.locations && !op.loc().empty() && !(op.info().traits & OpTrait::Scalar)) {
      os_ << " loc(";
      for (size_t i = 0; i < op.loc().size(); ++i) {
        os_ << (i ? ", " : "");
        printString(os_, op.loc()[i]);
      }
      os_ << ')';
    }
    os_ << '\n';
  }

  void setNames(const ValueNames *names) { names_ = names; }

private:
  void region(Region &r, unsigned indent) {
    os_ << " (";
    for (unsigned i = 0; i < r.numArguments(); ++i)
      os_ << (i ? ", %" : "%") << (*names_)[r.argument(i)] << ": " << r.argument(i)->type();
    os_ << ") {\n";
    for (const Operation &op : r)
      operation(op, indent + 2);
    os_.indent(indent) << '}';
  }

  /// `[0, _, 2]` after an operand; nothing where it is the identity over the operand's rank.
  void indexMap(Type t, const Ints &map) {
    bool identity = true;
    for (size_t i = 0; i < map.size(); ++i)
      identity &= map[i] == int64_t(i);
    if (identity && t && map.size() == t.rank() && !map.empty())
      return;
    os_ << '[';
    for (size_t i = 0; i < map.size(); ++i) {
      os_ << (i ? ", " : "");
      if (map[i] < 0)
        os_ << '_';
      else
        os_ << map[i];
    }
    os_ << ']';
  }

  template <class List, class Each> void list(const char *open, const List &l, Each each) {
    os_ << open;
    const char *comma = "";
    for (const auto &x : l) {
      os_ << comma;
      each(x);
      comma = ", ";
    }
    os_ << ']';
  }

  void attribute(const Attribute &a) {
    std::visit([&](const auto &v) { print(v); }, a.storage());
  }
  void print(bool v) { os_ << (v ? "true" : "false"); }
  void print(int64_t v) { os_ << v; }
  void print(double v) { printDouble(os_, v); }
  void print(const std::string &v) { printString(os_, v); }
  void print(const Word &v) { os_ << v.text; }
  void print(const Ints &v) {
    list("[", v, [&](int64_t x) { os_ << x; });
  }
  void print(const IntLists &v) {
    list("lists[", v, [&](const Ints &x) { print(x); });
  }
  void print(const Floats &v) {
    list("floats[", v, [&](double x) { printDouble(os_, x); });
  }
  void print(const Dims &v) {
    list("dims[", v, [&](Dim d) { printDim(os_, d); });
  }
  void print(const Strings &v) {
    list("strings[", v, [&](const std::string &s) { printString(os_, s); });
  }
  void print(Type t) { os_ << '!' << t; }
  void print(const Schedule &s) {
    os_ << s.tactic << '<';
    const char *comma = "";
    for (auto &[key, value] : s.params) {
      os_ << comma << key << '=' << value;
      comma = ", ";
    }
    os_ << '>';
  }

  void print(const Literal &l) {
    const Tensor &t = *l;
    auto type = [&] {
      for (int64_t d : t.shape())
        os_ << d << 'x';
      os_ << name(t.element());
    };
    if (t.size() > 1 && t.isSplat()) {
      os_ << "splat<";
      type();
      os_ << ": ";
      element(t, 0);
    } else if (t.size() <= options_.inlineElements ||
               (options_.data && t.element() == Element::String)) { // text has no bytes to map
      os_ << "dense<";
      type();
      os_ << ':';
      for (int64_t i = 0; i < t.size(); ++i) {
        os_ << (i ? ", " : " ");
        element(t, i);
      }
    } else if (options_.data) {
      os_ << "data<";
      type();
      os_ << ": " << placeOf(t.bytes());
    } else {
      os_ << "elided<";
      type();
    }
    os_ << '>';
  }

  /// Real and imaginary part of a complex element.
  static Tensor componentsOf(const Tensor &t, int64_t i) {
    const int64_t bytes = bitWidth(t.element()) / 8;
    const uint8_t *first = t.bytes().data() + i * bytes;
    return Tensor(t.element() == Element::C64 ? Element::F32 : Element::F64, {2},
                  std::vector<uint8_t>(first, first + bytes));
  }

  void element(const Tensor &t, int64_t i) {
    if (t.element() == Element::String)
      printString(os_, t.stringValues()[i]);
    else if (isFloat(t.element()) && !(std::isnan(t.at(i))))
      printDouble(os_, t.at(i));
    else if (isFloat(t.element())) { // keep the payload of a NaN
      const unsigned bytes = bitWidth(t.element()) / 8;
      uint64_t bits = 0;
      if (bytes)
        memcpy(&bits, t.bytes().data() + i * bytes, bytes);
      os_ << "bits(" << bits << ')';
    } else if (isComplex(t.element())) {
      const Tensor parts = componentsOf(t, i);
      os_ << '(';
      element(parts, 0);
      os_ << ", ";
      element(parts, 1);
      os_ << ')';
    } else
      os_ << t.intAt(i);
  }

  /// Where the side file has bytes. Several graphs (entries, levels) often refer to the same ones.
  size_t placeOf(llvm::ArrayRef<uint8_t> bytes) {
    std::string &data = *options_.data;
    const auto [known, isNew] = places_.insert({{bytes.data(), bytes.size()}, 0});
    if (isNew) {
      // Offsets are multiples of 64, so that a side file can be mapped.
      data.resize((data.size() + 63) / 64 * 64);
      known->second = data.size();
      data.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
    return known->second;
  }

  llvm::raw_ostream &os_;
  std::map<std::pair<const uint8_t *, size_t>, size_t> places_; // looked up only
  const PrintOptions &options_;
  const ValueNames *names_ = nullptr;
};

} // namespace

void print(const Module &module, llvm::raw_ostream &os, const PrintOptions &options) {
  Printer(os, options).module(module);
}

void print(const Operation &op, llvm::raw_ostream &os) {
  ValueNames names(op);
  PrintOptions options;
  Printer p(os, options);
  p.setNames(&names);
  p.operation(op, 0);
}

std::string toString(const Module &module) {
  std::string s;
  llvm::raw_string_ostream os(s);
  print(module, os);
  return s;
}

} // namespace tenon

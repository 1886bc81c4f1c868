// Implements the writing of text, keys and automata.
#include "codegen/emit/TextTables.h"

#include "ir/Regex.h"

#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace tenon {
namespace {

/// `static const TYPE NAME[] = {…};` with items on lines of at most 100 columns; a lone `empty`
/// stands where there are none, which C++ asks for.
void writeArray(SourceWriter &w, const std::string &type, const std::string &name,
                const std::vector<std::string> &items, const std::string &empty) {
  w.open("static const " + type + " " + name + "[] =");
  std::string line;
  for (const std::string &item : items.empty() ? std::vector<std::string>{empty} : items) {
    if (!line.empty() && line.size() + item.size() > 94) {
      w.line(line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + item + ",";
  }
  w.line(line);
  w.close("};");
}

template <class Range> std::vector<std::string> numbers(const Range &values) {
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const auto v : values)
    items.push_back(std::to_string(v));
  return items;
}

} // namespace

std::string textElement(llvm::StringRef text) {
  std::string s = "{\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c != '"' && c != '\\' && c != '?' && u >= 32 && u < 127) {
      s += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\%03o", unsigned(u)); // three digits: none can follow
    s += escape;
  }
  return s + "\", " + std::to_string(text.size()) + "}";
}

void writeTextArray(SourceWriter &w, llvm::StringRef name, llvm::ArrayRef<std::string> values) {
  std::vector<std::string> items;
  for (const std::string &v : values)
    items.push_back(textElement(v));
  writeArray(w, "text", name.str(), items, "{nullptr, 0}");
}

std::string writeTextIndex(SourceWriter &w, llvm::StringRef name,
                           llvm::ArrayRef<std::string> keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  order.erase(std::unique(order.begin(), order.end(),
                          [&](size_t a, size_t b) { return keys[a] == keys[b]; }),
              order.end());
  std::vector<std::string> sorted;
  sorted.reserve(order.size());
  for (size_t i : order)
    sorted.push_back(keys[i]);
  writeTextArray(w, (name + "_keys").str(), sorted);
  writeArray(w, "int32_t", (name + "_places").str(), numbers(order), "0");
  return ("text_index{" + name + "_keys, " + name + "_places, ").str() +
         std::to_string(order.size()) + "}";
}

std::string writeTextAutomaton(SourceWriter &w, llvm::StringRef name, llvm::StringRef pattern) {
  std::string refusal; // of what was compiled before, and so has none
  const Automaton a = *compileRegex(pattern, refusal);
  writeArray(w, "uint8_t", (name + "_classes").str(), numbers(a.classOf), "0");
  writeArray(w, "uint16_t", (name + "_next").str(), numbers(a.next), "0");
  writeArray(w, "uint8_t", (name + "_accepts").str(), numbers(a.accepts), "0");
  return ("text_automaton{" + name + "_classes, " + name + "_next, " + name + "_accepts, ").str() +
         std::to_string(a.classes) + "}";
}

} // namespace tenon

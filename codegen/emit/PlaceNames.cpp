// Implements PlaceNames and PlaceTable.
#include "codegen/emit/PlaceNames.h"

#include "codegen/core/TypeText.h"
#include "ir/Names.h"

#include "llvm/ADT/StringExtras.h"

namespace tenon {
namespace {

struct KindText {
  const char *prefix, *type, *heading;
};

/// In the order of PlaceKind.
constexpr KindText kKinds[kPlaceKinds] = {
    {"in_", "int", "Inputs, by their place in the interface."},
    {"out_", "int", "Outputs, by their place in the interface."},
    {"w_", "size_t", "Weights: bytes from their start. Those that are alike have one place."},
    {"mem_", "size_t",
     "What steps hand on: bytes in the arena. Values that are not needed at one time share "
     "memory."},
    {"scratch_", "size_t", "Memory of one step, in the arena."},
    {"zero_", "size_t", "Memory of one step that it finds and leaves zero."},
    {"state_", "size_t", "What is carried from run to run: bytes in the states."},
    {"text_", nullptr, nullptr}, // arrays; Program.cpp writes them
};

const KindText &textOf(PlaceKind kind) { return kKinds[size_t(kind)]; }

PlaceKind kindOf(Home home) {
  switch (home) {
  case Home::Arena: return PlaceKind::Memory;
  case Home::Weights: return PlaceKind::Weight;
  case Home::Text: return PlaceKind::Text;
  case Home::Input: return PlaceKind::Input;
  case Home::Output: return PlaceKind::Output;
  case Home::State: return PlaceKind::State;
  }
  llvm_unreachable("a home of no kind");
}

/// Long names keep their beginning and their end.
std::string shortened(const std::string &name) {
  constexpr size_t longest = 48, head = 20;
  if (name.size() <= longest)
    return name;
  llvm::StringRef begin = llvm::StringRef(name).take_front(head).rtrim('_');
  llvm::StringRef end = llvm::StringRef(name).take_back(longest - head - 1);
  if (const size_t word = end.find('_'); word < end.size() / 2)
    end = end.drop_front(word + 1);
  return (begin + "_" + end).str();
}

/// A step's name without its number.
std::string nodeOf(llvm::StringRef step) {
  const llvm::StringRef node = step.split('_').second;
  return (node.empty() ? step : node).str();
}

std::string bytesText(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

} // namespace

//===----------------------------------------------------------------------===//
// PlaceTable
//===----------------------------------------------------------------------===//

std::string PlaceTable::add(PlaceKind kind, Entry entry, llvm::StringRef variant) {
  const std::string prefix = textOf(kind).prefix, stem = entry.name;
  for (int n = 0;; ++n) {
    if (n)
      entry.name = stem + "_" + variant.str() + (n > 1 ? "_" + std::to_string(n) : "");
    auto [it, fresh] = values_.emplace(prefix + entry.name, entry.value);
    if (!fresh && it->second != entry.value)
      continue;
    if (fresh)
      entries_[size_t(kind)].push_back(std::move(entry));
    return it->first;
  }
}

void PlaceTable::write(SourceWriter &w) const {
  if (values_.empty())
    return;
  w.comment("What stands where.");
  w.line("namespace at {");
  for (size_t k = 0; k < kPlaceKinds; ++k) {
    if (entries_[k].empty() || !kKinds[k].type)
      continue;
    w.comment(kKinds[k].heading);
    // Kernels may have what stands there as numbers of their own.
    for (const Entry &e : entries_[k])
      w.line("[[maybe_unused]] constexpr " + std::string(kKinds[k].type) + " " + kKinds[k].prefix +
             e.name + " = " + std::to_string(e.value) + ";" +
             (e.comment.empty() ? "" : " // " + e.comment));
  }
  w.line("} // namespace at");
  w.line("");
}

//===----------------------------------------------------------------------===//
// PlaceNames
//===----------------------------------------------------------------------===//

PlaceNames::PlaceNames(Graph &graph, const Plan &plan, llvm::ArrayRef<std::string> steps,
                       PlaceTable &table, llvm::StringRef variant, bool lifetimes) {
  std::set<std::string> hints;
  walkValues(graph, [&](Value *v) {
    if (!v->hint().empty())
      hints.insert(sanitizeName(v->hint()));
  });

  // Ports are called as the interface calls them, by index.
  std::array<std::vector<std::string>, kPlaceKinds> ports;
  auto port = [&](PlaceKind kind, const std::string &name, Type type) {
    const std::string stem = shortened(sanitizeName(name));
    auto &list = ports[size_t(kind)];
    list.push_back("at::" + table.add(kind,
                                      {unique(kind, stem.empty() ? "unnamed" : stem),
                                       int64_t(list.size()), commentSafe(describe(type))},
                                      variant));
  };
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!graph.stateOfInput(i))
      port(PlaceKind::Input, graph.inputNames[i], graph.body().argument(i)->type());
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!graph.stateOfOutput(i))
      port(PlaceKind::Output, graph.outputNames[i], graph.returnOp()->operand(i)->type());

  // What was computed while compiling has no tensor of its own: it is called after its reader.
  llvm::DenseMap<const Value *, int> readers;
  for (const Step &s : plan.steps)
    for (Value *v : s.op->operands())
      readers.try_emplace(v, s.number);
  auto stemOf = [&](const Value *v) {
    std::string stem = sanitizeName(v->hint());
    // The same tensor inside of a group took the name without the counter.
    const size_t bar = stem.rfind('_');
    if (bar != std::string::npos && bar + 1 < stem.size() &&
        llvm::all_of(llvm::StringRef(stem).drop_front(bar + 1), llvm::isDigit) &&
        hints.count(stem.substr(0, bar)))
      stem.resize(bar);
    if (!stem.empty())
      return shortened(stem);
    const auto reader = readers.find(v);
    return reader == readers.end() ? std::string("unnamed")
                                   : shortened(nodeOf(steps[size_t(reader->second)]) + "_constant");
  };
  for (const BufferInfo &b : plan.buffers)
    for (const Value *v : b.values) {
      const auto it = plan.placements.find(v);
      if (it == plan.placements.end())
        continue;
      const Placement &p = it->second;
      const PlaceKind kind = kindOf(p.home);
      if (kind == PlaceKind::Input || kind == PlaceKind::Output) {
        names_[v] = ports[size_t(kind)][size_t(p.at)];
        continue;
      }
      const Type t = v->type();
      std::string comment = commentSafe(describe(t));
      if (kind == PlaceKind::Weight)
        comment += ", " + bytesText(b.bytes);
      else if (kind == PlaceKind::Memory && lifetimes && b.lastStep >= 0)
        comment += ", " + bytesText(byteSize(t.element(), t.upperElements())) + ", steps " +
                   std::to_string(b.firstStep) + " to " + std::to_string(b.lastStep);
      names_[v] =
          "at::" + table.add(kind, {unique(kind, stemOf(v)), p.at, std::move(comment)}, variant);
    }
  for (const Step &s : plan.steps) {
    const std::string &name = steps[size_t(s.number)];
    if (s.scratchBytes)
      scratch_[s.number] =
          "at::" +
          table.add(PlaceKind::Scratch, {name, s.scratchAt, bytesText(s.scratchBytes)}, variant);
    if (s.zeroedBytes)
      zeroed_[s.number] = "at::" + table.add(PlaceKind::Zeroed,
                                             {name, s.zeroedAt, bytesText(s.zeroedBytes)}, variant);
  }
}

std::string PlaceNames::unique(PlaceKind kind, const std::string &name) {
  auto &used = used_[size_t(kind)];
  std::string text = name;
  unsigned &count = used[name];
  while (count > 0 && used.count(text = name + "_" + std::to_string(count + 1)))
    ++count;
  ++count;
  if (text != name)
    used[text] = 1;
  return text;
}

} // namespace tenon

// Implements value naming.
#include "ir/Names.h"

namespace tenon {

std::string sanitizeName(llvm::StringRef hint) {
  std::string s;
  for (char c : hint) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain)
      s += c;
    else if (!s.empty() && s.back() != '_')
      s += '_';
  }
  while (!s.empty() && s.back() == '_')
    s.pop_back();
  if (!s.empty() && s[0] >= '0' && s[0] <= '9')
    s.insert(s.begin(), 'v');
  if (s.size() > 64)
    s.resize(64);
  while (!s.empty() && s.back() == '_')
    s.pop_back();
  return s;
}

ValueNames::ValueNames(const Graph &graph) { visit(graph.body()); }
ValueNames::ValueNames(const Operation &op) {
  for (Value *v : op.operands())
    if (!names_.count(v))
      name(v);
  visit(op);
}

void ValueNames::visit(const Region &region) {
  for (Value *a : region.arguments())
    name(a);
  for (const Operation &op : const_cast<Region &>(region))
    visit(op);
}

void ValueNames::visit(const Operation &op) {
  for (unsigned i = 0; i < op.numRegions(); ++i)
    visit(op.region(i));
  for (Value *r : op.results())
    name(r);
}

void ValueNames::name(const Value *v) {
  std::string base = sanitizeName(v->hint());
  if (base.empty()) {
    names_[v] = std::to_string(next_++);
    return;
  }
  std::string text = base;
  unsigned &count = used_[base];
  while (count > 0 && used_.count(text = base + "_" + std::to_string(count)))
    ++count;
  ++count;
  if (text != base)
    used_[text] = 1;
  names_[v] = text;
}

llvm::StringRef ValueNames::operator[](const Value *v) const {
  auto it = names_.find(v);
  return it == names_.end() ? llvm::StringRef("<unknown>") : llvm::StringRef(it->second);
}

void walkValues(Graph &graph, llvm::function_ref<void(Value *)> visit) {
  for (Value *a : graph.body().arguments())
    visit(a);
  graph.body().walk([&](Operation *op) {
    for (unsigned i = 0; i < op->numRegions(); ++i)
      for (Value *a : op->region(i).arguments())
        visit(a);
    for (Value *v : op->results())
      visit(v);
  });
}

void adoptNames(Graph &graph) {
  const ValueNames names(graph);
  walkValues(graph, [&](Value *v) {
    if (!v->hint().empty())
      v->setHint(names[v]);
  });
}

} // namespace tenon

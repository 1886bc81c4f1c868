// Implements the controls over passes, patterns and fusions: selectors, counters, suggestions.
#include "passes/Aliases.h"
#include "passes/Pass.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

namespace tenon {

bool globMatches(llvm::StringRef p, llvm::StringRef t) {
  // Greedy with one point of return: the last star seen.
  size_t i = 0, j = 0, star = llvm::StringRef::npos, mark = 0;
  while (j < t.size()) {
    if (i < p.size() && p[i] == '*') {
      star = i++;
      mark = j;
    } else if (i < p.size() && (p[i] == '?' || p[i] == t[j])) {
      ++i, ++j;
    } else if (star != llvm::StringRef::npos) {
      i = star + 1;
      j = ++mark;
    } else {
      return false;
    }
  }
  while (i < p.size() && p[i] == '*')
    ++i;
  return i == p.size();
}

std::vector<std::string> nearIds(llvm::StringRef id, llvm::ArrayRef<llvm::StringRef> extraIds) {
  std::vector<std::pair<unsigned, std::string>> ranked;
  auto consider = [&](llvm::StringRef candidate) {
    // The name alone counts as well, so that "relu-chain" finds "fuse.relu-chain".
    unsigned d =
        std::min(id.edit_distance(candidate), id.edit_distance(candidate.split('.').second) + 1);
    if (candidate.contains(id) || d <= std::max<size_t>(2, id.size() / 3))
      ranked.push_back({candidate.contains(id) ? 1 : d, candidate.str()});
  };
  for (const PassInfo &row : passTable())
    consider(row.id);
  for (llvm::StringRef e : extraIds)
    consider(e);
  std::stable_sort(ranked.begin(), ranked.end());
  // Kernels of several types or machines share an id.
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  std::vector<std::string> near;
  for (auto &[distance, name] : ranked)
    if (near.size() < 3)
      near.push_back(name);
  return near;
}

bool PassContext::Selector::matches(llvm::StringRef id, const Location *nodes) const {
  if (!globMatches(this->id, id) && !globMatches(this->id, passOf(id)))
    return false;
  if (node.empty())
    return true;
  return nodes && llvm::any_of(*nodes, [&](const std::string &n) { return globMatches(node, n); });
}

/// Whether an id is a pass's, or that of a part of one.
static bool isOfPass(llvm::StringRef id) { return findRow(passOf(id)); }

bool PassContext::setControls(const PassControls &controls,
                              llvm::ArrayRef<llvm::StringRef> extraIds) {
  bool ok = true;
  auto unknown = [&](llvm::StringRef option, llvm::StringRef id) {
    std::string message =
        option.str() + ": no pass, pattern or fusion is called '" + id.str() + "'";
    std::vector<std::string> near = nearIds(id, extraIds);
    for (size_t i = 0; i < near.size(); ++i)
      message += (i ? ", '" : "; did you mean '") + near[i] + "'";
    message += near.empty() ? "; `tenon passes` lists them" : "?";
    diagnostics.error(std::move(message));
    ok = false;
  };
  auto parse = [&](llvm::StringRef option, llvm::ArrayRef<std::string> from,
                   std::vector<Selector> &to) {
    to.clear();
    for (const std::string &text : from) {
      llvm::StringRef id, node; // named: clang 14 captures no structured bindings
      std::tie(id, node) = llvm::StringRef(text).split('@');
      const std::string current = currentId(id);
      id = current;
      bool known = llvm::any_of(extraIds, [&](llvm::StringRef e) { return globMatches(id, e); });
      for (const PassInfo &row : passTable()) {
        if (!globMatches(id, row.id))
          continue;
        known = true;
        if (row.required && row.id == id && option == "--disable") {
          diagnostics.error("--disable: '" + row.id.str() +
                            "' cannot be switched off, code generation relies on it");
          ok = false;
        }
      }
      if (!known)
        unknown(option, id);
      to.push_back({id.str(), node.str()});
    }
  };
  for (const std::string &glob : controls.printAfter)
    if (llvm::none_of(passTable(), [&](const PassInfo &row) {
          return row.kind == RowKind::Pass && globMatches(currentId(glob), row.id);
        }))
      unknown("--print-after", glob);
  parse("--disable", controls.disable, disable_);
  parse("--only", controls.only, only_);
  auto named = [&](llvm::StringRef id) {
    return llvm::any_of(only_, [&](const Selector &s) { return globMatches(s.id, id); });
  };
  onlyPasses_ = llvm::any_of(passTable(), [&](const PassInfo &row) { return named(row.id); });
  for (llvm::StringRef id : extraIds)
    (isOfPass(id) ? onlyPasses_ : onlyOthers_) |= named(id);
  counters_.clear();
  for (const std::string &text : controls.counters) {
    auto [id, range] = llvm::StringRef(text).split('=');
    auto [skip, count] = range.split('+');
    Counter c;
    if (!findRow(id) && !llvm::is_contained(extraIds, id)) {
      unknown("--debug-counter", id);
    } else if (skip.getAsInteger(10, c.skip) ||
               (!count.empty() && count.getAsInteger(10, c.count))) {
      diagnostics.error("--debug-counter: expected id=skip or id=skip+count, found '" + text + "'");
      ok = false;
    } else {
      counters_[currentId(id)] = c;
    }
  }
  return ok;
}

/// The node whose name, as far as the glob's letters go, takes the fewest edits; empty where that
/// is no slip.
static std::string nearNode(const std::string &glob, const std::set<std::string> &nodes) {
  std::string letters = glob;
  llvm::erase_if(letters, [](char c) { return c == '*' || c == '?'; });
  std::string nearest;
  unsigned least = 1 + std::max<size_t>(2, letters.size() / 3);
  for (llvm::StringRef node : nodes) {
    const unsigned edits =
        node.take_front(letters.size()).edit_distance(letters, /*AllowReplacements=*/true, least);
    if (edits < least) {
      least = edits;
      nearest = node.str();
    }
  }
  return nearest;
}

void PassContext::warnOfUnknownNodes(Module &module) {
  std::set<std::string> nodes;
  for (auto &graph : module.graphs)
    graph->body().walk([&](Operation *op) { nodes.insert(op->loc().begin(), op->loc().end()); });
  const auto check = [&](llvm::StringRef option, const std::string &glob) {
    if (glob.empty() ||
        llvm::any_of(nodes, [&](const std::string &node) { return globMatches(glob, node); }))
      return;
    const std::string near = nearNode(glob, nodes);
    diagnostics.warning(
        option.str() + ": nothing comes from a node called '" + glob + "'; " +
        (near.empty() ? "`tenon inspect` names the nodes" : "did you mean '" + near + "'?"));
  };
  for (const PrecisionRule &r : precision)
    check("--precision", r.nodes);
  for (const Selector &s : disable_)
    check("--disable", s.node);
  for (const Selector &s : only_)
    check("--only", s.node);
}

bool PassContext::enabledAt(llvm::StringRef id, const Location *nodes) const {
  for (const Selector &s : disable_)
    if (s.matches(id, nodes))
      return false;
  if (!(isOfPass(id) ? onlyPasses_ : onlyOthers_))
    return true;
  return llvm::any_of(only_, [&](const Selector &s) { return s.matches(id, nodes); });
}

bool PassContext::enabled(llvm::StringRef id, const Operation *op) const {
  return enabledAt(id, op ? &op->loc() : nullptr);
}
bool PassContext::enabled(llvm::StringRef id, const Location &nodes) const {
  return enabledAt(id, &nodes);
}

bool PassContext::enabledUnder(llvm::ArrayRef<llvm::StringRef> names) const {
  auto named = [&](const Selector &s) {
    return llvm::any_of(names, [&](llvm::StringRef name) { return s.matches(name, nullptr); });
  };
  return llvm::none_of(disable_, named) && (!onlyOthers_ || llvm::any_of(only_, named));
}

bool PassContext::passEnabled(llvm::StringRef id) const {
  const PassInfo *row = findRow(id);
  if (row && row->required)
    return true;
  for (const Selector &s : disable_)
    if (s.node.empty() && globMatches(s.id, id))
      return false;
  if (!onlyPasses_)
    return true;
  for (const Selector &s : only_) {
    if (globMatches(s.id, id))
      return true;
    for (const PassInfo &r : passTable())
      if (r.kind != RowKind::Pass && passOf(r.id) == id && globMatches(s.id, r.id))
        return true;
  }
  return false;
}

bool PassContext::fire(llvm::StringRef id, const Operation &op) {
  assert(isOfPass(id) && "a pass of passes/Table.cpp answers for every rewrite");
  const PassInfo *row = findRow(passOf(id));
  if (!(row && row->required) && !enabled(id, &op))
    return false;
  auto it = counters_.find(id);
  if (it != counters_.end()) {
    Counter &c = it->second;
    const int64_t n = c.seen++;
    if (n < c.skip || (c.count >= 0 && n >= c.skip + c.count))
      return false;
  }
  ++counts[id.str()];
  return true;
}

void PassContext::restart(llvm::StringRef id) {
  counts.erase(id.str());
  if (auto it = counters_.find(id); it != counters_.end())
    it->second.seen = 0;
}

Tensor PassContext::shared(llvm::function_ref<std::string()> how, llvm::ArrayRef<Tensor> of,
                           llvm::function_ref<Tensor()> make) {
  /// What is smaller is made as fast as it is found.
  constexpr int64_t kLeast = 1 << 12;
  const auto isLarge = [](const Tensor &t) {
    return t.element() != Element::String && t.size() >= kLeast;
  };
  if (!runsOnSeveral_ || llvm::none_of(of, isLarge))
    return make();
  std::string key = how();
  for (const Tensor &t : of) {
    if (t.element() == Element::String)
      return make();
    key += '\0' + std::to_string(reinterpret_cast<uintptr_t>(t.bytes().data())) +
           name(t.element()).str();
    for (int64_t extent : t.shape())
      key += 'x' + std::to_string(extent);
  }
  const auto known = made_.find(key);
  if (known != made_.end())
    return known->second.result;
  Tensor result = make();
  if (!result.isNull())
    made_.insert({key, {result, of.vec()}});
  return result;
}

int64_t PassContext::option(llvm::StringRef name) const {
  auto it = options_.find(name);
  if (it != options_.end())
    return std::stoll(it->second); // the pipeline has been checked
  if (running_)
    for (const PassOption &o : running_->options)
      if (o.name == name)
        return o.value;
  assert(false && "option is not declared in passes/Table.cpp");
  return 0;
}

llvm::StringRef PassContext::textOption(llvm::StringRef name) const {
  auto it = options_.find(name);
  return it == options_.end() ? llvm::StringRef() : it->second;
}

} // namespace tenon

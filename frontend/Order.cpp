// Implements node ordering and capture analysis.
#include "frontend/Order.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <queue>

namespace tenon::frontend {
namespace {

/// Calls `visit` with every subgraph of a node.
template <class F> void forSubgraphs(const onnx::NodeProto &node, F visit) {
  for (const onnx::AttributeProto &a : node.attribute()) {
    if (a.has_g())
      visit(a.g());
    for (const onnx::GraphProto &g : a.graphs())
      visit(g);
  }
}

} // namespace

const std::vector<std::string> &FreeNames::of(const onnx::GraphProto &graph) {
  auto known = known_.find(&graph);
  if (known != known_.end())
    return known->second;
  llvm::StringSet<> defined, seen;
  for (const auto &input : graph.input())
    defined.insert(input.name());
  for (const auto &tensor : graph.initializer())
    defined.insert(tensor.name());
  for (const auto &tensor : graph.sparse_initializer())
    defined.insert(tensor.values().name());
  for (const auto &node : graph.node())
    for (const std::string &output : node.output())
      defined.insert(output);
  std::vector<std::string> names;
  auto use = [&](const std::string &name) {
    if (!name.empty() && !defined.count(name) && seen.insert(name).second)
      names.push_back(name);
  };
  for (const auto &node : graph.node()) {
    for (const std::string &input : node.input())
      use(input);
    forSubgraphs(node, [&](const onnx::GraphProto &g) {
      const std::vector<std::string> inner = of(g); // a copy: recursion may move the table
      for (const std::string &name : inner)
        use(name);
    });
  }
  for (const auto &output : graph.output())
    use(output.name());
  return known_[&graph] = std::move(names);
}

std::vector<int> sortNodes(llvm::ArrayRef<const onnx::NodeProto *> nodes, FreeNames &freeNames,
                           std::vector<int> &cycle) {
  llvm::StringMap<int> definer;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i]->output())
      if (!output.empty())
        definer.insert({output, int(i)});

  std::vector<std::vector<int>> users(nodes.size());
  std::vector<int> waiting(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto use = [&](const std::string &name) {
      auto it = definer.find(name);
      if (it == definer.end())
        return;
      users[size_t(it->second)].push_back(int(i));
      ++waiting[i];
    };
    for (const std::string &input : nodes[i]->input())
      use(input);
    forSubgraphs(*nodes[i], [&](const onnx::GraphProto &g) {
      for (const std::string &name : freeNames.of(g))
        use(name);
    });
  }

  // The smallest position first: a sorted file keeps its order.
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0)
      ready.push(int(i));
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int user : users[size_t(i)])
      if (--waiting[size_t(user)] == 0)
        ready.push(user);
  }
  if (order.size() == nodes.size())
    return order;
  // What is left waits on a cycle or stands in one: drop what merely waits, users first.
  std::vector<int> used(nodes.size(), 0), idle;
  std::vector<std::vector<int>> sources(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (int user : users[i])
      if (waiting[i] != 0 && waiting[size_t(user)] != 0) {
        ++used[i];
        sources[size_t(user)].push_back(int(i));
      }
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] != 0 && used[i] == 0)
      idle.push_back(int(i));
  while (!idle.empty()) {
    const int i = idle.back();
    idle.pop_back();
    waiting[size_t(i)] = 0;
    for (int source : sources[size_t(i)])
      if (--used[size_t(source)] == 0)
        idle.push_back(source);
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] != 0)
      cycle.push_back(int(i));
  return {};
}

} // namespace tenon::frontend

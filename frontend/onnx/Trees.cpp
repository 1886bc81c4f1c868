// Implements the walk through tree ensembles: all rows walk all trees side by side, one level a
// step. Leaves lead to themselves, so rows that arrive early wait.
#include "frontend/onnx/Trees.h"

#include <algorithm>
#include <cmath>

namespace tenon::frontend {
namespace {

/// Levels below the deepest root; None where nodes lead in circles or nowhere.
llvm::Optional<int64_t> depthOf(const Ensemble &e) {
  std::vector<int64_t> level = e.roots;
  for (size_t depth = 0; depth <= e.nodes.size(); ++depth) {
    std::vector<int64_t> next;
    for (int64_t i : level) {
      if (i < 0 || i >= int64_t(e.nodes.size()))
        return llvm::None;
      const TreeNode &node = e.nodes[size_t(i)];
      if (!node.isLeaf) {
        next.push_back(node.holds);
        next.push_back(node.fails);
      }
    }
    if (next.empty())
      return int64_t(depth);
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level = std::move(next);
  }
  return llvm::None;
}

class Walk {
public:
  Walk(Node &n, const Ensemble &e, Value *x) : n_(n), b_(n.b), e_(e), x_(x) {}

  /// The sums of the leaves that the rows of x reach: [rows, targets]; null after an error.
  Value *run(int64_t depth) {
    const Dim rows = x_->type().dim(0);
    Value *at = b_.broadcastTo(b_.constant(Tensor::fromInts(e_.roots)),
                               {rows, n_.dim(int64_t(e_.roots.size()))});
    for (int64_t level = 0; level < depth && at; ++level)
      at = step(at);
    return at ? leaves(at) : nullptr;
  }

private:
  using Get = llvm::function_ref<double(const TreeNode &)>;
  Value *table(Element type, Get get) {
    Tensor t(type, {int64_t(e_.nodes.size())});
    for (size_t i = 0; i < e_.nodes.size(); ++i)
      t.set(int64_t(i), get(e_.nodes[i]));
    return b_.constant(t);
  }
  Value *pick(Value *table, Value *at) {
    return table ? b_.value(Op::Gather, {table, at}, {{"axis", int64_t(0)}}) : nullptr;
  }

  Value *step(Value *at) {
    const Element e = x_->type().element();
    const int64_t features = x_->type().dim(1).constant();
    Value *feature =
        pick(table(Element::I64, [](const TreeNode &t) { return double(t.feature); }), at);
    Value *place = feature ? pointwise(b_, {feature},
                                       [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                         Value *row = s(Op::Mul, s.index(0),
                                                        s.b.scalarInt(Element::I64, features));
                                         return s(Op::Add, row, a[0]);
                                       })
                           : nullptr;
    Value *value = place ? gatherLinear(b_, x_, place) : nullptr;
    Value *split = pick(table(e, [](const TreeNode &t) { return t.split; }), at);
    Value *holds = pick(table(Element::I64, [](const TreeNode &t) { return double(t.holds); }), at);
    Value *fails = pick(table(Element::I64, [](const TreeNode &t) { return double(t.fails); }), at);
    if (!value || !split || !holds || !fails)
      return nullptr;
    llvm::SmallVector<Value *, 8> operands{value, split, holds, fails};
    auto use = [&](Value *v) {
      operands.push_back(v);
      return operands.size() - 1;
    };
    // What all nodes have in common needs no table.
    std::vector<Test> tests;
    bool missing = false;
    for (const TreeNode &t : e_.nodes)
      if (!t.isLeaf) {
        missing |= t.missingHolds;
        if (!llvm::is_contained(tests, t.test))
          tests.push_back(t.test);
      }
    const size_t atTest =
        tests.size() > 1
            ? use(pick(table(Element::I64, [](const TreeNode &t) { return double(t.test); }), at))
            : 0;
    const size_t atMissing =
        missing ? use(pick(table(Element::Bool,
                                 [](const TreeNode &t) { return double(t.missingHolds); }),
                           at))
                : 0;
    const size_t atMember = llvm::is_contained(tests, Test::Member) ? use(isMember(value, at)) : 0;
    if (llvm::is_contained(operands, nullptr))
      return nullptr;
    return pointwise(b_, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      auto test = [&](Test t) -> Value * {
        constexpr Op ops[] = {Op::LessEqual, Op::Less,  Op::GreaterEqual,
                              Op::Greater,   Op::Equal, Op::NotEqual};
        return t == Test::Member ? a[atMember] : s(ops[size_t(t)], a[0], a[1]);
      };
      Value *outcome = test(tests[0]);
      for (size_t i = 1; i < tests.size(); ++i)
        outcome = s(Op::Select, s(Op::Equal, a[atTest], s.c(Element::I64, double(tests[i]))),
                    test(tests[i]), outcome);
      if (atMissing)
        outcome = s(Op::LogicalOr, outcome, s(Op::LogicalAnd, s(Op::IsNaN, a[0]), a[atMissing]));
      return s(Op::Select, outcome, a[2], a[3]);
    });
  }

  /// Whether each value is one of its node's members.
  Value *isMember(Value *value, Value *at) {
    size_t most = 1;
    for (const TreeNode &t : e_.nodes)
      most = std::max(most, t.members.size());
    // Rows are filled up with NaN, which nothing equals.
    Tensor sets(value->type().element(), {int64_t(e_.nodes.size()), int64_t(most)});
    for (size_t i = 0; i < e_.nodes.size(); ++i)
      for (size_t k = 0; k < most; ++k)
        sets.set(int64_t(i * most + k),
                 k < e_.nodes[i].members.size() ? e_.nodes[i].members[k] : NAN);
    Value *candidates = pick(b_.constant(sets), at); // [rows, trees, members]
    Value *same = candidates ? pointwise(b_, {value, candidates}, {{0, 1}, {0, 1, 2}},
                                         candidates->type().shape(),
                                         [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                           return s(Op::Equal, a[0], a[1]);
                                         })
                             : nullptr;
    return same ? b_.reduce(Op::LogicalOr, same, {2}, 0) : nullptr;
  }

  Value *leaves(Value *at) {
    const bool picks = e_.aggregate == Aggregate::Min || e_.aggregate == Aggregate::Max;
    const double absent = !picks ? 0 : e_.aggregate == Aggregate::Min ? INFINITY : -INFINITY;
    Tensor weights(x_->type().element(), {int64_t(e_.nodes.size()), e_.targets});
    for (size_t i = 0; i < e_.nodes.size(); ++i)
      for (int64_t t = 0; t < e_.targets; ++t)
        weights.set(int64_t(i) * e_.targets + t, absent);
    for (size_t i = 0; i < e_.nodes.size(); ++i)
      for (auto &[target, weight] : e_.nodes[i].weights) {
        const int64_t place = int64_t(i) * e_.targets + target;
        weights.set(place, picks ? weight : weights.at(place) + weight);
      }
    Value *each = pick(b_.constant(weights), at); // [rows, trees, targets]
    if (!each)
      return nullptr;
    if (!picks) {
      Value *total = sum(b_, each, {1});
      const double trees = double(e_.roots.size());
      return e_.aggregate == Aggregate::Sum
                 ? total
                 : pointwise(b_, {total}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     return s(Op::Div, a[0], s.c(trees));
                   });
    }
    // A target that no tree has an opinion on stays 0.
    Value *best = b_.reduce(e_.aggregate == Aggregate::Min ? Op::Min : Op::Max, each, {1}, absent);
    return best ? pointwise(b_, {best},
                            [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                              return s(Op::Select, s(Op::Equal, a[0], s.c(absent)), s.c(0), a[0]);
                            })
                : nullptr;
  }

  Node &n_;
  Builder &b_;
  const Ensemble &e_;
  Value *x_;
};

} // namespace

Value *treeScores(Node &n, const Ensemble &e) {
  Value *x = n.input(0);
  if (!n.checkRank(0, 1, 2))
    return nullptr;
  if (n.rank(0) == 1)
    x = n.b.reshape(x, {n.dim(1), x->type().dim(0)});
  if (x && !isFloat(x->type().element()))
    x = n.b.cast(x, Element::F32);
  if (!x)
    return nullptr;
  const auto depth = depthOf(e);
  const Dim features = x->type().dim(1);
  if (!depth || !features.isConstant())
    return n.error(!depth ? "nodes of the trees lead in circles or to no node"
                          : "expected a known number of features, found " + toString(x->type()));
  constexpr int64_t kMostWeights = 1 << 28; // a wrong number must not claim all memory
  if (e.targets < 1 || e.targets > kMostWeights / std::max<int64_t>(1, int64_t(e.nodes.size())))
    return n.error("expected 1 target and at most " + std::to_string(kMostWeights) +
                   " weights of leaves, found " + std::to_string(e.targets) + " targets of " +
                   std::to_string(e.nodes.size()) + " nodes");
  for (const TreeNode &t : e.nodes) {
    if (t.feature < 0 || t.feature >= features.constant())
      return n.error("a node tests feature " + std::to_string(t.feature) + " of " +
                     text({features}, ""));
    for (auto &[target, weight] : t.weights)
      if (target < 0 || target >= e.targets)
        return n.error("a leaf names target " + std::to_string(target) + " of " +
                       std::to_string(e.targets));
  }
  Value *scores = Walk(n, e, x).run(*depth);
  if (scores && !e.base.empty()) {
    if (e.base.size() != 1 && int64_t(e.base.size()) != e.targets)
      return n.error("attribute base_values: expected " + std::to_string(e.targets) +
                     " numbers, found " + std::to_string(e.base.size()));
    Tensor base(x->type().element(), {int64_t(e.base.size())});
    base.fromDoubles(0, base.size(), e.base.data());
    scores = n.b.pointwise(Op::Add, {scores, n.b.constant(base)});
  }
  return scores;
}

} // namespace tenon::frontend

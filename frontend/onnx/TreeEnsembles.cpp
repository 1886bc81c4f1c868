// Imports the tree ensembles of ai.onnx.ml from the three forms in which attributes hold them.
#include "frontend/onnx/Trees.h"

#include <map>

namespace tenon::frontend {
namespace {

constexpr const char *kTests[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                  "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};
constexpr const char *kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};

/// An attribute of numbers, or its form <name>_as_tensor, which keeps doubles.
Floats numbers(Node &n, const std::string &name) {
  if (auto t = n.tensorAttr(name + "_as_tensor")) {
    Floats values(size_t(t->size()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = t->at(int64_t(i));
    return values;
  }
  return n.floatsAttr(name);
}

bool hasOneTarget(const Ensemble &e) {
  llvm::Optional<int64_t> only;
  for (const TreeNode &node : e.nodes)
    for (auto &[target, weight] : node.weights) {
      if (only && *only != target)
        return false;
      only = target;
    }
  return only.hasValue();
}

} // namespace

void importTreeEnsemble(Node &n) {
  const Ints features = n.intsAttr("nodes_featureids"), holds = n.intsAttr("nodes_truenodeids"),
             fails = n.intsAttr("nodes_falsenodeids"), holdsLeaf = n.intsAttr("nodes_trueleafs"),
             failsLeaf = n.intsAttr("nodes_falseleafs"),
             missing = n.intsAttr("nodes_missing_value_tracks_true"),
             targets = n.intsAttr("leaf_targetids");
  const auto modes = n.tensorAttr("nodes_modes"), splits = n.tensorAttr("nodes_splits"),
             weights = n.tensorAttr("leaf_weights");
  const size_t inner = features.size();
  if (!modes || !splits || !weights || holds.size() != inner || fails.size() != inner ||
      holdsLeaf.size() != inner || failsLeaf.size() != inner || size_t(modes->size()) != inner ||
      size_t(splits->size()) != inner || size_t(weights->size()) != targets.size() ||
      (!missing.empty() && missing.size() != inner)) {
    n.error("expected attributes nodes_… of one length, and leaf_weights like leaf_targetids");
    return;
  }
  Ensemble e;
  e.roots = n.intsAttr("tree_roots");
  e.targets = n.intAttr("n_targets", 1);
  const int64_t aggregate = n.intAttr("aggregate_function", 1),
                transform = n.intAttr("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    n.error("attributes aggregate_function and post_transform: expected 0 to 3 and 0 to 4, found " +
            std::to_string(aggregate) + " and " + std::to_string(transform));
    return;
  }
  e.aggregate = Aggregate(aggregate);
  // Leaves stand behind the inner nodes; -1 where an id names none.
  auto place = [&](int64_t id, bool leaf) {
    if (id < 0 || id >= int64_t(leaf ? targets.size() : inner))
      return int64_t(-1);
    return id + (leaf ? int64_t(inner) : 0);
  };
  // Members of set tests follow each other, a NaN behind each set.
  int64_t member = 0;
  const auto members = n.tensorAttr("membership_values");
  for (size_t i = 0; i < inner; ++i) {
    TreeNode node;
    const int64_t mode = modes->intAt(int64_t(i));
    if (mode < 0 || mode > int64_t(Test::Member)) {
      n.error("attribute nodes_modes: expected 0 to 6, found " + std::to_string(mode));
      return;
    }
    node.test = Test(mode);
    node.feature = features[i];
    node.split = splits->at(int64_t(i));
    node.missingHolds = !missing.empty() && missing[i];
    node.holds = place(holds[i], holdsLeaf[i]);
    node.fails = place(fails[i], failsLeaf[i]);
    if (node.test == Test::Member)
      for (; members && member < members->size(); ++member) {
        const double v = members->at(member);
        if (v != v) {
          ++member;
          break;
        }
        node.members.push_back(v);
      }
    e.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    TreeNode leaf;
    leaf.isLeaf = true;
    leaf.holds = leaf.fails = int64_t(e.nodes.size());
    leaf.weights.push_back({targets[i], weights->at(int64_t(i))});
    e.nodes.push_back(std::move(leaf));
  }
  Value *scores = treeScores(n, e);
  n.set(0, scores ? transformed(n, scores, Transform(transform)) : nullptr);
}

namespace {

/// The place of a node by tree and id.
using Places = std::map<std::pair<int64_t, int64_t>, int64_t>;

/// Nodes and roots from the attributes nodes_…; false after an error.
bool readNodes(Node &n, Ensemble &e, Places &places) {
  const Ints trees = n.intsAttr("nodes_treeids"), ids = n.intsAttr("nodes_nodeids"),
             features = n.intsAttr("nodes_featureids"), holds = n.intsAttr("nodes_truenodeids"),
             fails = n.intsAttr("nodes_falsenodeids"),
             missing = n.intsAttr("nodes_missing_value_tracks_true");
  const Floats splits = numbers(n, "nodes_values");
  const Strings modes = n.stringsAttr("nodes_modes");
  const size_t count = ids.size();
  if (trees.size() != count || features.size() != count || holds.size() != count ||
      fails.size() != count || splits.size() != count || modes.size() != count ||
      (!missing.empty() && missing.size() != count)) {
    n.error("expected attributes nodes_… of one length");
    return false;
  }
  for (size_t i = 0; i < count; ++i)
    places[{trees[i], ids[i]}] = int64_t(i);
  auto place = [&](int64_t tree, int64_t id) {
    const auto found = places.find({tree, id});
    return found == places.end() ? int64_t(-1) : found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    TreeNode node;
    node.isLeaf = modes[i] == "LEAF";
    node.holds = node.fails = int64_t(i);
    if (!node.isLeaf) {
      auto test = byName<Test>(n, modes[i], kTests);
      if (!test)
        return false;
      node.test = *test;
      node.feature = features[i];
      node.split = splits[i];
      node.missingHolds = !missing.empty() && missing[i];
      node.holds = place(trees[i], holds[i]);
      node.fails = place(trees[i], fails[i]);
      if (node.test == Test::Member)
        node.members.push_back(node.split);
    }
    if (i == 0 || trees[i] != trees[i - 1]) // a tree starts with its root
      e.roots.push_back(int64_t(i));
    e.nodes.push_back(std::move(node));
  }
  return true;
}

/// The ensemble that the attributes nodes_…, base_values and <kind>_… describe; None after an
/// error.
llvm::Optional<Ensemble> readEnsemble(Node &n, const std::string &kind, int64_t targets) {
  Ensemble e;
  Places places;
  e.targets = targets;
  e.base = numbers(n, "base_values");
  if (!readNodes(n, e, places))
    return llvm::None;
  const Ints trees = n.intsAttr(kind + "_treeids"), nodes = n.intsAttr(kind + "_nodeids"),
             ids = n.intsAttr(kind + "_ids");
  const Floats weights = numbers(n, kind + "_weights");
  if (weights.size() != ids.size() || trees.size() != ids.size() || nodes.size() != ids.size()) {
    n.error("expected attributes " + kind + "_… of one length");
    return llvm::None;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto leaf = places.find({trees[i], nodes[i]});
    if (leaf == places.end()) {
      n.error("a weight belongs to node " + std::to_string(nodes[i]) + " of tree " +
              std::to_string(trees[i]) + ", which is not there");
      return llvm::None;
    }
    e.nodes[size_t(leaf->second)].weights.push_back({ids[i], weights[i]});
  }
  return e;
}

} // namespace

void importTreeEnsembleRegressor(Node &n) {
  auto e = readEnsemble(n, "target", n.intAttr("n_targets", 1));
  auto aggregate = byName<Aggregate>(n, n.stringAttr("aggregate_function", "SUM"), kAggregates);
  auto transform = postTransform(n);
  if (!e || !aggregate || !transform)
    return;
  e->aggregate = *aggregate;
  Value *scores = treeScores(n, *e);
  n.set(0, scores ? transformed(n, scores, *transform) : nullptr);
}

void importTreeEnsembleClassifier(Node &n) {
  enum { Label, Scores };
  const auto labels = classLabels(n, "classlabels_int64s");
  const auto transform = postTransform(n);
  auto e = labels ? readEnsemble(n, "class", labels->size()) : llvm::None;
  if (!e || !transform)
    return;
  // All weights may belong to one of two classes: they are the second's score p. Where it is the
  // second, the first has 0; where it is the first, the first has what is left: 1 − p of a chance,
  // else −p, and only LOGISTIC changes them, to those of −p and p.
  // Two base values are a score of each class of its own.
  const bool shared = e->targets == 2 && e->base.size() < 2 && hasOneTarget(*e);
  bool positive = true;  // the score is a chance
  bool ofSecond = false; // the weights are named as the second class's
  if (shared) {
    e->targets = 1;
    for (TreeNode &node : e->nodes)
      for (auto &[target, weight] : node.weights) {
        ofSecond |= target == 1;
        target = 0;
        positive &= weight >= 0;
      }
  }
  Value *scores = treeScores(n, *e);
  if (!scores)
    return;
  if (!shared) {
    n.set(Label, labelOfBest(n, scores, *labels));
    n.set(Scores, transformed(n, scores, *transform));
    return;
  }
  const double least = positive ? 0.5 : 0;
  Value *place = pointwise(n.b, {scores}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s.cast(s(Op::Greater, a[0], s.c(least)), Element::I64);
  });
  // What onnxruntime leaves of PROBIT for the first class is no number.
  const bool complement = !ofSecond && *transform != Transform::Probit;
  const bool logistic = *transform == Transform::Logistic;
  Value *first = pointwise(n.b, {scores}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return complement ? s(Op::Sub, s.c(positive && !logistic ? 1 : 0), a[0]) : s.c(0);
  });
  Value *both = first ? n.b.value(Op::Concat, {first, scores}, {{"axis", int64_t(1)}}) : nullptr;
  n.set(Label, labelAt(n, place, *labels));
  n.set(Scores, both && (!complement || logistic) ? transformed(n, both, *transform) : both);
}

} // namespace tenon::frontend

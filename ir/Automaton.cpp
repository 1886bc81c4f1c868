// Implements compileRegex: the tree of a pattern becomes an automaton of many states at a time
// (Thompson), that one of one state at a time (subsets), and that one of the fewest states
// (Hopcroft).
//
// Code points are spelled in UTF-8 on the way, so that a step takes a byte. Assertions look at the
// byte before and the byte behind: a state knows what kind of byte came last, and an assertion is
// decided when the next byte is.
#include "ir/Regex.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tenon {
namespace {

constexpr size_t kMostNodes = 50000, kMostStates = 4096, kMostSteps = 100'000'000;

/// What assertions tell apart; Edge is before the first byte, or behind the last one.
enum Side : uint8_t { Edge, Newline, WordByte, Other };

Side sideOf(unsigned byte) {
  const bool word = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
                    (byte >= 'a' && byte <= 'z');
  return byte == '\n' ? Newline : word ? WordByte : Other;
}

bool holds(RegexNode::Place place, Side before, Side behind) {
  switch (place) {
  case RegexNode::TextBegin: return before == Edge;
  case RegexNode::TextEnd: return behind == Edge;
  case RegexNode::LineBegin: return before == Edge || before == Newline;
  case RegexNode::LineEnd: return behind == Edge || behind == Newline;
  case RegexNode::Word: return (before == WordByte) != (behind == WordByte);
  case RegexNode::NoWord: return (before == WordByte) == (behind == WordByte);
  }
  return false;
}

/// The automaton of many states at a time, built from its end: each part knows what follows it.
class Nodes {
public:
  struct Node {
    enum Kind : uint8_t { Byte, Split, Assert, Match } kind;
    uint8_t low = 0, high = 0;
    RegexNode::Place place = RegexNode::TextBegin;
    std::vector<int> next;
  };

  Nodes(const RegexNode &pattern) {
    const int end = add({Node::Match, 0, 0, {}, {}});
    start = build(pattern, end);
  }

  std::vector<Node> all;
  int start = 0;
  bool asserts = false;
  bool full() const { return all.size() >= kMostNodes; }

private:
  int add(Node n) {
    if (full())
      return 0; // the caller gives up
    all.push_back(std::move(n));
    return int(all.size()) - 1;
  }

  int build(const RegexNode &r, int next) {
    if (full())
      return 0;
    switch (r.kind) {
    case RegexNode::Set: return set(r, next);
    case RegexNode::Sequence:
      for (size_t i = r.parts.size(); i-- > 0;)
        next = build(*r.parts[i], next);
      return next;
    case RegexNode::Choice: {
      Node split{Node::Split, 0, 0, {}, {}};
      for (const auto &part : r.parts)
        split.next.push_back(build(*part, next));
      return add(std::move(split));
    }
    case RegexNode::Repeat: return repeat(r, next);
    case RegexNode::Assertion:
      asserts = true;
      return add({Node::Assert, 0, 0, r.assertion, {next}});
    }
    return next;
  }

  int repeat(const RegexNode &r, int next) {
    const RegexNode &part = *r.parts[0];
    int optional = r.most - r.least;
    if (r.most < 0) { // again, or on
      const int again = add({Node::Split, 0, 0, {}, {next}});
      const int once = build(part, again);
      all[size_t(again)].next.push_back(once);
      next = again;
    }
    const int end = next;
    for (; r.most >= 0 && optional > 0 && !full(); --optional)
      next = add({Node::Split, 0, 0, {}, {end, build(part, next)}});
    for (int i = 0; i < r.least && !full(); ++i)
      next = build(part, next);
    return next;
  }

  int set(const RegexNode &r, int next) {
    Node split{Node::Split, 0, 0, {}, {}};
    for (auto [low, high] : r.ranges)
      spell(low, high, next, split.next);
    return split.next.size() == 1 ? split.next[0] : add(std::move(split));
  }

  /// The sequences of byte ranges that spell the code points from `low` to `high`: where all digits
  /// of 6 bits behind some digit are free, or two numbers differ in one digit only, each digit has
  /// a range of its own.
  void spell(uint32_t low, uint32_t high, int next, std::vector<int> &starts) {
    for (uint32_t last : {0x7fu, 0x7ffu, 0xd7ffu, 0xdfffu, 0xffffu}) // lengths, and surrogates
      if (low <= last && high > last) {
        spell(low, last, next, starts);
        return spell(last + 1, high, next, starts);
      }
    if (low >= 0xd800 && high <= 0xdfff)
      return;
    const int trailing = low <= 0x7f ? 0 : low <= 0x7ff ? 1 : low <= 0xffff ? 2 : 3;
    for (int k = 1; k <= trailing; ++k) {
      const uint32_t digits = (1u << 6 * k) - 1;
      if ((low & ~digits) == (high & ~digits))
        break;
      if ((low & digits) != 0) {
        spell(low, low | digits, next, starts);
        return spell((low | digits) + 1, high, next, starts);
      }
      if ((high & digits) != digits) {
        spell(low, (high & ~digits) - 1, next, starts);
        return spell(high & ~digits, high, next, starts);
      }
    }
    for (int k = 0; k <= trailing; ++k) {
      const bool first = k == trailing;
      const uint32_t mark = !first ? 0x80 : trailing == 0 ? 0 : 0xffu << (7 - trailing) & 0xff;
      const uint32_t digit = first ? ~0u : 0x3f;
      next = byte(mark | (low >> 6 * k & digit), mark | (high >> 6 * k & digit), next);
    }
    starts.push_back(next);
  }
  int byte(uint32_t low, uint32_t high, int next) {
    auto [it, fresh] = bytes_.insert({{low, high, next}, 0});
    if (fresh)
      it->second = add({Node::Byte, uint8_t(low), uint8_t(high), {}, {next}});
    return it->second;
  }

  std::map<std::tuple<uint32_t, uint32_t, int>, int> bytes_; // equal ones once
};

/// Subsets of nodes as states.
class Subsets {
public:
  explicit Subsets(const Nodes &nodes) : nodes_(nodes), marked_(nodes.all.size(), 0) {}

  bool run(Automaton &a) {
    classify(a);
    state({}, Other);
    state({nodes_.start}, nodes_.asserts ? Edge : Other);
    for (size_t s = 0; s < keys_.size(); ++s) {
      const std::vector<int> core = keys_[s]->first.first;
      const Side before = keys_[s]->first.second;
      closure(core, before, Edge);
      a.accepts.push_back(matched_);
      for (const auto &classes : classes_) {
        closure(core, before, classes.first);
        for (const unsigned c : classes.second) {
          std::vector<int> targets;
          for (int n : steppable_) {
            const Nodes::Node &node = nodes_.all[size_t(n)];
            if (first_[c] >= node.low && first_[c] <= node.high)
              targets.push_back(node.next[0]);
          }
          std::sort(targets.begin(), targets.end());
          targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
          const Side side = targets.empty() ? Other : classes.first;
          steps_ += targets.size();
          next_[c] = uint16_t(state(std::move(targets), side));
        }
      }
      a.next.insert(a.next.end(), next_.begin(), next_.end());
      if (keys_.size() > kMostStates || steps_ > kMostSteps)
        return false;
    }
    return true;
  }

private:
  using Key = std::pair<std::vector<int>, Side>;

  /// Bytes that all nodes and assertions treat alike.
  void classify(Automaton &a) {
    std::array<bool, 257> cut{};
    for (const Nodes::Node &n : nodes_.all)
      if (n.kind == Nodes::Node::Byte)
        cut[n.low] = cut[n.high + 1u] = true;
    for (unsigned b = 1; b < 256 && nodes_.asserts; ++b)
      cut[b] = cut[b] || sideOf(b) != sideOf(b - 1);
    first_.push_back(0);
    for (unsigned b = 1; b < 256; ++b) {
      if (cut[b])
        first_.push_back(b);
      a.classOf[b] = uint8_t(first_.size() - 1);
    }
    a.classes = unsigned(first_.size());
    next_.resize(a.classes);
    for (unsigned c = 0; c < a.classes; ++c)
      classes_[nodes_.asserts ? sideOf(first_[c]) : Other].push_back(c);
  }

  size_t state(std::vector<int> core, Side before) {
    auto [it, fresh] = ids_.insert({{std::move(core), before}, keys_.size()});
    if (fresh)
      keys_.push_back(it);
    return it->second;
  }

  /// All nodes that the core reaches without a byte.
  void closure(const std::vector<int> &core, Side before, Side behind) {
    ++round_;
    reached_.clear();
    steppable_.clear();
    matched_ = false;
    auto visit = [&](int n) {
      if (marked_[size_t(n)] != round_) {
        marked_[size_t(n)] = round_;
        reached_.push_back(n);
      }
    };
    for (int n : core)
      visit(n);
    for (size_t i = 0; i < reached_.size(); ++i) {
      const Nodes::Node &node = nodes_.all[size_t(reached_[i])];
      matched_ |= node.kind == Nodes::Node::Match;
      if (node.kind == Nodes::Node::Byte)
        steppable_.push_back(reached_[i]);
      if (node.kind == Nodes::Node::Split ||
          (node.kind == Nodes::Node::Assert && holds(node.place, before, behind)))
        for (int n : node.next)
          visit(n);
    }
    steps_ += reached_.size();
  }

  const Nodes &nodes_;
  std::vector<unsigned> first_;                   // a byte of each class
  std::map<Side, std::vector<unsigned>> classes_; // those that assertions treat alike
  std::vector<uint16_t> next_;                    // of a state, by class
  std::map<Key, size_t> ids_;
  std::vector<std::map<Key, size_t>::const_iterator> keys_;
  std::vector<size_t> marked_;
  std::vector<int> reached_, steppable_; // those of a byte
  bool matched_ = false;
  size_t round_ = 0, steps_ = 0;
};

/// Blocks of states that no text tells apart (Hopcroft): a block splits where some of its states go
/// to another block by a class and others do not. The smaller part becomes a new block, which may
/// split others in turn, so that a state takes part a logarithmic number of times.
class Blocks {
public:
  explicit Blocks(const Automaton &a)
      : of(a.states(), 0), order_(a.states()),
        place_(a.states()), blocks_{{0, a.states()}}, waiting_{0} {
    std::iota(order_.begin(), order_.end(), 0);
    std::iota(place_.begin(), place_.end(), 0);
    for (unsigned s = 0; s < a.states(); ++s)
      if (a.accepts[s])
        mark(s);
    split();
    const Sources sources(a);
    while (!waiting_.empty()) {
      const Block by = blocks_[waiting_.back()];
      waiting_.pop_back();
      const std::vector<unsigned> states(order_.begin() + by.begin, order_.begin() + by.end);
      for (unsigned c = 0; c < a.classes; ++c) {
        for (unsigned s : states)
          for (unsigned source : sources.of(s, c))
            mark(source);
        split();
      }
    }
  }

  std::vector<unsigned> of; // by state

private:
  struct Block {
    unsigned begin, end; // in order_
    unsigned marked = 0; // its first states, as many
  };

  /// The states that go to a state by a class.
  class Sources {
  public:
    explicit Sources(const Automaton &a) : classes_(a.classes), begin_(a.next.size() + 1, 0) {
      for (size_t i = 0; i < a.next.size(); ++i)
        ++begin_[at(a.next[i], i % classes_) + 1];
      std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
      states_.resize(a.next.size());
      std::vector<unsigned> end(begin_.begin(), begin_.end() - 1);
      for (size_t i = 0; i < a.next.size(); ++i)
        states_[end[at(a.next[i], i % classes_)]++] = unsigned(i / classes_);
    }
    llvm::ArrayRef<unsigned> of(unsigned state, unsigned c) const {
      const size_t i = at(state, c);
      return llvm::makeArrayRef(states_).slice(begin_[i], begin_[i + 1] - begin_[i]);
    }

  private:
    size_t at(size_t state, size_t c) const { return state * classes_ + c; }
    size_t classes_;
    std::vector<unsigned> begin_, states_;
  };

  /// Puts a state among the first ones of its block.
  void mark(unsigned s) {
    Block &b = blocks_[of[s]];
    const unsigned front = b.begin + b.marked;
    if (place_[s] < front)
      return;
    if (b.marked++ == 0)
      touched_.push_back(of[s]);
    const unsigned other = order_[front];
    std::swap(order_[front], order_[place_[s]]);
    std::swap(place_[s], place_[other]);
  }

  /// Marked states part from those of their blocks that are not.
  void split() {
    for (unsigned t : touched_) {
      Block &b = blocks_[t];
      const unsigned middle = b.begin + b.marked;
      b.marked = 0;
      if (middle == b.end)
        continue;
      Block part{b.begin, middle};
      if (middle - b.begin > b.end - middle) {
        part = {middle, b.end};
        b.end = middle;
      } else {
        b.begin = middle;
      }
      for (unsigned i = part.begin; i < part.end; ++i)
        of[order_[i]] = unsigned(blocks_.size());
      waiting_.push_back(unsigned(blocks_.size()));
      blocks_.push_back(part);
    }
    touched_.clear();
  }

  std::vector<unsigned> order_, place_; // states, those of a block together; where each stands
  std::vector<Block> blocks_;
  std::vector<unsigned> waiting_, touched_; // blocks by which to split, and with marked states
};

/// Merges states that no text tells apart, then classes that no state does.
Automaton minimized(const Automaton &a) {
  const std::vector<unsigned> block = Blocks(a).of;
  // One state of each block, in order of discovery: state 0, the first one, then what they lead to.
  std::vector<unsigned> kept{0, 1};
  std::map<unsigned, unsigned> number{{block[1], 1}};
  number[block[0]] = 0;
  for (size_t i = 0; i < kept.size(); ++i)
    for (unsigned c = 0; c < a.classes; ++c) {
      const unsigned t = a.next[kept[i] * a.classes + c];
      if (number.insert({block[t], unsigned(kept.size())}).second)
        kept.push_back(t);
    }
  Automaton out;
  std::map<std::vector<unsigned>, unsigned> columns;
  std::vector<unsigned> classOf;
  for (unsigned c = 0; c < a.classes; ++c) {
    std::vector<unsigned> column;
    column.reserve(kept.size());
    for (unsigned s : kept)
      column.push_back(number[block[a.next[s * a.classes + c]]]);
    classOf.push_back(columns.insert({std::move(column), unsigned(columns.size())}).first->second);
  }
  for (size_t b = 0; b < 256; ++b)
    out.classOf[b] = uint8_t(classOf[a.classOf[b]]);
  out.classes = unsigned(columns.size());
  out.next.resize(kept.size() * out.classes);
  for (const auto &[column, c] : columns)
    for (size_t s = 0; s < kept.size(); ++s)
      out.next[s * out.classes + c] = uint16_t(column[s]);
  for (unsigned s : kept)
    out.accepts.push_back(a.accepts[s]);
  return out;
}

} // namespace

bool Automaton::matches(llvm::StringRef text) const {
  size_t state = 1;
  for (const char c : text)
    state = next[state * classes + classOf[static_cast<unsigned char>(c)]];
  return accepts[state] != 0;
}

llvm::Optional<Automaton> compileRegex(llvm::StringRef pattern, std::string &why) {
  const auto tree = parseRegex(pattern, why);
  if (!tree)
    return llvm::None;
  const Nodes nodes(*tree);
  Automaton a;
  if (nodes.full() || !Subsets(nodes).run(a)) {
    why = "'" + pattern.str() + "' needs an automaton of more than " + std::to_string(kMostStates) +
          " states";
    return llvm::None;
  }
  return minimized(a);
}

} // namespace tenon

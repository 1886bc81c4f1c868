// Implements the reading of a decoder's interface.
//
//   input_ids [batch, S]                                tokens
//   past_key_values.0.key [batch, heads, T, width]  ┐
//   present.0.key [batch, heads, T + S, width]      ┘  a cache, which grows along its axis 2
//   attention_mask, position_ids, …                     follow from T and S: computed
//   logits [batch, S, vocabulary]
//
// Pairs of past and present are found by their names without the words that say which of the two it
// is, and by their types. What is new behind the caches is one sequence without padding. Where all
// that is carried is replaced (Mamba, RWKV), the tokens themselves are the cache that grows, so
// that such a program has a length as others have.
#include "frontend/Decoder.h"

#include "frontend/Extents.h"
#include "frontend/LastRow.h"
#include "frontend/PositionTables.h"
#include "frontend/Signature.h"
#include "frontend/onnx/Operators.h"
#include "ir/BornExtents.h"
#include "ir/DecoderPorts.h"
#include "ir/Entries.h"
#include "ir/Names.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <array>
#include <set>

namespace tenon::frontend {
namespace {

/// A step takes at most so many tokens, whatever prompts are run in: one, and few enough for one or
/// two tiles of the kernels for few rows.
constexpr std::array<int64_t, 3> kStepRows = {1, 8, kStepTokens};

using Words = llvm::SmallVector<std::string, 6>;

/// The lower-case words of a name; a number is one, too.
Words wordsOf(llvm::StringRef name) {
  Words words;
  bool open = false;
  for (char c : name) {
    if (!llvm::isAlnum(c)) {
      open = false;
      continue;
    }
    const bool digit = llvm::isDigit(c);
    if (!open || digit != llvm::isDigit(words.back().back()))
      words.emplace_back();
    open = true;
    words.back() += llvm::toLower(c);
  }
  return words;
}

bool isAny(llvm::StringRef word, std::initializer_list<llvm::StringRef> words) {
  return llvm::is_contained(words, word);
}

/// What a cache is called on both sides: the words of its name, in order of the alphabet, without
/// those that say past or present. `past_key_values.0.key` and `present.0.key`: 0, key.
Words cacheName(llvm::StringRef name) {
  const Words all = wordsOf(name);
  Words words;
  for (size_t i = 0; i < all.size(); ++i) {
    llvm::StringRef word = all[i];
    const bool says = isAny(word, {"past", "present", "updated", "new", "next", "prev", "previous",
                                   "old", "in", "out", "input", "output", "cache"});
    if (says) { // the `key_values` of past_key_values is no part of the name, but where it ends it
      if (i + 3 < all.size() && isAny(all[i + 1], {"key", "k"}) &&
          isAny(all[i + 2], {"values", "v"}))
        i += 2;
      continue;
    }
    words.push_back(word == "keys" ? "key" : word == "values" ? "value" : word.str());
  }
  llvm::sort(words);
  return words;
}

bool isNumber(llvm::StringRef extent) {
  return !extent.empty() && llvm::all_of(extent, llvm::isDigit);
}

std::string shown(const DeclaredTensor &t) {
  std::string s = quoted(t.name) + " " + name(t.element).str() + " [";
  for (size_t d = 0; d < t.shape.size(); ++d)
    s += (d ? ", " : "") + (t.shape[d].empty() ? "?" : t.shape[d]);
  return s + "]";
}

class Reader {
public:
  Reader(const onnx::GraphProto &graph, llvm::ArrayRef<DeclaredTensor> inputs,
         llvm::ArrayRef<DeclaredTensor> outputs, const DecoderRequest &request,
         ImportOptions &options, Diagnostics &diagnostics)
      : graph_(graph), inputs_(inputs), outputs_(outputs), options_(options),
        diagnostics_(diagnostics) {
    found_.request = request;
  }

  bool run() {
    if (!findTokens() || !findPairs() || !findLengths() || !findLogits())
      return false;
    findFollowing();
    bindBatch();
    bindWidths();
    giveBounds();
    options_.decoder = std::move(found_);
    return true;
  }

private:
  /// An error that lists what there is.
  bool fail(const std::string &why) {
    Diagnostic &d = diagnostics_.error("--decoder: " + why);
    auto list = [&](const char *kind, llvm::ArrayRef<DeclaredTensor> tensors) {
      constexpr size_t most = 12;
      for (size_t i = 0; i < tensors.size() && i < most; ++i)
        d.notes.push_back(std::string(kind) + " " + shown(tensors[i]));
      if (tensors.size() > most)
        d.notes.push_back("and " + std::to_string(tensors.size() - most) + " more " + kind + "s");
    };
    list("input", inputs_);
    list("output", outputs_);
    return false;
  }

  /// How dimension `d` of an input is called.
  static std::string symbol(const DeclaredTensor &t, size_t d) {
    return t.shape[d].empty() ? anonymousName(t.name, d) : t.shape[d];
  }
  static bool isSymbol(const DeclaredTensor &t, size_t d) { return !isNumber(t.shape[d]); }
  bool isGiven(const std::string &symbol) const {
    return options_.bindDims.count(symbol) || options_.bindExtents.count(symbol) ||
           options_.ranges.count(symbol) || options_.bindDims.count(sanitizeName(symbol));
  }
  const DeclaredTensor *input(llvm::StringRef name) const {
    const auto *it =
        llvm::find_if(inputs_, [&](const DeclaredTensor &t) { return t.name == name; });
    return it == inputs_.end() ? nullptr : it;
  }

  //===--------------------------------------------------------------------===//
  // Tokens, logits
  //===--------------------------------------------------------------------===//

  /// What an input of this name and type is whose value follows; None for others.
  static llvm::Optional<Following> following(const DeclaredTensor &t) {
    const Words words = wordsOf(t.name);
    auto has = [&](llvm::StringRef w) { return llvm::is_contained(words, w); };
    const size_t rank = t.shape.size();
    if (has("encoder") || isOpaque(t.element))
      return llvm::None;
    if (has("attention") && has("mask") && (rank == 2 || rank == 4))
      return Following::Mask;
    if (isBool(t.element) && has("use") && has("cache"))
      return Following::CacheBranch;
    if (!isInteger(t.element))
      return llvm::None;
    if ((has("position") || has("positions")) &&
        (has("ids") || has("cache") || words.size() == 1) && rank >= 1 && rank <= 3)
      return Following::Positions;
    if (rank > 2)
      return llvm::None;
    if (has("seqlens") && has("k"))
      return Following::LastPosition;
    if (has("keep") && has("logits"))
      return Following::KeptLogits;
    const bool length = has("length") || has("len");
    if (length && has("total") && (has("sequence") || has("seq")))
      return Following::Total;
    if (length && has("past") && (has("sequence") || has("seq")))
      return Following::Length;
    return llvm::None;
  }

  bool findTokens() {
    std::vector<const DeclaredTensor *> ids, named;
    for (const DeclaredTensor &t : inputs_) {
      if (!isInteger(t.element) || t.shape.size() != 2 || following(t) || isState(t.name))
        continue;
      ids.push_back(&t);
      const Words words = wordsOf(t.name);
      if (llvm::is_contained(words, "ids") || llvm::is_contained(words, "tokens"))
        named.push_back(&t);
    }
    const auto &candidates = named.empty() ? ids : named;
    if (candidates.size() != 1)
      return fail(candidates.empty()
                      ? "expected an input of tokens, integers [batch, count] such as input_ids"
                      : "expected one input of tokens, found " + std::to_string(candidates.size()) +
                            ": make the others constants with --bind NAME=@FILE");
    tokens_ = candidates[0];
    found_.tokens = tokens_->name;
    if (!isSymbol(*tokens_, 0) && tokens_->shape[0] != "1")
      return fail("expected one sequence, found a batch of " + tokens_->shape[0] + " in " +
                  quoted(tokens_->name));
    if (isSymbol(*tokens_, 1))
      found_.count = symbol(*tokens_, 1);
    else if (tokens_->shape[1] != "1")
      return fail("expected any number of tokens in a run, or one, found " + tokens_->shape[1] +
                  " in " + quoted(tokens_->name));
    return true;
  }

  bool isState(llvm::StringRef input) const {
    return llvm::any_of(options_.states, [&](const ImportState &s) { return s.input == input; });
  }

  bool findLogits() {
    std::vector<const DeclaredTensor *> left, named;
    for (const DeclaredTensor &t : outputs_) {
      const bool carried =
          llvm::any_of(options_.states, [&](const ImportState &s) { return s.output == t.name; }) ||
          llvm::any_of(found_.caches, [&](const ImportState &s) { return s.output == t.name; });
      if (carried || !isFloat(t.element) || (t.hasShape && t.shape.size() != 3))
        continue;
      left.push_back(&t);
      if (llvm::is_contained(wordsOf(t.name), "logits"))
        named.push_back(&t);
    }
    const auto &candidates = named.empty() ? left : named;
    if (candidates.size() != 1)
      return fail("expected one output of logits [batch, count, vocabulary], found " +
                  std::to_string(candidates.size()));
    found_.logits = candidates[0]->name;
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Caches
  //===--------------------------------------------------------------------===//

  /// Axes along which past and present may differ by what is declared; None where their types
  /// cannot be those of one cache.
  static llvm::Optional<llvm::SmallVector<int64_t, 2>> differing(const DeclaredTensor &past,
                                                                 const DeclaredTensor &present) {
    llvm::SmallVector<int64_t, 2> axes;
    if (!present.hasShape)
      return axes;
    if (past.element != present.element || past.shape.size() != present.shape.size())
      return llvm::None;
    for (size_t d = 0; d < past.shape.size(); ++d) {
      const std::string &a = past.shape[d], &b = present.shape[d];
      if (isNumber(a) && isNumber(b) && a != b)
        return llvm::None;
      if (a.empty() || (a != b && !(isNumber(a) && b.empty())))
        axes.push_back(int64_t(d));
    }
    return axes;
  }

  static bool saysPast(llvm::StringRef name) {
    const Words words = wordsOf(name);
    return !words.empty() && words.front() == "past";
  }
  bool isCacheLike(const DeclaredTensor &t) const {
    return t.hasShape && t.shape.size() >= 3 && t.name != found_.tokens && !following(t) &&
           t.element != Element::String && t.container == Container::None;
  }

  /// Keys and values of an encoder's results, which no run of a decoder changes.
  static bool saysCross(llvm::StringRef name) {
    return llvm::any_of(wordsOf(name), [](llvm::StringRef w) {
      return isAny(w, {"cross", "crossattention", "encoder"});
    });
  }

  bool findPairs() {
    llvm::StringSet<> taken;
    for (const ImportState &s : options_.states)
      taken.insert(s.output);
    for (const DeclaredTensor &past : inputs_) {
      if (!isCacheLike(past) || isState(past.name))
        continue;
      if (saysCross(past.name)) {
        if (past.shape.size() >= 4)
          found_.given.push_back(past.name);
        continue;
      }
      const Words name = cacheName(past.name);
      std::vector<const DeclaredTensor *> matches;
      for (const DeclaredTensor &present : outputs_)
        if (!taken.count(present.name) && cacheName(present.name) == name &&
            differing(past, present))
          matches.push_back(&present);
      if (matches.empty() && saysPast(past.name))
        matches = byTypeAlone(past, taken);
      if (matches.size() > 1 || (matches.empty() && saysPast(past.name)))
        return ambiguous(past, matches);
      if (matches.empty())
        continue;
      taken.insert(matches[0]->name);
      found_.caches.push_back({past.name, matches[0]->name, llvm::None});
    }
    if (found_.caches.empty() && options_.states.empty())
      return fail("found no pair of past and present; say it with "
                  "'--state past=present:append@AXIS'");
    return true;
  }

  /// Outputs that could be `past`'s by their types, where their names say nothing.
  std::vector<const DeclaredTensor *> byTypeAlone(const DeclaredTensor &past,
                                                  const llvm::StringSet<> &taken) const {
    std::vector<const DeclaredTensor *> matches;
    for (const DeclaredTensor &present : outputs_) {
      if (taken.count(present.name) || !present.hasShape || present.shape.size() < 3 ||
          llvm::is_contained(wordsOf(present.name), "logits"))
        continue;
      const bool named = llvm::any_of(inputs_, [&](const DeclaredTensor &other) {
        return isCacheLike(other) && cacheName(other.name) == cacheName(present.name);
      });
      const auto axes = differing(past, present);
      if (!named && axes && axes->size() <= 2) // a batch, a length
        matches.push_back(&present);
    }
    return matches;
  }

  bool ambiguous(const DeclaredTensor &past, llvm::ArrayRef<const DeclaredTensor *> matches) {
    std::string names;
    for (const DeclaredTensor *m : matches)
      names += (names.empty() ? "" : ", ") + quoted(m->name);
    const std::string example = matches.empty() ? "OUTPUT" : matches[0]->name;
    return fail((matches.empty() ? "no output has name and type of the next "
                                 : "more than one output could be the next ") +
                quoted(past.name) + (names.empty() ? "" : ": " + names) + "; say it with " +
                quoted("--state " + past.name + "=" + example + ":append@" +
                       std::to_string(growing(past))));
  }

  /// The axis along which a cache grows by its own names, for examples.
  static int64_t growing(const DeclaredTensor &past) {
    for (size_t d = past.shape.size(); d-- > 0;)
      if (isSymbol(past, d) && saysLength(past.shape[d]))
        return int64_t(d);
    return std::max<int64_t>(0, int64_t(past.shape.size()) - 2);
  }
  static bool saysLength(llvm::StringRef extent) {
    const std::string lower = extent.lower();
    return llvm::any_of(
        std::initializer_list<llvm::StringRef>{"past", "seq", "len", "history"},
        [&](llvm::StringRef part) { return llvm::StringRef(lower).contains(part); });
  }

  /// Along which axis each cache grows, and what its length is called.
  bool findLengths() {
    std::vector<std::string> lengths;
    auto add = [&](const DeclaredTensor &past, int64_t axis) {
      const std::string length = symbol(past, size_t(axis));
      if (!llvm::is_contained(lengths, length))
        lengths.push_back(length);
    };
    for (ImportState &s : found_.caches) {
      const DeclaredTensor &past = *input(s.input);
      if (isWindow(s.input))
        continue;
      const DeclaredTensor &present =
          *llvm::find_if(outputs_, [&](const DeclaredTensor &t) { return t.name == s.output; });
      llvm::SmallVector<int64_t, 2> axes = *differing(past, present);
      llvm::erase_if(axes, [&](int64_t d) { return !isSymbol(past, size_t(d)); });
      if (axes.size() > 1) { // where nothing is named, a batch comes first
        const size_t batch = past.shape[0] == tokens_->shape[0] || !isNumber(past.shape[0]) ? 0 : 1;
        llvm::erase_if(axes, [&](int64_t d) {
          return size_t(d) == batch ||
                 (!past.shape[size_t(d)].empty() && past.shape[size_t(d)] == tokens_->shape[0]);
        });
      }
      if (axes.size() > 1)
        return fail("past and present differ along more than one axis: " + shown(past) + " and " +
                    shown(present) + "; say it with " +
                    quoted("--state " + s.input + "=" + s.output + ":append@" +
                           std::to_string(growing(past))));
      if (axes.empty())
        continue; // of one length: a window's, or of what no decoder appends to
      s.appendAxis = axes[0];
      add(past, axes[0]);
    }
    for (const ImportState &s : options_.states)
      if (const DeclaredTensor *past = input(s.input))
        if (const auto axis = s.axisOf(past->shape.size()); axis && isSymbol(*past, *axis))
          add(*past, *axis);
    if (lengths.empty())
      return carryText();
    found_.length = lengths[0];
    for (const std::string &other : llvm::makeArrayRef(lengths).drop_front())
      if (!isGiven(other))
        options_.bindExtents[other] = found_.length;
    return true;
  }

  /// What is carried is replaced in each run. Keys and values of a fixed length are written at
  /// places that follow from nothing here.
  bool carryText() {
    const auto isKeyOrValue = [](const ImportState &s) {
      const Words name = cacheName(s.input);
      return llvm::is_contained(name, "key") || llvm::is_contained(name, "value");
    };
    if (llvm::any_of(found_.caches, isKeyOrValue) || llvm::any_of(options_.states, isKeyOrValue))
      return fail("no cache grows: expected present to be longer than past along one axis; files "
                  "with caches of a fixed length take --bind and --state");
    std::set<std::string> taken;
    for (const auto &tensors : {inputs_, outputs_})
      for (const DeclaredTensor &t : tensors) {
        taken.insert(t.name);
        taken.insert(t.shape.begin(), t.shape.end());
      }
    const auto unused = [&](std::string name) {
      while (!taken.insert(name).second)
        name += "_";
      return name;
    };
    found_.text =
        ImportState{unused("past_" + tokens_->name), unused("present_" + tokens_->name), 1};
    found_.length = unused("past_length");
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Dimensions
  //===--------------------------------------------------------------------===//

  void findFollowing() {
    for (const DeclaredTensor &t : inputs_)
      if (!options_.constants.count(t.name) && !options_.bindDims.count(t.name) && !isState(t.name))
        if (const auto f = following(t))
          found_.following.push_back({t.name, *f});
  }

  void bind(const std::string &symbol, int64_t value) {
    if (isGiven(symbol) || symbol == found_.length || symbol == found_.count ||
        isExtentExpression(symbol))
      return;
    options_.bindDims[symbol] = value;
    found_.bound.push_back({symbol, value});
  }

  /// One sequence.
  void bindBatch() {
    if (isSymbol(*tokens_, 0))
      bind(symbol(*tokens_, 0), 1);
    for (const ImportState &s : found_.caches) {
      const DeclaredTensor &past = *input(s.input);
      for (size_t d = 0; d < 2 && d < past.shape.size(); ++d)
        if (past.shape[d].empty() && s.appendAxis != int64_t(d)) {
          bind(symbol(past, d), 1);
          break;
        }
    }
  }

  /// Extents of caches that the nodes which read them say: the width of a head, a window's rows. A
  /// cache of a window's rows is written one token at a time.
  void bindWidths() {
    for (const onnx::NodeProto &node : graph_.node())
      if (readsCaches(node))
        for (int k : {3, 4})
          if (const DeclaredTensor *past = input(node.input(k)); past && past->shape.size() == 4) {
            if (keepsWindow(node)) {
              const int64_t window = attribute(node, "local_window_size", -1);
              if (isSymbol(*past, 2) && window > 0)
                bind(symbol(*past, 2), window);
              if (!found_.count.empty() && !isGiven(found_.count)) {
                options_.bindDims[found_.count] = 1;
                found_.bound.push_back({found_.count, 1});
              }
            }
            if (isSymbol(*past, 3))
              if (const int64_t width = headWidth(node))
                bind(symbol(*past, 3), width);
          }
  }

  bool isWindow(llvm::StringRef cache) const {
    return llvm::any_of(graph_.node(), [&](const onnx::NodeProto &node) {
      return readsCaches(node) && keepsWindow(node) &&
             (cache == node.input(3) || cache == node.input(4));
    });
  }
  static bool readsCaches(const onnx::NodeProto &node) {
    return node.op_type() == "GroupQueryAttention" && node.input_size() > 4;
  }
  /// Whether the caches of such a node hold the rows of its window alone.
  static bool keepsWindow(const onnx::NodeProto &node) {
    return attribute(node, "sliding_window_cache", 0) == 1;
  }

  static int64_t attribute(const onnx::NodeProto &node, llvm::StringRef name, int64_t otherwise) {
    for (const auto &a : node.attribute())
      if (a.name() == name)
        return a.i();
    return otherwise;
  }

  /// Channels of a head by the declared width of the queries; 0 where that is not known.
  int64_t headWidth(const onnx::NodeProto &node) const {
    const int64_t heads = attribute(node, "num_heads", 0),
                  groups = attribute(node, "kv_num_heads", 0);
    const int64_t parts = node.input(1).empty() ? heads + 2 * groups : heads;
    for (const auto &info : graph_.value_info())
      if (info.name() == node.input(0) && info.type().tensor_type().shape().dim_size() == 3) {
        const int64_t width = info.type().tensor_type().shape().dim(2).dim_value();
        return parts > 0 && width > 0 && width % parts == 0 ? width / parts : 0;
      }
    return 0;
  }

  /// How many tokens a run takes, and how many there were.
  void giveBounds() {
    const DecoderRequest &request = found_.request;
    options_.ranges.insert({found_.length, {0, request.capacity - 1}});
    if (!found_.count.empty() && !isGiven(found_.count)) {
      int64_t most = kStepRows.back();
      for (int64_t rows : request.prefill)
        most = std::max(most, rows);
      options_.ranges.insert({found_.count, {1, std::min(most, request.capacity)}});
    }
    options_.states.insert(options_.states.end(), found_.caches.begin(), found_.caches.end());
    if (found_.text)
      options_.states.push_back(*found_.text);
  }
  const onnx::GraphProto &graph_;
  const llvm::ArrayRef<DeclaredTensor> inputs_, outputs_;
  ImportOptions &options_;
  Diagnostics &diagnostics_;
  const DeclaredTensor *tokens_ = nullptr;
  DecoderInterface found_;
};

//===----------------------------------------------------------------------===//
// What follows from lengths
//===----------------------------------------------------------------------===//

class FollowingValues {
public:
  FollowingValues(Builder &b, Value *past, unsigned axis, Value *tokens)
      : b_(b), past_(past), tokens_(tokens), axis_(axis), length_(past->type().dim(axis)),
        count_(tokens->type().dim(1)) {}

  /// A value of the declared type; null for a form that no decoder has.
  Value *make(Following what, const DeclaredTensor &declared) {
    const size_t rank = declared.shape.size();
    const Element e = declared.element;
    switch (what) {
    case Following::Mask: return rank == 2 ? ones(e) : hidden(e);
    case Following::Positions: return positions(e, declared);
    case Following::Length: return number(e, rank, length());
    case Following::Total: return number(e, rank, added(length(), count()));
    case Following::LastPosition:
      return number(e, rank, added(added(length(), count()), constant(-1)));
    case Following::CacheBranch: return number(e, rank, constant(1));
    case Following::KeptLogits: return number(e, rank, constant(0));
    }
    return nullptr;
  }

private:
  Dim one() const { return b_.context().dim(1); }
  Value *length() const { return extentProduct(b_, past_, {int64_t(axis_)}, Element::I64); }
  Value *count() const { return extentProduct(b_, tokens_, {1}, Element::I64); }
  Value *constant(int64_t v) const { return b_.constant(Tensor::scalar(Element::I64, double(v))); }
  Value *added(Value *a, Value *c) const { return b_.pointwise(Op::Add, {a, c}); }

  Value *number(Element e, size_t rank, Value *v) const {
    return b_.reshape(b_.cast(v, e), Shape(rank, one()));
  }
  Value *ones(Element e) const {
    return b_.broadcastTo(b_.scalarConstant(e, 1), {one(), length_ + count_});
  }
  /// [1, 1, S, T + S]: what a query does not see is false, or the lowest number.
  Value *hidden(Element e) const {
    const double sees = isFloat(e) ? 0 : 1, not_ = isFloat(e) ? lowest(e) : 0;
    return pointwise(b_, {length()}, {{}}, {one(), one(), count_, length_ + count_},
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *seen = s(Op::LessEqual, s.index(3), s(Op::Add, a[0], s.index(2)));
                       return s(Op::Select, seen, s.c(e, sees), s.c(e, not_));
                     });
  }
  static double lowest(Element e) { return e == Element::F16 ? -65504 : -3e38; }
  /// [S], [1, S], or three such rows where images have places in two directions, too.
  Value *positions(Element e, const DeclaredTensor &declared) const {
    const size_t rank = declared.shape.size();
    Shape shape(rank, one());
    shape.back() = count_;
    int64_t rows;
    if (rank == 3 && !llvm::StringRef(declared.shape[0]).getAsInteger(10, rows))
      shape[0] = b_.context().dim(rows);
    return pointwise(b_, {length()}, {{}}, shape, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s.cast(s(Op::Add, a[0], s.index(unsigned(rank) - 1)), e);
    });
  }

  Builder &b_;
  Value *const past_, *const tokens_;
  const unsigned axis_;
  const Dim length_, count_;
};

Value *argument(Graph &graph, llvm::StringRef name) {
  const auto it = llvm::find(graph.inputNames, name);
  return it == graph.inputNames.end()
             ? nullptr
             : graph.body().argument(unsigned(it - graph.inputNames.begin()));
}

/// The first cache that grows.
const ImportState *growingCache(const ImportOptions &options) {
  const auto it =
      llvm::find_if(options.states, [](const ImportState &s) { return s.appendAxis.hasValue(); });
  return it == options.states.end() ? nullptr : &*it;
}

} // namespace

bool readDecoder(const onnx::GraphProto &graph, llvm::ArrayRef<DeclaredTensor> inputs,
                 llvm::ArrayRef<DeclaredTensor> outputs, const DecoderRequest &request,
                 ImportOptions &options, Diagnostics &diagnostics) {
  return Reader(graph, inputs, outputs, request, options, diagnostics).run();
}

std::vector<DeclaredTensor> declaredInputs(const ImportOptions &options,
                                           llvm::ArrayRef<DeclaredTensor> inputs) {
  std::vector<DeclaredTensor> all = inputs.vec();
  if (!options.decoder || !options.decoder->text)
    return all;
  const auto *tokens = llvm::find_if(
      inputs, [&](const DeclaredTensor &t) { return t.name == options.decoder->tokens; });
  all.push_back(*tokens);
  all.back().name = options.decoder->text->input;
  all.back().shape = {"1", options.decoder->length};
  return all;
}

void carryText(const ImportOptions &options, Graph &graph, Builder &b,
               llvm::SmallVectorImpl<Value *> &results) {
  if (!options.decoder || !options.decoder->text)
    return;
  Value *past = argument(graph, options.decoder->text->input);
  results.push_back(b.value(Op::Concat, {past, argument(graph, options.decoder->tokens)},
                            {{"axis", int64_t(1)}}));
  graph.outputNames.push_back(options.decoder->text->output);
}

llvm::Optional<Following> followingInput(const ImportOptions &options, llvm::StringRef input) {
  if (options.decoder)
    for (const auto &[name, what] : options.decoder->following)
      if (name == input)
        return what;
  return llvm::None;
}

bool defineFollowing(ModelImport &state, Graph &graph, GraphImporter &importer,
                     llvm::ArrayRef<DeclaredTensor> inputs) {
  const DecoderInterface &decoder = *state.options.decoder;
  const ImportState &cache = *growingCache(state.options);
  Value *past = argument(graph, cache.input), *tokens = argument(graph, decoder.tokens);
  if (!past || !tokens) {
    state.error("--decoder: " + quoted(past ? decoder.tokens : cache.input) +
                " is bound to a constant: expected an input");
    return false;
  }
  const auto axis = cache.axisOf(past->type().rank());
  if (!axis) {
    state.error("--state " + cache.input + "=" + cache.output + ":append@" +
                std::to_string(*cache.appendAxis) + ": there is no such axis in " +
                toString(past->type()));
    return false;
  }
  FollowingValues values(importer.b, past, *axis, tokens);
  for (const auto &[name, what] : decoder.following) {
    const auto *declared =
        llvm::find_if(inputs, [&name = name](const DeclaredTensor &t) { return t.name == name; });
    importer.b.location = {name};
    Value *v = values.make(what, *declared);
    state.flush("", "");
    if (!v)
      return false;
    v->setHint(name);
    importer.define(name, v);
    state.names.push_back({name, v});
  }
  importer.b.location = {};
  return true;
}

std::vector<DecoderEntry> decoderEntries(const ImportOptions &options, Module &module) {
  std::vector<DecoderEntry> entries;
  const auto ports = decoderPorts(module);
  if (!ports || ports->count.empty())
    return entries;
  Context &context = module.context();
  const Dim length = context.symbol(ports->length), count = context.symbol(ports->count);
  const DecoderInterface &decoder = *options.decoder;
  std::vector<int64_t> most(kStepRows.begin(), kStepRows.end());
  llvm::append_range(most, decoder.request.prefill);
  llvm::sort(most);
  most.erase(std::unique(most.begin(), most.end()), most.end());
  for (const int64_t rows : most) {
    if (rows < count.lower() || rows >= count.upper())
      continue;
    DecoderEntry entry{"rows" + std::to_string(rows), options};
    ImportOptions &own = entry.options;
    own.entry = entry.name;
    const auto bound = [&](const std::string &name, Dim symbol, int64_t upper) {
      own.ranges.erase(name);
      own.ranges.erase(symbol.symbol().str());
      const std::string extent = entrySymbol(symbol.symbol(), entry.name);
      own.ranges[extent] = {symbol.lower(), upper};
      own.bindExtents[name] = extent;
    };
    if (rows == count.lower()) {
      own.ranges.erase(decoder.count);
      own.ranges.erase(count.symbol().str());
      own.bindDims[decoder.count] = rows;
    } else {
      bound(decoder.count, count, rows);
    }
    bound(decoder.length, length, length.upper());
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Whether `d` is made of `symbol`.
static bool mentions(Dim d, Dim symbol) { return tenon::mentions(d, llvm::makeArrayRef(symbol)); }

/// Outputs that are neither logits nor carried are left out: nobody could ask for them.
static void dropOthers(ModelImport &state, Graph &graph) {
  std::vector<Value *> kept;
  std::vector<std::string> names, dropped;
  for (unsigned i = 0; i < graph.outputNames.size(); ++i) {
    const State *carried = graph.stateOfOutput(i);
    if (!carried && graph.outputNames[i] != state.options.decoder->logits) {
      dropped.push_back(graph.outputNames[i]);
      continue;
    }
    for (State &s : graph.states)
      if (&s == carried)
        s.output = unsigned(names.size());
    names.push_back(graph.outputNames[i]);
    kept.push_back(graph.returnOp()->operand(i));
  }
  if (dropped.empty())
    return;
  graph.outputNames = std::move(names);
  graph.returnOp()->setOperands(kept);
  state.warning("--decoder: output " + quoted(dropped[0]) +
                (dropped.size() > 1 ? " and " + std::to_string(dropped.size() - 1) + " more" : "") +
                " left out: a decoder gives logits");
}

/// Runs in pieces need other inputs to be the same for all of them.
static bool checkInputs(ModelImport &state, Graph &graph, const Value *tokens) {
  for (unsigned i = 0; i < graph.inputNames.size(); ++i) {
    const Value *v = graph.body().argument(i);
    if (v == tokens || graph.stateOfInput(i) || !tokens->type().dim(1).isSymbol())
      continue;
    for (Dim d : v->type().shape())
      if (mentions(d, tokens->type().dim(1))) {
        state.error("--decoder: input " + quoted(graph.inputNames[i]) + " of type " +
                    toString(v->type()) +
                    " has an element for each token, and nothing says what they are: make it a "
                    "constant with --bind NAME=@FILE, or give the program its caches with --state");
        return false;
      }
  }
  return true;
}

bool finishDecoder(ModelImport &state, Graph &graph) {
  dropOthers(state, graph);
  const DecoderInterface &decoder = *state.options.decoder;
  const ImportState &cache = *growingCache(state.options);
  Value *past = argument(graph, cache.input), *tokens = argument(graph, decoder.tokens);
  const auto port =
      unsigned(llvm::find(graph.outputNames, decoder.logits) - graph.outputNames.begin());
  if (port == graph.outputNames.size()) {
    state.error("--decoder: expected a tensor of logits, found that " + quoted(decoder.logits) +
                " is none");
    return false;
  }
  Value *logits = graph.returnOp()->operand(port);
  const Type t = logits->type();
  if (!checkInputs(state, graph, tokens))
    return false;
  // defineFollowing has found that there is such an axis.
  const Dim count = tokens->type().dim(1),
            length = past->type().dim(*cache.axisOf(past->type().rank()));
  if (!checkPositionTables(state, graph, length, count))
    return false;
  const bool rowForEach = t.rank() == 3 && t.dim(1) == count;
  if (t.rank() != 3 || !t.dim(0).isConstant(1) || !t.dim(2).isConstant() ||
      !(rowForEach || t.dim(1).isConstant(1))) {
    state.error("--decoder: expected logits [1, count, vocabulary] of " + quoted(decoder.logits) +
                ", found " + toString(t));
    return false;
  }
  if (decoder.request.lastLogits && rowForEach && !count.isConstant(1)) {
    const bool taken = takeLastRow(graph, port, 1, state.pending);
    state.flush("", "");
    if (!taken)
      return false;
  }
  DecoderPorts ports;
  ports.tokens = decoder.tokens;
  ports.logits = decoder.logits;
  ports.length = length.symbol().str();
  ports.count = count.isSymbol() ? count.symbol().str() : "";
  ports.capacity = decoder.request.capacity;
  ports.lastLogits = !rowForEach || decoder.request.lastLogits;
  noteDecoder(graph.module(), ports);
  return true;
}

} // namespace tenon::frontend

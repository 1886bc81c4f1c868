// Implements the parser of regular expressions, by recursive descent:
//
//   choice   = sequence ( "|" sequence )*
//   sequence = ( atom ( "*" | "+" | "?" | "{" n ( "," m? )? "}" )? "?"? )*
//   atom     = character | "." | class | escape | "^" | "$" | "(" ( "?" flags ":" )? choice ")"
#include "ir/Regex.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include <algorithm>

namespace tenon {
namespace {

using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;
using NodePtr = std::unique_ptr<RegexNode>;

constexpr uint32_t kLastCodePoint = 0x10ffff;
constexpr int kMostRepeats = 1000, kDeepest = 200;

/// Sorted and merged.
Ranges normalized(Ranges r) {
  std::sort(r.begin(), r.end());
  Ranges out;
  for (auto [low, high] : r) {
    if (!out.empty() && low <= out.back().second + 1)
      out.back().second = std::max(out.back().second, high);
    else
      out.push_back({low, high});
  }
  return out;
}

/// All code points that are not in `r`.
Ranges complement(Ranges r) {
  Ranges out;
  uint32_t next = 0;
  for (auto [low, high] : normalized(std::move(r))) {
    if (low > next)
      out.push_back({next, low - 1});
    next = high + 1;
  }
  if (next <= kLastCodePoint)
    out.push_back({next, kLastCodePoint});
  return out;
}

const Ranges kDigits = {{'0', '9'}}, kSpaces = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}},
             kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

struct NamedClass {
  llvm::StringRef name;
  Ranges ranges;
};
const NamedClass kNamed[] = {
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{0, 127}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{0, 31}, {127, 127}}},
    {"digit", kDigits},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", kWords},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

class Parser {
public:
  Parser(llvm::StringRef text, std::string &why) : text_(text), why_(why) {}

  NodePtr run() {
    NodePtr all = choice();
    if (all && at_ < text_.size())
      return fail("a ')' that closes nothing");
    return all;
  }

private:
  struct Flags {
    bool anyCase = false, lines = false, dotAll = false;
  };

  std::nullptr_t fail(const llvm::Twine &what) {
    if (why_.empty())
      why_ = (what + " at byte " + llvm::Twine(at_) + " of '" + text_ + "'").str();
    return nullptr;
  }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return text_[at_]; }
  bool take(llvm::StringRef s) {
    if (!text_.drop_front(at_).startswith(s))
      return false;
    at_ += s.size();
    return true;
  }

  static NodePtr node(RegexNode::Kind kind) {
    auto n = std::make_unique<RegexNode>();
    n->kind = kind;
    return n;
  }
  NodePtr set(Ranges ranges) const {
    if (flags_.anyCase)
      for (size_t i = 0, n = ranges.size(); i < n; ++i)
        for (const auto &[from, to] : {std::pair('A', 'a'), std::pair('a', 'A')}) {
          const uint32_t low = std::max<uint32_t>(ranges[i].first, from),
                         high = std::min<uint32_t>(ranges[i].second, from + 25);
          if (low <= high)
            ranges.push_back({low - from + to, high - from + to});
        }
    NodePtr n = node(RegexNode::Set);
    n->ranges = normalized(std::move(ranges));
    return n;
  }
  static NodePtr assertion(RegexNode::Place place) {
    NodePtr n = node(RegexNode::Assertion);
    n->assertion = place;
    return n;
  }

  NodePtr choice() {
    if (++depth_ > kDeepest)
      return fail("groups nested too deeply");
    NodePtr all = node(RegexNode::Choice);
    do {
      NodePtr part = sequence();
      if (!part)
        return nullptr;
      all->parts.push_back(std::move(part));
    } while (take("|"));
    --depth_;
    return all->parts.size() == 1 ? std::move(all->parts.front()) : std::move(all);
  }

  NodePtr sequence() {
    NodePtr all = node(RegexNode::Sequence);
    while (more() && peek() != '|' && peek() != ')') {
      if (take("\\Q")) { // all up to \E as it stands
        while (more() && !take("\\E")) {
          auto c = codePoint();
          if (!c)
            return nullptr;
          all->parts.push_back(set({{*c, *c}}));
        }
        continue;
      }
      NodePtr part = atom();
      if (!part || !repeats(part))
        return nullptr;
      all->parts.push_back(std::move(part));
    }
    return all;
  }

  /// Wraps `part` in the repetition that follows it, if any.
  bool repeats(NodePtr &part) {
    int least = 0, most = -1;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (!braces(least, most)) {
      return why_.empty();
    }
    take("?"); // lazy: the same text matches
    if (more() && (peek() == '*' || peek() == '+' || peek() == '?'))
      return fail("a repetition of a repetition"), false;
    NodePtr n = node(RegexNode::Repeat);
    n->least = least;
    n->most = most;
    n->parts.push_back(std::move(part));
    part = std::move(n);
    return true;
  }
  /// "{n}", "{n,}" or "{n,m}"; anything else in braces is itself.
  bool braces(int &least, int &most) {
    const size_t end = text_.find('}', at_);
    if (!more() || peek() != '{' || end == llvm::StringRef::npos)
      return false;
    const auto [first, second] = text_.slice(at_ + 1, end).split(',');
    const bool comma = text_.slice(at_ + 1, end).contains(',');
    if (first.getAsInteger(10, least) || (!second.empty() && second.getAsInteger(10, most)))
      return false;
    most = !comma ? least : second.empty() ? -1 : most;
    if (least < 0 || least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
      return fail("a number of repetitions that is none of 0 to " + llvm::Twine(kMostRepeats)),
             false;
    at_ = end + 1;
    return true;
  }

  NodePtr atom() {
    switch (peek()) {
    case '(': return group();
    case '[': return bracket();
    case '*':
    case '+':
    case '?': return fail("nothing to repeat");
    case '.': ++at_; return set(flags_.dotAll ? complement({}) : complement({{'\n', '\n'}}));
    case '^': ++at_; return assertion(flags_.lines ? RegexNode::LineBegin : RegexNode::TextBegin);
    case '$': ++at_; return assertion(flags_.lines ? RegexNode::LineEnd : RegexNode::TextEnd);
    case '\\': break;
    default: {
      auto c = codePoint();
      return c ? set({{*c, *c}}) : nullptr;
    }
    }
    for (const auto &[letter, place] :
         {std::pair("\\A", RegexNode::TextBegin), std::pair("\\z", RegexNode::TextEnd),
          std::pair("\\b", RegexNode::Word), std::pair("\\B", RegexNode::NoWord)})
      if (take(letter))
        return assertion(place);
    Ranges ranges;
    return escape(ranges) ? set(std::move(ranges)) : nullptr;
  }

  NodePtr group() {
    const Flags outside = flags_;
    ++at_;
    bool closed = false;
    if (take("?P<") || take("?<")) {
      const size_t end = text_.find('>', at_);
      if (end == llvm::StringRef::npos || end == at_ || !llvm::isAlpha(peek()))
        return fail("expected the name of a group and '>'");
      at_ = end + 1;
    } else if (take("?") && !groupFlags(closed)) {
      return nullptr;
    }
    if (closed)
      return node(RegexNode::Sequence); // flags for what follows
    NodePtr inner = choice();
    if (inner && !take(")"))
      return fail("a '(' that is not closed");
    flags_ = outside;
    return inner;
  }
  /// "i-s:" before the content of a group, or "i-s)" for the rest of the one around.
  bool groupFlags(bool &closed) {
    bool value = true;
    for (; more(); ++at_)
      switch (peek()) {
      case 'i': flags_.anyCase = value; break;
      case 'm': flags_.lines = value; break;
      case 's': flags_.dotAll = value; break;
      case 'U': break; // which repetitions are lazy: the same text matches
      case '-': value = false; break;
      case ')': closed = true; [[fallthrough]];
      case ':': ++at_; return true;
      default: return fail("a group of a kind that RE2 does not have"), false;
      }
    return fail("a '(' that is not closed"), false;
  }

  NodePtr bracket() {
    ++at_;
    const bool negated = take("^");
    Ranges all;
    for (bool first = true; first || !take("]"); first = false) { // a leading ']' is itself
      if (!more())
        return fail("a '[' that is not closed");
      if (take("[:")) {
        const bool without = take("^");
        const size_t end = text_.find(":]", at_);
        const llvm::StringRef name = text_.slice(at_, end);
        const auto *found =
            llvm::find_if(kNamed, [&](const NamedClass &c) { return c.name == name; });
        if (end == llvm::StringRef::npos || found == std::end(kNamed))
          return fail("an unknown class '" + name + "'");
        at_ = end + 2;
        const Ranges r = without ? complement(found->ranges) : found->ranges;
        all.insert(all.end(), r.begin(), r.end());
        continue;
      }
      Ranges low, high;
      if (!member(low))
        return nullptr;
      const bool single = low.size() == 1 && low[0].first == low[0].second;
      if (single && at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        if (!member(high))
          return nullptr;
        if (high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first)
          return fail("a range that does not ascend");
        low[0].second = high[0].first;
      }
      all.insert(all.end(), low.begin(), low.end());
    }
    // Letters of either case before what is left out: [^a] without case leaves out A, too.
    NodePtr n = set(std::move(all));
    if (negated)
      n->ranges = complement(std::move(n->ranges));
    return n;
  }
  bool member(Ranges &ranges) {
    if (peek() == '\\')
      return escape(ranges);
    auto c = codePoint();
    if (c)
      ranges = {{*c, *c}};
    return c.hasValue();
  }

  /// What a backslash and the characters behind it stand for.
  bool escape(Ranges &ranges) {
    ++at_;
    if (!more())
      return fail("a '\\' at the end"), false;
    const char c = text_[at_++];
    auto is = [&](uint32_t point) {
      ranges = {{point, point}};
      return true;
    };
    switch (c) {
    case 'd': ranges = kDigits; return true;
    case 'D': ranges = complement(kDigits); return true;
    case 's': ranges = kSpaces; return true;
    case 'S': ranges = complement(kSpaces); return true;
    case 'w': ranges = kWords; return true;
    case 'W': ranges = complement(kWords); return true;
    case 'a': return is('\a');
    case 'f': return is('\f');
    case 'n': return is('\n');
    case 'r': return is('\r');
    case 't': return is('\t');
    case 'v': return is('\v');
    case 'x': return hexadecimal(ranges);
    default: break;
    }
    if (c >= '0' && c <= '7' && (c == '0' || (more() && peek() >= '0' && peek() <= '7'))) {
      uint32_t point = uint32_t(c - '0'); // octal, up to three digits
      for (int k = 0; k < 2 && more() && peek() >= '0' && peek() <= '7'; ++k)
        point = point * 8 + uint32_t(text_[at_++] - '0');
      return is(point);
    }
    if (llvm::isAlnum(c) || static_cast<unsigned char>(c) >= 128) {
      --at_;
      return fail("an escape '\\" + llvm::Twine(c) + "' that is not supported"), false;
    }
    return is(static_cast<unsigned char>(c));
  }
  bool hexadecimal(Ranges &ranges) {
    llvm::StringRef digits = text_.substr(at_, 2);
    size_t length = 2;
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      digits = text_.slice(at_, end);
      length = digits.size() + 1;
    }
    uint32_t point;
    if (digits.getAsInteger(16, point) || point > kLastCodePoint)
      return fail("expected a code point in hexadecimal digits"), false;
    at_ += length;
    ranges = {{point, point}};
    return true;
  }

  /// The next code point, taken.
  llvm::Optional<uint32_t> codePoint() {
    const auto *from = reinterpret_cast<const llvm::UTF8 *>(text_.data()) + at_;
    const auto *end = reinterpret_cast<const llvm::UTF8 *>(text_.data()) + text_.size();
    const auto *next = from;
    llvm::UTF32 point;
    if (llvm::convertUTF8Sequence(&next, end, &point, llvm::strictConversion) !=
        llvm::conversionOK) {
      fail("bytes that are not UTF-8");
      return llvm::None;
    }
    at_ += size_t(next - from);
    return point;
  }

  llvm::StringRef text_;
  std::string &why_;
  size_t at_ = 0;
  int depth_ = 0;
  Flags flags_;
};

} // namespace

std::unique_ptr<RegexNode> parseRegex(llvm::StringRef pattern, std::string &why) {
  return Parser(pattern, why).run();
}

} // namespace tenon

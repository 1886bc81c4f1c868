// Tests regular expressions: syntax, UTF-8, assertions, errors, and random patterns against another
// matcher.
#include "Support.h"

#include "ir/Regex.h"

#include <regex>

namespace tenon::test {
namespace {

bool matches(llvm::StringRef pattern, llvm::StringRef text) {
  std::string why;
  auto a = compileRegex(pattern, why);
  EXPECT_TRUE(a) << pattern.str() << ": " << why;
  return a && a->matches(text);
}

void accepts(llvm::StringRef pattern, llvm::ArrayRef<llvm::StringRef> yes,
             llvm::ArrayRef<llvm::StringRef> no) {
  for (llvm::StringRef text : yes)
    EXPECT_TRUE(matches(pattern, text)) << pattern.str() << " and '" << text.str() << "'";
  for (llvm::StringRef text : no)
    EXPECT_FALSE(matches(pattern, text)) << pattern.str() << " and '" << text.str() << "'";
}

TEST(Regex, SaysWhatTextItMatches) {
  accepts("", {""}, {"a"});
  accepts("a|bc|", {"a", "bc", ""}, {"b", "abc"});
  accepts("(ab)*c+d?", {"c", "abababccd"}, {"abab", "cdd"});
  accepts("a{2}b{1,}c{0,2}", {"aab", "aabbbcc"}, {"ab", "aabccc", "aac"});
  accepts("x{,2}{", {"x{,2}{"}, {"xx{"}); // no repetition: itself
  accepts("a+?b*?", {"a", "aab"}, {"", "b"});
  accepts("[a-cx-]+", {"abc-x"}, {"d", "y"});
  accepts("[^a-c]", {"d", "\xc3\xa4", "\n"}, {"a", "dd", ""});
  accepts("[]a]+|[^]]", {"]a]", "b"}, {"bb"});
  accepts("[[:alpha:][:^digit:]]", {"a", "-"}, {"1"});
  accepts("\\d\\D\\w\\W\\s\\S", {"1a_- x"}, {"aa_- x", "1a_-xx"});
  accepts("\\x41\\x{20ac}\\101\\.\\Qa.b\\E",
          {"A\xe2\x82\xac"
           "A.a.b"},
          {"A\xe2\x82\xac"
           "A.axb"});
  accepts("(?P<name>a)(?:b)", {"ab"}, {"a"});
  accepts("(?i)aB[x-z](?-i:c)c", {"AbYcC", "abzcc"}, {"ABXCC"});
  accepts("(?s).\\n(?-s).", {"\n\na", "a\nb"}, {"\n\n\n"});
}

TEST(Regex, ReadsCodePoints) {
  accepts(".", {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82"},
          {"", "\n", "\xc3", "\xff", "ab"});
  accepts("[\xc3\xa0-\xe2\x82\xac]", {"\xc3\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xe2\x82\xac"},
          {"\xc3\x9f", "\xe2\x82\xad", "z"});
  accepts("\xc3\xa9+", {"\xc3\xa9\xc3\xa9"}, {"\xc3\xa9\xa9"});
  // Neither surrogates nor numbers beyond the last code point.
  accepts("(?s).", {"\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"},
          {"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"});
  const char zero[] = {'a', 0, 'b'};
  EXPECT_TRUE(matches("a\\x00b", llvm::StringRef(zero, 3)));
}

TEST(Regex, AssertsPlaces) {
  accepts("^a$|\\Ab\\z", {"a", "b"}, {"aa"});
  accepts("a^b|a$b", {}, {"ab", "a", "b"});
  accepts("\\bfoo\\b.*", {"foo", "foo bar", "foo."}, {"foox"});
  accepts("a\\Bb.\\b", {"abc"}, {"ab "});
  accepts("(?m)a\n^b$\nc", {"a\nb\nc"}, {"a\nb"});
  accepts("a\n^b", {}, {"a\nb"});
}

TEST(Regex, NamesWhatIsWrong) {
  for (const auto &[pattern, what] :
       {std::pair("(a", "'(' that is not closed at byte 2"), std::pair("a)", "closes nothing"),
        std::pair("[a", "'[' that is not closed"), std::pair("*a", "nothing to repeat"),
        std::pair("a**", "repetition of a repetition"), std::pair("(?=a)", "RE2 does not have"),
        std::pair("(a)\\1", "not supported"), std::pair("\\pL", "not supported"),
        std::pair("[b-a]", "does not ascend"), std::pair("a{1001}", "0 to 1000"),
        std::pair("a\\", "at the end"), std::pair("\xff", "not UTF-8"),
        std::pair("[[:nope:]]", "unknown class 'nope'"),
        std::pair("(a|b)*a(a|b){20}", "more than 4096 states"),
        std::pair("((a{1000}){1000})", "more than 4096 states")}) {
    std::string why;
    EXPECT_FALSE(compileRegex(pattern, why)) << pattern;
    EXPECT_NE(why.find(what), std::string::npos) << pattern << ": " << why;
  }
}

TEST(Regex, HasAsFewStatesAsCanBe) {
  std::string why;
  // Nothing, and one letter after the other; the start of (a|b)*abb is its own state.
  EXPECT_EQ(compileRegex("abc", why)->states(), 5u);
  EXPECT_EQ(compileRegex("(a|b)*abb", why)->states(), 5u);
  EXPECT_EQ(compileRegex("[a-z]*|[b-y]x", why)->states(), 2u);
  EXPECT_EQ(compileRegex("(abc|abd)+", why)->classes, 4u); // a, b, c and d, others
}

TEST(Regex, TakesLongPatterns) {
  // Chains, whose states differ only far ahead, end up minimal; and bytes share what a state
  // reaches, so that states of thousands of nodes each stay within the bound on steps.
  std::string why;
  EXPECT_EQ(compileRegex("(a{60}){60}", why)->states(), 3602u);
  const auto optional = compileRegex("(a?b?c?d?e?f?g?h?){500}", why);
  ASSERT_TRUE(optional) << why;
  EXPECT_EQ(optional->states(), 4002u);
}

/// A pattern over a and b that both matchers read.
std::string randomPattern(Random &r, int depth) {
  switch (depth == 0 ? r.below(3) : r.below(9)) {
  case 0: return "a";
  case 1: return "b";
  case 2: return "[ab]";
  case 3: return "(" + randomPattern(r, depth - 1) + "|" + randomPattern(r, depth - 1) + ")";
  case 4: return "(?:" + randomPattern(r, depth - 1) + ")*";
  case 5: return "(" + randomPattern(r, depth - 1) + "){1,2}";
  case 6: return "(" + randomPattern(r, depth - 1) + ")?";
  default: return randomPattern(r, depth - 1) + randomPattern(r, depth - 1);
  }
}

TEST(Regex, AgreesWithAnotherMatcher) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; texts.size() < 127; ++i)
    for (char c : {'a', 'b'})
      texts.push_back(texts[i] + c);
  Random r(1);
  int matched = 0;
  for (int round = 0; round < 200; ++round) {
    const std::string pattern = randomPattern(r, 4);
    std::string why;
    auto a = compileRegex(pattern, why);
    ASSERT_TRUE(a) << pattern << ": " << why;
    const std::regex other(pattern);
    for (const std::string &text : texts) {
      EXPECT_EQ(a->matches(text), std::regex_match(text, other)) << pattern << " and " << text;
      matched += a->matches(text);
    }
  }
  EXPECT_GT(matched, 1000);
}

} // namespace
} // namespace tenon::test

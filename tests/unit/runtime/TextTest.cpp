// Tests text in generated code against what the interpreter computes: functions as bodies of
// cpu::map, pieces, places among keys, automata.
#include "cpu/map.h"
#include "cpu/text_functions.h"
#include "cpu/text_split.h"
#include "cpu/unique.h"

#include "../ir/Support.h"
#include "ir/Regex.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

using tenon::compare;
using tenon::dyn;
using tenon::fixed;
using tenon::text;
using tenon::text_store;
namespace cpu = tenon::cpu;

namespace {

using Texts = std::vector<std::string>;

std::vector<text> elements(const Texts &texts) {
  std::vector<text> out;
  for (const std::string &t : texts)
    out.push_back({t.empty() ? nullptr : t.data(), t.size()});
  return out;
}
Texts strings(const std::vector<text> &texts) {
  Texts out;
  for (const text t : texts)
    out.push_back(std::string(t.data ? t.data : "", t.size));
  return out;
}

Texts randomTexts(uint64_t seed, size_t count) {
  tenon::test::Random random(seed);
  const std::string letters("aB,;, \t\0\xc3z", 10);
  Texts out(count);
  for (std::string &t : out)
    for (int64_t n = random.below(9); n > 0; --n)
      t += letters[size_t(random.below(int64_t(letters.size())))];
  return out;
}

tenon::Tensor interpreted(tenon::Op op, const std::vector<Texts> &operands,
                          tenon::NamedAttributes attributes) {
  tenon::test::TestGraph g;
  std::vector<tenon::Value *> values;
  std::vector<tenon::Tensor> tensors;
  for (const Texts &t : operands) {
    values.push_back(g.input(tenon::Element::String, {int64_t(t.size())}));
    tensors.push_back(tenon::Tensor::strings({int64_t(t.size())}, t));
  }
  if (op == tenon::Op::TextSplit) {
    g.context.symbol("pieces", 0, 64);
    attributes.insert({"symbol", std::string("pieces")});
  }
  g.finish({g.b.value(op, values, attributes)});
  return g.run(tensors)[0];
}
tenon::Tensor function(const char *name, const std::vector<Texts> &operands,
                       tenon::NamedAttributes attributes = {}) {
  attributes.insert({"function", tenon::Word{name}});
  return interpreted(tenon::Op::TextMap, operands, attributes);
}

/// cpu::map of a body over vectors of text.
template <class R, class Body, class... Ins>
std::vector<R> mapped(const Body &body, const std::vector<text> &first, const Ins &...more) {
  const auto out = std::make_unique<R[]>(first.size());
  cpu::pool alone(1);
  const tenon::extents<1> stride{};
  cpu::map(tenon::dims<dyn>{long(first.size())}, tenon::pack(make_view(out.get(), stride)),
           tenon::pack(make_view(first.data(), stride), make_view(more.data(), stride)...), body,
           alone);
  return std::vector<R>(out.get(), out.get() + first.size());
}

TEST(Text, ComparesByBytes) {
  const char zero[] = {'a', 0};
  EXPECT_EQ(compare({nullptr, 0}, {"", 0}), 0);
  EXPECT_EQ(compare({"a", 1}, {zero, 2}), -1);
  EXPECT_EQ(compare({"\xff", 1}, {"a", 1}), 1);
  EXPECT_TRUE((text{"ab", 1} == text{"ac", 1}));
}

TEST(Text, SpellsWhatTheInterpreterDoes) {
  const Texts x = randomTexts(1, 100), y = randomTexts(2, 100);
  std::vector<char> room(10000);
  text_store store{room.data(), room.data() + room.size(), false};
  const auto a = elements(x), b = elements(y);
  EXPECT_EQ(strings(mapped<text>(cpu::text_concat{&store}, a, b)),
            function("concat", {x, y}).stringValues());
  EXPECT_EQ(strings(mapped<text>(cpu::text_case<'A'>{&store}, a)),
            function("lower", {x}).stringValues());
  EXPECT_EQ(strings(mapped<text>(cpu::text_case<'a'>{&store}, a)),
            function("upper", {x}).stringValues());
  EXPECT_FALSE(store.full);
}

TEST(Text, SaysWhenTheStoreIsFull) {
  const Texts x = {"ab", "", "cde"}, y = {"cd", "x", "y"}, z = {"a1", "B"};
  const auto a = elements(x), b = elements(y);
  std::vector<char> room(8);
  text_store store{room.data(), room.data() + 8, false};
  EXPECT_EQ(strings(mapped<text>(cpu::text_concat{&store}, a, b)), (Texts{"abcd", "x", "cdey"}));
  EXPECT_FALSE(store.full) << "8 bytes are enough: an empty operand needs none";
  store = {room.data(), room.data() + 7, false};
  EXPECT_EQ(strings(mapped<text>(cpu::text_concat{&store}, a, b)), (Texts{"abcd", "x", ""}));
  EXPECT_TRUE(store.full);
  store = {room.data(), room.data(), false};
  EXPECT_EQ(strings(mapped<text>(cpu::text_case<'A'>{&store}, elements(z))), (Texts{"a1", ""}));
  EXPECT_TRUE(store.full);
}

TEST(Text, FindsPlacesAmongKeys) {
  const Texts x = randomTexts(3, 200);
  Texts keys = randomTexts(4, 50);
  keys.push_back("");
  // As codegen/emit/TextTables.cpp writes them: sorted, the first of equal ones.
  std::vector<int32_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](int a, int b) { return keys[size_t(a)] < keys[size_t(b)]; });
  places.erase(std::unique(places.begin(), places.end(),
                           [&](int a, int b) { return keys[size_t(a)] == keys[size_t(b)]; }),
               places.end());
  Texts sorted;
  for (int p : places)
    sorted.push_back(keys[size_t(p)]);
  const auto list = elements(sorted);
  const tenon::text_index index{list.data(), places.data(), long(list.size())};
  const auto expected = function("index", {x}, {{"keys", keys}});
  const auto found = mapped<int64_t>(cpu::text_place{index}, elements(x));
  int64_t known = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(found[i], expected.intAt(int64_t(i))) << x[i];
    known += found[i] >= 0;
  }
  EXPECT_GT(known, 10);
  EXPECT_LT(known, 190);
}

TEST(Text, WalksAutomata) {
  std::string why;
  const char *pattern = "(?s)[a-zB]*,.*";
  const auto a = *tenon::compileRegex(pattern, why);
  const tenon::text_automaton automaton{a.classOf.data(), a.next.data(), a.accepts.data(),
                                        int(a.classes)};
  const Texts x = randomTexts(5, 300);
  const auto expected = function("match", {x}, {{"pattern", std::string(pattern)}});
  const auto found = mapped<bool>(cpu::text_match{automaton}, elements(x));
  int64_t matched = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(found[i], expected.intAt(int64_t(i)) != 0) << x[i];
    matched += found[i];
  }
  EXPECT_GT(matched, 10);
}

TEST(Text, SplitsAsTheInterpreterDoes) {
  const Texts x = randomTexts(6, 60);
  const auto given = elements(x);
  for (const char *delimiter : {"", ",", ", ", "; "})
    for (const int64_t limit : {-1, 0, 1, 2}) {
      tenon::NamedAttributes cuts{{"delimiter", std::string(delimiter)}};
      if (limit >= 0)
        cuts.insert({"limit", limit});
      const auto expected = interpreted(tenon::Op::TextSplit, {x}, cuts);
      const text between{delimiter, strlen(delimiter)};
      const auto view = make_view(given.data(), tenon::extents<1>{});
      std::vector<text> out(60 * 12, {"?", 1});
      const long most = cpu::text_split(tenon::extents<60>{}, view, between, limit, 12, out.data());
      ASSERT_EQ(most, expected.shape()[1]) << delimiter << limit;
      out.resize(size_t(60 * most));
      EXPECT_EQ(strings(out), expected.stringValues()) << delimiter << limit;
      const auto counts = function("count", {x}, cuts);
      const auto found = mapped<int64_t>(cpu::text_count{between, limit}, given);
      for (int64_t i = 0; i < 60; ++i)
        EXPECT_EQ(found[size_t(i)], counts.intAt(i)) << x[size_t(i)];
      // One too few, and nothing is written.
      out.assign(1, {"kept", 4});
      if (most > 0) {
        EXPECT_EQ(cpu::text_split(tenon::extents<60>{}, view, between, limit, most - 1, out.data()),
                  -1);
      }
      EXPECT_EQ(strings(out), Texts{"kept"});
    }
}

TEST(Text, HasClassesOfEqualRows) {
  const Texts rows = {"b", "", "b", "a", ""};
  const auto x = elements(rows);
  std::vector<int64_t> out(15);
  std::vector<long> places(10);
  cpu::unique<true>(fixed<5>{}, fixed<1>{}, make_view(x.data(), tenon::extents<1, 1>{}),
                    make_view(out.data(), tenon::extents<5, 1>{}), places.data());
  EXPECT_EQ(out, (std::vector<int64_t>{2, 0, 2, 1, 0, 1, 3, 0, -1, -1, 2, 1, 2, 0, 0}));
}

} // namespace

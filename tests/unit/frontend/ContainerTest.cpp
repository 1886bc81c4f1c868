// Tests sequences and optionals, which are lowered to their tensors: what names the interface gets,
// positions, control flow around them, errors.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

void declareSequence(onnx::ValueInfoProto *info, const std::string &name,
                     const DeclaredShape &shape) {
  onnx::ValueInfoProto element;
  declare(&element, name, shape);
  info->set_name(name);
  *info->mutable_type()->mutable_sequence_type()->mutable_elem_type() = element.type();
}

/// Bytes of a model bound to `counts` elements of its sequences.
struct Unfolded {
  Context context;
  Diagnostics diagnostics;
  llvm::Optional<ImportedModel> model;
  std::string messages;
  explicit Unfolded(const TestModel &m, const std::map<std::string, int64_t> &counts = {}) {
    if (auto parsed = OnnxModel::parse(m.bytes(), "", diagnostics)) {
      parsed->unfold(counts);
      model = parsed->toModule(context, {}, diagnostics);
    }
    llvm::raw_string_ostream os(messages);
    diagnostics.print(os);
  }
  Graph &graph() { return model->module->graph(); }
  std::vector<Tensor> run(llvm::ArrayRef<Tensor> inputs) {
    std::vector<Tensor> outputs;
    EXPECT_TRUE(interpret(graph(), inputs, outputs, diagnostics));
    return outputs;
  }
};

/// s of two elements of one declared symbol, y of one: their concatenation and all of them.
TestModel sequenceModel() {
  TestModel m;
  declareSequence(m.graph.add_input(), "s", {"N"});
  m.input("y", {"1"});
  ints(m.graph, "at", {-1}, /*scalar=*/true);
  m.node("SequenceInsert", {"s", "y", "at"}, {"longer"});
  set(m.node("ConcatFromSequence", {"longer"}, {"joined"}), "axis", int64_t(0));
  m.output("longer");
  m.output("joined");
  return m;
}

TEST(Containers, ElementsAreInputsAndOutputs) {
  TestModel m = sequenceModel();
  Context context;
  Diagnostics diagnostics;
  auto parsed = OnnxModel::parse(m.bytes(), "", diagnostics);
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->inputs().size(), 2u);
  EXPECT_EQ(parsed->inputs()[0].container, Container::Sequence);
  parsed->unfold({{"s", 2}});
  ASSERT_EQ(parsed->inputs().size(), 3u);
  EXPECT_EQ(parsed->inputs()[1].name, "s[1]");
  // The symbol has a value of its own in each element.
  ImportOptions options;
  ASSERT_TRUE(parsed->bindFromData({floats({2}, {1, 2}), floats({3}, {4, 5, 6}), floats({1}, {3})},
                                   options, diagnostics));
  auto model = parsed->toModule(context, options, diagnostics);
  ASSERT_TRUE(model);
  Graph &g = model->module->graph();
  EXPECT_EQ(g.outputNames,
            (std::vector<std::string>{"longer[0]", "longer[1]", "longer[2]", "joined"}));
  std::vector<Tensor> outputs;
  ASSERT_TRUE(interpret(g, {floats({2}, {1, 2}), floats({3}, {4, 5, 6}), floats({1}, {3})}, outputs,
                        diagnostics));
  // -1 is the place before the last element.
  EXPECT_EQ(values(outputs[3]), Numbers({1, 2, 3, 4, 5, 6}));
}

TEST(Containers, TheNumberOfElementsHasToBeSaid) {
  Unfolded u(sequenceModel());
  EXPECT_TRUE(mentions(u.messages, "input 's' is a sequence: say how many elements it has with "
                                   "--bind s=1"));
}

TEST(Containers, PositionsOutsideAreNamed) {
  TestModel m;
  m.input("x", {"2"});
  ints(m.graph, "at", {2}, /*scalar=*/true);
  m.node("SequenceConstruct", {"x", "x"}, {"s"});
  m.node("SequenceAt", {"s", "at"}, {"y"});
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "expected one position in a sequence of 2"));
  TestModel wrong;
  wrong.input("x", {"2"});
  wrong.node("SequenceConstruct", {"x"}, {"s"});
  wrong.node("Abs", {"s"}, {"y"});
  wrong.output("y");
  Imported w(wrong);
  EXPECT_TRUE(mentions(w.messages, "operand 's' is a sequence: expected a tensor"));
}

TEST(Containers, SplitKeepsWhatIsLeft) {
  TestModel m;
  m.input("x", {"5"});
  ints(m.graph, "size", {2}, /*scalar=*/true);
  m.node("SplitToSequence", {"x", "size"}, {"s"});
  m.node("SequenceErase", {"s"}, {"y"});
  m.output("s");
  m.output("y");
  Unfolded u(m);
  ASSERT_TRUE(u.model) << u.messages;
  ASSERT_EQ(u.graph().outputNames.size(), 5u);
  auto out = u.run({floats({5}, {1, 2, 3, 4, 5})});
  EXPECT_EQ(values(out[2]), Numbers({5}));
  EXPECT_EQ(values(out[4]), Numbers({3, 4}));
}

TEST(Containers, UnbindDropsTheDimension) {
  for (bool open : {false, true})
    for (bool scalar : {false, true}) {
      TestModel m;
      m.input("x", {open ? "N" : "3", "2"});
      ints(m.graph, "one", {1}, /*scalar=*/true);
      ints(m.graph, "sizes", {1, 1, 1});
      if (open && !scalar)
        continue;
      auto *split = m.node("SplitToSequence", {"x", scalar ? "one" : "sizes"}, {"s"});
      set(split, "keepdims", int64_t(0)); // counts beside a scalar alone
      m.node("SequenceAt", {"s", "one"}, {"y"});
      m.output("y");
      ImportOptions options;
      if (open)
        options.ranges = {{"N", {2, 5}}};
      Imported i(m, options);
      ASSERT_TRUE(i) << i.messages;
      EXPECT_EQ(i.outputType().rank(), scalar ? 1u : 2u);
      EXPECT_EQ(values(i.run({floats({3, 2}, {1, 2, 3, 4, 5, 6})})[0]), Numbers({3, 4}));
    }
}

TEST(Containers, SplitByMoreThanThereIsGivesOnePiece) {
  TestModel m;
  m.input("x", {"5"});
  ints(m.graph, "size", {INT64_MAX}, /*scalar=*/true);
  m.node("SplitToSequence", {"x", "size"}, {"s"});
  m.output("s");
  Unfolded u(m);
  ASSERT_TRUE(u.model) << u.messages;
  ASSERT_EQ(u.graph().outputNames.size(), 1u);
  EXPECT_EQ(values(u.run({floats({5}, {1, 2, 3, 4, 5})})[0]), Numbers({1, 2, 3, 4, 5}));
}

/// If on an input: sequences of `first` and `second` copies of x.
TestModel branchModel(int first, int second) {
  TestModel m;
  m.input("c", {}, onnx::TensorProto::BOOL);
  m.input("x", {"2"});
  auto *n = m.node("If", {"c"}, {"s"});
  for (auto [name, count] : {std::pair("then_branch", first), std::pair("else_branch", second)}) {
    onnx::GraphProto &g = setGraph(n, name);
    node(g, count == first ? "Neg" : "Abs", {"x"}, {"v"});
    node(g, "SequenceConstruct", std::vector<std::string>(size_t(count), "v"), {"list"});
    g.add_output()->set_name("list");
  }
  m.node("SequenceLength", {"s"}, {"n"});
  m.output("s");
  m.output("n");
  return m;
}

TEST(Containers, BranchesOfOneLength) {
  Unfolded u(branchModel(2, 2));
  ASSERT_TRUE(u.model) << u.messages;
  Tensor no(Element::Bool, {});
  auto out = u.run({no, floats({2}, {-1, 2})});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[2].intAt(0), 2);
  Unfolded differs(branchModel(2, 1));
  EXPECT_TRUE(
      mentions(differs.messages,
               "what is asked for as 's' is a sequence of 2 where the condition 'c' is true, "
               "else a sequence of 1"));
  // Only how long it is: both branches count their own.
  TestModel counted = branchModel(2, 1);
  counted.graph.mutable_output()->DeleteSubrange(0, 1);
  Imported i(counted);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.run({no, floats({2}, {-1, 2})})[0].intAt(0), 1);
  Tensor yes(Element::Bool, {});
  yes.setInt(0, 1);
  EXPECT_EQ(i.run({yes, floats({2}, {-1, 2})})[0].intAt(0), 2);
}

TEST(Containers, LoopsThatGrowOneAreUnrolled) {
  TestModel m;
  m.input("x", {"2"});
  ints(m.graph, "three", {3}, /*scalar=*/true);
  m.node("SequenceEmpty", {}, {"none"});
  auto *n = m.node("Loop", {"three", "", "none"}, {"all", "steps"});
  onnx::GraphProto &body = setGraph(n, "body");
  for (const char *name : {"i", "c", "list"})
    body.add_input()->set_name(name);
  set(node(body, "Cast", {"i"}, {"f"}), "to", int64_t(onnx::TensorProto::FLOAT));
  node(body, "Mul", {"x", "f"}, {"v"});
  node(body, "SequenceInsert", {"list", "v"}, {"more"});
  node(body, "Identity", {"c"}, {"again"});
  for (const char *name : {"again", "more", "f"})
    body.add_output()->set_name(name);
  m.output("all");
  m.output("steps");
  Unfolded u(m);
  ASSERT_TRUE(u.model) << u.messages;
  auto out = u.run({floats({2}, {1, 10})});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(values(out[2]), Numbers({2, 20}));
  EXPECT_EQ(values(out[3]), Numbers({0, 1, 2}));
}

/// Row i of x [N, 2], lengths[i] times, goes to a sequence; `after` reads it as `all`.
TestModel growing(const std::function<void(TestModel &)> &after) {
  TestModel m;
  m.input("x", {"N", "2"});
  m.input("lengths", {"N"}, onnx::TensorProto::INT64);
  ints(m.graph, "zero", {0}, /*scalar=*/true);
  ints(m.graph, "first", {0});
  ints(m.graph, "two", {2});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"count"});
  m.node("SequenceEmpty", {}, {"none"});
  auto *n = m.node("Loop", {"count", "", "none"}, {"all"});
  onnx::GraphProto &body = setGraph(n, "body");
  for (const char *name : {"i", "c", "list"})
    body.add_input()->set_name(name);
  node(body, "Gather", {"x", "i"}, {"row"});
  node(body, "Gather", {"lengths", "i"}, {"length"});
  node(body, "Unsqueeze", {"length", "first"}, {"times"});
  set(node(body, "Concat", {"times", "two"}, {"wanted"}), "axis", int64_t(0));
  node(body, "Expand", {"row", "wanted"}, {"rows"});
  node(body, "SequenceInsert", {"list", "rows"}, {"more"});
  node(body, "Identity", {"c"}, {"again"});
  for (const char *name : {"again", "more"})
    body.add_output()->set_name(name);
  after(m);
  return m;
}

TEST(Containers, LoopsOfOpenLengthStackWhatTheyInsert) {
  ImportOptions options;
  options.ranges = {{"N", {1, 5}}, {"lengths", {0, 4}}};
  const TestModel m = growing([](TestModel &m) {
    set(m.node("ConcatFromSequence", {"all"}, {"joined"}), "axis", int64_t(0));
    m.node("SequenceLength", {"all"}, {"pieces"});
    ints(m.graph, "last", {-1}, /*scalar=*/true);
    m.node("SequenceAt", {"all", "last"}, {"end"});
    for (const char *name : {"joined", "pieces", "end"})
      m.output(name);
  });
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.all(Op::Loop).size(), 1u);
  auto out = i.run({floats({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor::fromInts({2, 0, 1})});
  EXPECT_EQ(values(out[0]), Numbers({1, 2, 1, 2, 5, 6}));
  EXPECT_EQ(values(out[1]), Numbers({3}));
  EXPECT_EQ(values(out[2]), Numbers({5, 6}));
  out = i.run({floats({1, 2}, {7, 8}), Tensor::fromInts({3})});
  EXPECT_EQ(values(out[0]), Numbers({7, 8, 7, 8, 7, 8}));
}

/// Each branch of an If appends to the sequence: row i, or what `other` makes of it in its place.
Imported appendingInBranches(const std::function<void(onnx::GraphProto &)> &other) {
  TestModel m;
  m.input("x", {"N", "2"});
  ints(m.graph, "zero", {0}, /*scalar=*/true);
  ints(m.graph, "none", {0});
  ints(m.graph, "one", {1});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"count"});
  m.node("SequenceEmpty", {}, {"empty"});
  auto *n = m.node("Loop", {"count", "", "empty"}, {"all"});
  onnx::GraphProto &body = setGraph(n, "body");
  for (const char *name : {"i", "c", "list"})
    body.add_input()->set_name(name);
  node(body, "Gather", {"x", "i"}, {"row"});
  set(node(body, "ReduceSum", {"row"}, {"sum"}), "keepdims", int64_t(0));
  weight(body, "nothing", {}, 0);
  node(body, "Greater", {"sum", "nothing"}, {"above"});
  auto *choice = node(body, "If", {"above"}, {"more"});
  onnx::GraphProto &then = setGraph(choice, "then_branch"), &rest = setGraph(choice, "else_branch");
  node(then, "SequenceInsert", {"list", "row"}, {"longer"});
  then.add_output()->set_name("longer");
  other(rest);
  rest.add_output()->set_name("other");
  node(body, "Identity", {"c"}, {"again"});
  for (const char *name : {"again", "more"})
    body.add_output()->set_name(name);
  set(m.node("ConcatFromSequence", {"all"}, {"y"}), "axis", int64_t(0));
  m.output("y");
  ImportOptions options;
  options.ranges = {{"N", {1, 5}}};
  return Imported(m, options);
}

TEST(Containers, BranchesMayInsert) {
  Imported i = appendingInBranches([](onnx::GraphProto &g) {
    node(g, "Slice", {"row", "none", "one"}, {"first"});
    node(g, "SequenceInsert", {"list", "first"}, {"other"});
  });
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({3, 2}, {1, 2, -3, -4, 5, 6})})[0]), Numbers({1, 2, -3, 5, 6}));
  EXPECT_EQ(values(i.run({floats({1, 2}, {-7, -8})})[0]), Numbers({-7}));
  // One may leave the sequence as it is.
  Imported some =
      appendingInBranches([](onnx::GraphProto &g) { node(g, "Identity", {"list"}, {"other"}); });
  ASSERT_TRUE(some) << some.messages;
  EXPECT_EQ(values(some.run({floats({4, 2}, {1, 2, -3, -4, 5, 6, -7, 0})})[0]),
            Numbers({1, 2, 5, 6}));
  EXPECT_EQ(some.run({floats({1, 2}, {-7, -8})})[0].size(), 0);
  // A branch that starts the sequence anew does not append.
  Imported anew = appendingInBranches(
      [](onnx::GraphProto &g) { node(g, "SequenceConstruct", {"row"}, {"other"}); });
  EXPECT_TRUE(mentions(anew.messages, "the trip count of a loop that carries sequences"))
      << anew.messages;
}

TEST(Containers, AnOpenLengthIsNamedWhereItHasToBeKnown) {
  ImportOptions options;
  options.ranges = {{"N", {1, 5}}, {"lengths", {0, 4}}};
  const TestModel m = growing([](TestModel &m) {
    m.node("SequenceErase", {"all"}, {"fewer"});
    m.node("SequenceLength", {"fewer"}, {"y"});
    m.output("y");
  });
  Imported i(m, options);
  EXPECT_TRUE(mentions(i.messages, "expected a sequence of a known number of tensors, found one of "
                                   "N; give its symbols values with --bind"))
      << i.messages;
  Imported out(growing([](TestModel &m) { m.output("all"); }), options);
  EXPECT_TRUE(mentions(out.messages, "'all' is a sequence of N tensors")) << out.messages;
}

/// x [3, N] along its second dimension by operand `size`, which `make` declares.
Imported splitOpen(const std::function<void(TestModel &)> &make) {
  TestModel m;
  m.input("x", {"3", "N"});
  make(m);
  ints(m.graph, "last", {-1}, /*scalar=*/true);
  set(m.node("SplitToSequence", {"x", "size"}, {"s"}), "axis", int64_t(1));
  m.node("SequenceAt", {"s", "last"}, {"y"});
  m.node("SequenceLength", {"s"}, {"pieces"});
  set(m.node("ConcatFromSequence", {"s"}, {"all"}), "axis", int64_t(1));
  for (const char *name : {"y", "pieces", "all"})
    m.output(name);
  ImportOptions options;
  options.ranges = {{"N", {2, 5}}};
  return Imported(m, options);
}

TEST(Containers, SplitsOfOpenLengthAreOfOneSize) {
  for (int64_t size : {1, 2}) {
    Imported i = splitOpen([&](TestModel &m) { ints(m.graph, "size", {size}, /*scalar=*/true); });
    ASSERT_TRUE(i) << i.messages;
    auto out = i.run({floats({3, 2}, {1, 2, 3, 4, 5, 6})});
    EXPECT_EQ(values(out[0]), size == 1 ? Numbers({2, 4, 6}) : Numbers({1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(values(out[1]), Numbers({2.0 / double(size)}));
    // The last piece may be shorter.
    out = i.run({floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})});
    EXPECT_EQ(values(out[0]), Numbers({3, 6, 9}));
    EXPECT_EQ(values(out[1]), Numbers({size == 1 ? 3.0 : 2.0}));
    EXPECT_EQ(values(out[2]), Numbers({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  Imported other = splitOpen([](TestModel &m) { ints(m.graph, "size", {1, 2}); });
  EXPECT_TRUE(mentions(other.messages, "expected a known extent of dimension 1, or one known size"))
      << other.messages;
}

TEST(Containers, LoopsThatGrowOneAskATruthValue) {
  TestModel m;
  ints(m.graph, "three", {3}, /*scalar=*/true);
  onnx::TensorProto *word = m.graph.add_initializer();
  word->set_name("word");
  word->set_data_type(onnx::TensorProto::STRING);
  word->add_string_data("yes");
  m.node("SequenceEmpty", {}, {"none"});
  auto *n = m.node("Loop", {"three", "", "none"}, {"all"});
  onnx::GraphProto &body = setGraph(n, "body");
  for (const char *name : {"i", "c", "list"})
    body.add_input()->set_name(name);
  node(body, "SequenceInsert", {"list", "i"}, {"more"});
  node(body, "Identity", {"word"}, {"again"});
  for (const char *name : {"again", "more"})
    body.add_output()->set_name(name);
  m.output("all");
  Unfolded u(m);
  EXPECT_FALSE(u.model);
  EXPECT_TRUE(mentions(u.messages, "the condition of a loop that carries sequences"));
}

TEST(Containers, OptionalsHoldAValueOrNone) {
  for (int64_t count : {0, 1}) {
    TestModel m;
    onnx::ValueInfoProto element, *info = m.graph.add_input();
    declare(&element, "o", {"2"});
    info->set_name("o");
    *info->mutable_type()->mutable_optional_type()->mutable_elem_type() = element.type();
    m.node("OptionalHasElement", {"o"}, {"has"});
    m.node("Identity", {"o"}, {"same"});
    m.output("has");
    declare(&element, "same", {"2"});
    auto *same = m.graph.add_output();
    same->set_name("same");
    *same->mutable_type()->mutable_optional_type()->mutable_elem_type() = element.type();
    Unfolded u(m, {{"o", count}});
    ASSERT_TRUE(u.model) << u.messages;
    std::vector<Tensor> inputs(size_t(count), floats({2}, {1, 2}));
    auto out = u.run(inputs);
    ASSERT_EQ(out.size(), size_t(1 + count));
    EXPECT_EQ(out[0].intAt(0), count);
    if (count) {
      EXPECT_EQ(u.graph().outputNames[1], "same[0]");
    }
  }
}

} // namespace

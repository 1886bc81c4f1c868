// Walks what the operator table can refuse: every row gets wrong forms of a node, and each message
// names the node and its operator, what was expected, and what to do.
#include "Support.h"

#include "frontend/onnx/Table.h"

using namespace tenon;
using namespace tenon::test;

namespace {

/// A model of one node 'n' of the row's operator, with `count` operands of `type` and `shape`.
struct OneNode : TestModel {
  onnx::NodeProto *node;
  OneNode(const frontend::OperatorRow &row, unsigned count, const DeclaredShape &shape, int type)
      : TestModel(std::min<int64_t>(row.until, frontend::kNewestOpset)) {
    if (!row.domain.empty()) {
      auto *set = proto.add_opset_import();
      set->set_domain(row.domain.str());
      set->set_version(std::max(row.since, 5));
    }
    std::vector<std::string> inputs;
    for (unsigned i = 0; i < count; ++i) {
      inputs.push_back("x" + std::to_string(i));
      input(inputs.back(), shape, type);
    }
    node = test::node(graph, row.name.str(), inputs, {"y"}, "n");
    node->set_domain(row.domain.str());
    output("y");
  }
  std::string refusal() { return Imported(*this).messages; }
};

/// The message names the node and its operator, and says what was expected or what to do.
void expectWhole(const frontend::OperatorRow &row, const std::string &message) {
  EXPECT_TRUE(mentions(message, "node 'n")) << row.name.str();
  EXPECT_TRUE(mentions(message, row.name.str())) << message;
  bool says = false;
  for (const char *part : {"expect", "; ", "--bind", "--range", "out of range", "do not broadcast"})
    says |= message.find(part) != std::string::npos;
  EXPECT_TRUE(says) << row.name.str() << ": " << message;
}

class Refusals : public testing::Test {
protected:
  /// Calls `wrong` for every row and returns how many messages there were.
  template <class F> static int forEachRow(F wrong) {
    int refused = 0;
    for (const frontend::OperatorRow &row : frontend::operatorTable()) {
      const std::string message = wrong(row);
      if (message.find("error:") == std::string::npos)
        continue;
      ++refused;
      expectWhole(row, message);
    }
    return refused;
  }
};

TEST_F(Refusals, UnknownAttributes) {
  const int refused = forEachRow([](const frontend::OperatorRow &row) {
    OneNode m(row, row.required, {"2", "3"}, onnx::TensorProto::FLOAT);
    set(m.node, "frobnication", 1);
    const std::string message = m.refusal();
    EXPECT_TRUE(mentions(message, "attribute 'frobnication' is unknown to " + row.name.str()))
        << row.name.str();
    return message;
  });
  EXPECT_EQ(refused, int(frontend::operatorTable().size()));
}

TEST_F(Refusals, MissingOperands) {
  int needed = 0;
  const int refused = forEachRow([&](const frontend::OperatorRow &row) -> std::string {
    if (row.required == 0)
      return "";
    ++needed;
    return OneNode(row, row.required - 1, {"2", "3"}, onnx::TensorProto::FLOAT).refusal();
  });
  EXPECT_EQ(refused, needed);
}

TEST_F(Refusals, ElementsRanksAndConstants) {
  using Proto = onnx::TensorProto;
  EXPECT_GT(forEachRow([](const frontend::OperatorRow &row) {
              return OneNode(row, row.required, {"2", "3"}, Proto::STRING).refusal();
            }),
            150);
  for (const DeclaredShape &shape : {DeclaredShape{}, {"2"}, {"2", "3"}, {"2", "3", "2", "3", "2"}})
    for (int type : {Proto::FLOAT, Proto::INT64, Proto::BOOL})
      EXPECT_GT(forEachRow([&](const frontend::OperatorRow &row) {
                  return OneNode(row, row.required, shape, type).refusal();
                }),
                40);
}

} // namespace

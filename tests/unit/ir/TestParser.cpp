// Tests what is left behind by text that does not parse.
#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

TEST(Parser, GivesUpHalfReadModules) {
  // The second region uses a value of the first; then comes an error.
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(R"(module "m" stage=imported {
  graph @main (%c "c": tensor<i1>, %x "x": tensor<2xf32>) -> ("y") {
    %y = if %c, %x (%0: tensor<2xf32>) {
      yield %0
    } (%1: tensor<2xf32>) {
      %2 = map %0 (%3: f32) {
        %4 = neg %3 : f32
        yield %4
      } : tensor<2xf32>
      oops
)");
  Context context;
  Diagnostics diagnostics;
  EXPECT_EQ(parseModule(context, *buffer, "", diagnostics), nullptr); // and nothing dies in use
  EXPECT_TRUE(diagnostics.hasErrors());
}

/// The messages of a text that does not parse.
std::string messagesOf(const std::string &text) {
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(text);
  Context context;
  Diagnostics diagnostics;
  EXPECT_EQ(parseModule(context, *buffer, "", diagnostics), nullptr);
  std::string messages;
  llvm::raw_string_ostream os(messages);
  diagnostics.print(os);
  return os.str();
}

/// The module that `text` is, as text; the messages where it does not parse.
std::string printedAgain(const std::string &text) {
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(text);
  Context context;
  Diagnostics diagnostics;
  const auto module = parseModule(context, *buffer, "", diagnostics);
  std::string again;
  llvm::raw_string_ostream os(again);
  module ? print(*module, os, PrintOptions()) : diagnostics.print(os);
  return os.str();
}

TEST(Parser, ComplexLiteralsKeepBothParts) {
  const std::string text = R"(module "m" stage=imported {
  graph @main () -> ("y", "z") {
    %y = constant {value = dense<2xc64: (1.5, -0.0), (-inf, bits(2143289345))>} : tensor<2xc64>
    %z = constant {value = splat<3xc128: (-0.0, 0.1)>} : tensor<3xc128>
    return %y, %z
  }
}
)";
  EXPECT_EQ(printedAgain(text), text);
}

TEST(Parser, LiteralsKeepThePayloadOfNaN) {
  const auto constant = [](const std::string &type, const std::string &element) {
    return "module \"m\" stage=imported {\n  graph @main () -> (\"y\") {\n    %y = constant {value "
           "= "
           "dense<" +
           type + ": " + element + ">} : tensor<" + type + ">\n    return %y\n  }\n}\n";
  };
  for (const char *type : {"f64: 18446744073709551615", "f64: 9218868437227405313",
                           "f32: 4294967295", "f16: 65535", "bf16: 32641", "f8e4m3: 255"}) {
    const auto [element, pattern] = llvm::StringRef(type).split(": ");
    const std::string text = constant(element.str(), "bits(" + pattern.str() + ")");
    EXPECT_EQ(printedAgain(text), text);
  }
  for (const char *type :
       {"f64: 18446744073709551616", "f64: -1", "f32: 4294967296", "f8e4m3: 256"}) {
    const auto [element, pattern] = llvm::StringRef(type).split(": ");
    EXPECT_NE(messagesOf(constant(element.str(), "bits(" + pattern.str() + ")"))
                  .find("expected an integer from 0 to 2^"),
              std::string::npos)
        << type;
  }
}

TEST(Parser, LongTextStaysBesideASideFile) {
  // A side file holds bytes that can be mapped. Text has none, however many elements there are.
  std::string words = "\"w0\"";
  for (int i = 1; i < 40; ++i)
    words += ", \"w" + std::to_string(i) + "\"";
  const std::string text = "module \"m\" stage=imported {\n"
                           "  graph @main () -> (\"y\") {\n"
                           "    %y = constant {value = dense<40xstr: " +
                           words + ">} : tensor<40xstr>\n    return %y\n  }\n}\n";
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(text);
  Context context;
  Diagnostics diagnostics;
  const auto module = parseModule(context, *buffer, "", diagnostics);
  ASSERT_NE(module, nullptr) << messagesOf(text);
  std::string again, data;
  llvm::raw_string_ostream os(again);
  PrintOptions options;
  options.data = &data;
  print(*module, os, options);
  EXPECT_EQ(os.str(), text);
  EXPECT_EQ(data, "");
}

TEST(Parser, SplatLiteralsAreBounded) {
  for (const char *extents :
       {"2147483648x8xi8: 1", "8589934592x5xi8: 1", "1073741825xi1: true", "2147483648x8xi4: 1"}) {
    const std::string e = extents, type = e.substr(0, e.find(':'));
    EXPECT_NE(messagesOf("module \"m\" stage=imported {\n  graph @main () -> (\"y\") {\n"
                         "    %y = constant {value = splat<" +
                         e + ">} : tensor<" + type + ">\n    return %y\n  }\n}\n")
                  .find("splat literals of one text hold at most 1024 MiB"),
              std::string::npos)
        << extents;
  }
}

TEST(Parser, SplatsOfPackedElements) {
  for (const char *splat : {"5xi4: -3", "1xi4: -3", "4xi4: -3", "9xu2: 3", "4xf4e2m1: 1.5"}) {
    const std::string e = splat, type = e.substr(0, e.find(':'));
    const auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
        "module \"m\" stage=imported {\n  graph @main () -> (\"y\") {\n    %y = constant {value = "
        "splat<" +
        e + ">} : tensor<" + type + ">\n    return %y\n  }\n}\n");
    Context context;
    Diagnostics diagnostics;
    const auto module = parseModule(context, *buffer, "", diagnostics);
    ASSERT_NE(module, nullptr) << splat;
    const Operation &op = *module->graph().returnOp()->operand(0)->def();
    const Tensor &t = **op.find("value")->get<Literal>();
    for (int64_t i = 0; i < t.size(); ++i)
      EXPECT_EQ(t.at(i), std::stod(e.substr(e.find(':') + 1))) << splat << " " << i;
  }
}

TEST(Parser, CountsOfLoopsMayNotOverflow) {
  for (const char *counts :
       {"carried = 1, scans = 9223372036854775807", "carried = 9223372036854775807, scans = 0"})
    EXPECT_NE(messagesOf(std::string(R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2xf32>, %t "t": tensor<i64>, %go "go": tensor<i1>) -> ("y") {
    %y = loop %t, %go, %x {)") +
                         counts + R"(} (%n: tensor<i64>, %c: tensor<i1>, %0: tensor<2xf32>) {
      yield %c, %0
    } : tensor<2xf32>
    return %y
  }
}
)")
                  .find("expected"),
              std::string::npos)
        << counts;
}

} // namespace

// Tests how narrow-weights lays weights out: element by element against what they were, for every
// width, lying as rows and as columns, in sizes that tiles and bytes do not divide.
#include "passes/NarrowWeights.h"

#include "ir/Text.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

struct Case {
  const char *element;
  int zero;       // the zero point of all
  bool rows;      // weights [n, k], else [k, n]
  bool perColumn; // scales by column, else by block
};

int64_t weight(int64_t i, Element e) {
  return minInt(e) + int64_t((i * 2654435761u >> 7) % uint64_t(maxInt(e) - minInt(e) + 1));
}
double scale(int64_t i) { return 0.25 * double(i % 13 + 1); }

void check(const Case &c, int64_t n, int64_t k) {
  const int64_t block = c.perColumn ? k : 16, blocks = k / block;
  Context context;
  Diagnostics diagnostics;
  const Element stored = *parseElement(c.element);
  // What the map reads: q [n, blocks, block] or [blocks, block, n], scales [n, blocks] or [blocks,
  // n].
  std::string text = "module \"m\" stage=imported {\n  graph @main (%x \"x\": tensor<1x" +
                     std::to_string(k) + "xf16>) -> (\"y\") {\n    %q = constant {value = dense<";
  auto list = [](llvm::ArrayRef<int64_t> shape) {
    std::string s;
    for (int64_t d : shape)
      s += std::to_string(d) + "x";
    return s;
  };
  const std::string space = c.rows ? list({n, blocks, block}) : list({blocks, block, n});
  const std::string scales = c.rows ? list({n, blocks}) : list({blocks, n});
  const std::string s = "f16", q = c.element;
  text += space + q + ": ";
  for (int64_t i = 0; i < n * k; ++i)
    text += (i ? ", " : "") + std::to_string(weight(i, stored));
  text += ">} : tensor<" + space + q + ">\n    %s = constant {value = dense<" + scales + s + ": ";
  for (int64_t i = 0; i < n * blocks; ++i)
    text += (i ? ", " : "") + std::to_string(scale(i));
  text += ">} : tensor<" + scales + s + ">\n    %w = map %q, %s[" + (c.rows ? "0, 1" : "0, 2") +
          "] (%a: " + q + ", %b: " + s + ") {\n      %z = const {to = !" + q +
          ", value = " + std::to_string(c.zero) + "} : " + q +
          "\n      %v = dequantize %a, %b, %z : " + s + "\n      yield %v\n    } : tensor<" +
          space + "f16>\n    %r = reshape %w {shape = dims[" + std::to_string(c.rows ? n : k) +
          ", " + std::to_string(c.rows ? k : n) + "]} : tensor<" +
          (c.rows ? list({n, k}) : list({k, n})) + "f16>\n    %y = matmul %x, %r" +
          (c.rows ? " {trans_b = true}" : "") + " : tensor<1x" + std::to_string(n) +
          "xf16>\n    return %y\n  }\n}\n";
  auto buffer = llvm::MemoryBuffer::getMemBuffer(text);
  auto parsed = parseModule(context, *buffer, "", diagnostics);
  ASSERT_TRUE(parsed) << diagnostics.list().front().message << "\n" << text.substr(0, 300);
  PassContext passes(diagnostics);
  ASSERT_TRUE(runNarrowWeights(parsed->graph(), passes));
  const Operation &matmul = *parsed->graph().returnOp()->operand(0)->def();
  const bool centred = c.zero == (isSignedInt(stored) ? 0 : (maxInt(stored) + 1) / 2);
  ASSERT_EQ(matmul.numOperands(), centred ? 3u : 4u);
  auto literal = [&](unsigned i) -> const Tensor & {
    return **matmul.operand(i)->def()->find("value")->get<Literal>();
  };
  const Tensor &w = literal(1), &by = literal(2);
  ASSERT_EQ(w.shape(), llvm::ArrayRef<int64_t>({n, k}));
  ASSERT_EQ(by.shape(), llvm::ArrayRef<int64_t>({n, blocks}));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i)
      ASSERT_EQ(w.intAt(row * k + i),
                weight(c.rows ? row * k + i : i * n + row, stored) - (centred ? c.zero : 0))
          << row << " " << i;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t b = 0; b < blocks; ++b)
      ASSERT_EQ(by.at(row * blocks + b), scale(c.rows ? row * blocks + b : b * n + row));
}

TEST(NarrowWeights, LieAsRows) {
  for (Case c :
       {Case{"u4", 8, true, false}, Case{"u4", 8, false, false}, Case{"u4", 3, true, false},
        Case{"u4", 3, false, false}, Case{"u2", 2, true, false}, Case{"u2", 2, false, false},
        Case{"u8", 128, true, false}, Case{"u8", 128, false, false}, Case{"i8", 0, false, false},
        Case{"i4", 0, false, false}, Case{"i4", 0, true, false}, Case{"i2", 1, false, false},
        Case{"u4", 8, true, true}, Case{"u8", 7, false, true}})
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 16}, {3, 48}, {65, 80}, {67, 144}}) {
      SCOPED_TRACE(std::string(c.element) + (c.rows ? " rows " : " columns ") + std::to_string(n) +
                   " " + std::to_string(k));
      check(c, n, k);
    }
}

} // namespace
} // namespace tenon

// Tests the image of the weights: which constants share a place, and that the hash is that of the
// bytes, whenever and wherever to it is written.
#include "codegen/memory/WeightImage.h"

#include "ir/Builder.h"
#include "ir/Context.h"

#include "llvm/Support/Endian.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// Numbers of no pattern, the same for the same seed.
Tensor numbers(Element e, llvm::ArrayRef<int64_t> shape, uint32_t seed) {
  Tensor t(e, shape);
  uint8_t *bytes = t.mutableBytes();
  for (size_t i = 0; i < t.bytes().size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = uint8_t(seed >> 24);
  }
  return t;
}

class WeightImageTest : public testing::Test {
protected:
  /// Where a constant stands once a plan that has it is merged.
  int64_t merge(WeightImage &image, const Tensor &t, Layout layout = Layout(),
                const char *stored = nullptr) {
    Value *v = builder_.constant(t);
    v->setType(Type::tensor(context_, t.element(), t.shape(), layout));
    if (stored)
      v->def()->set("stored", Word{stored});
    Plan plan;
    plan.buffers.emplace_back();
    plan.buffers.back().home = Home::Weights;
    plan.buffers.back().values.push_back(v);
    plan.placements[v].home = Home::Weights;
    image.merge(plan);
    EXPECT_EQ(plan.buffers.back().at, plan[v].at);
    return plan[v].at;
  }

  Context context_;
  Module module_{context_};
  Diagnostics diagnostics_;
  Builder builder_{module_.addGraph("main").body(), diagnostics_};
};

TEST_F(WeightImageTest, EqualConstantsHaveOnePlace) {
  WeightImage image;
  const Tensor a = numbers(Element::F16, {300, 70}, 1);
  EXPECT_EQ(merge(image, a), 0);
  EXPECT_EQ(merge(image, numbers(Element::F16, {300, 70}, 1)), 0);
  EXPECT_EQ(merge(image, a.reshaped({70, 300})), 0) << "other forms, the same bytes";
  const LayoutAxis swapped[] = {{1, 0, false, Dim(), 0}, {0, 0, false, Dim(), 0}};
  const Layout turned = Layout::get(context_, swapped);
  const auto size = int64_t(image.size());
  EXPECT_EQ(merge(image, a, turned), size) << "other bytes";
  // The transpose, stored the other way round, has the bytes of the first.
  Tensor transposed(Element::F16, {70, 300});
  for (int64_t i = 0; i < a.size(); ++i)
    transposed.mutableAs<uint16_t>()[i % 70 * 300 + i / 70] =
        reinterpret_cast<const uint16_t *>(a.bytes().data())[i];
  EXPECT_EQ(merge(image, transposed, turned), 0);
  EXPECT_EQ(image.pieces().size(), 2u);
}

/// Constants that differ at their ends alone are told apart, in one form and in two.
TEST_F(WeightImageTest, ConstantsAreComparedWhole) {
  WeightImage image;
  const Tensor a = numbers(Element::F32, {400, 100}, 2);
  Tensor first = a, last = a;
  first.mutableBytes()[0] ^= 1;
  last.mutableBytes()[last.bytes().size() - 1] ^= 1;
  const int64_t at = merge(image, a), atFirst = merge(image, first),
                atLast = merge(image, last.reshaped({100, 400}));
  EXPECT_NE(at, atFirst);
  EXPECT_NE(at, atLast);
  EXPECT_NE(atFirst, atLast);
  EXPECT_EQ(merge(image, last), atLast);
}

/// Odd sizes, whose pieces end in zeros, and forms of all kinds of parts.
TEST_F(WeightImageTest, TheHashIsThatOfTheBytes) {
  WeightImage image;
  const LayoutAxis swapped[] = {{1, 0, false, Dim(), 0}, {0, 0, false, Dim(), 0}};
  const Layout turned = Layout::get(context_, swapped);
  merge(image, numbers(Element::U8, {13}, 3));
  merge(image, numbers(Element::F16, {700, 900}, 4), turned);
  const uint64_t before = image.hash();
  EXPECT_EQ(before, hashBytes(image.bytes()));
  merge(image, numbers(Element::F32, {3, 5}, 5), Layout(), "tf32x3");
  merge(image, numbers(Element::F32, {400, 600}, 6), turned, "tf32x3");
  merge(image, numbers(Element::I4, {100, 640}, 7), Layout(), "strips");
  merge(image, numbers(Element::F16, {100, 20}, 8), Layout(), "scales4x1");
  const uint64_t all = image.hash(); // before anything is written
  EXPECT_NE(all, before);
  EXPECT_EQ(all, hashBytes(image.bytes()));
  EXPECT_EQ(image.bytes().size(), image.size());
}

/// A file of the weights has the hash in its head; text that is written behind it has it, too, and
/// so has text that comes first.
TEST_F(WeightImageTest, FilesHaveTheHash) {
  for (const bool textFirst : {false, true}) {
    auto image = std::make_shared<WeightImage>();
    merge(*image, numbers(Element::F16, {100, 90}, 9));
    merge(*image, numbers(Element::U8, {7}, 10));
    const CompiledFile weights{".weights", "", [=](auto &os) { image->writeFile(os); }},
        source = textAroundHash(".cpp", "before ", " behind", image);
    std::string text = textFirst ? source.text() : "";
    const std::string file = weights.text();
    if (!textFirst)
      text = source.text();
    const std::string bytes = file.substr(WeightImage::kHeaderBytes);
    EXPECT_TRUE(bytes == image->bytes());
    EXPECT_EQ(text, "before " + std::to_string(hashBytes(bytes)) + " behind");
    EXPECT_EQ(file.substr(0, 8), "TENONWT1");
    EXPECT_EQ(llvm::support::endian::read64le(&file[8]), bytes.size());
    EXPECT_EQ(llvm::support::endian::read64le(&file[16]), hashBytes(bytes));
    EXPECT_TRUE(weights.text() == file) << "a second time";
  }
}

TEST(WritingOrder, WeightsComeFirst) {
  const std::vector<CompiledFile> files = {{".cu", ""}, {".h", ""}, {".weights", ""}, {".c", ""}};
  EXPECT_EQ(writingOrder(files), (std::vector<size_t>{2, 0, 1, 3}));
}

} // namespace

// Tests files: TensorProto in every storage field, and whole test models with their data sets when
// TENON_MODELS names a folder of them.
#include "Support.h"

#include "frontend/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <cmath>
#include <cstdlib>
#include <fstream>

using namespace tenon;
using namespace tenon::test;

namespace {

TEST(Hash, EveryLengthOfTheLastBlock) {
  std::string text;
  for (int length = 0; length < 200; ++length, text += char(length * 7)) {
    llvm::SHA256 hash;
    hash.update(llvm::StringRef(text));
    EXPECT_EQ(frontend::sha256(text), llvm::toHex(hash.final(), /*LowerCase=*/true)) << length;
  }
  // "abc", from the standard.
  EXPECT_EQ(frontend::sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TensorFile, RoundTrip) {
  llvm::SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("tenon", "pb", path));
  Diagnostics diagnostics;
  for (Element e : {Element::Bool, Element::I4, Element::U8, Element::I16, Element::I64,
                    Element::F16, Element::BF16, Element::F32, Element::F64}) {
    Tensor t(e, {3});
    for (int64_t i = 0; i < 3; ++i)
      t.set(i, double(i % 2));
    std::string name;
    ASSERT_TRUE(writeTensorProto(path, t, "some name", diagnostics));
    auto back = readTensorProto(path, diagnostics, &name);
    ASSERT_TRUE(back);
    EXPECT_TRUE(back->sameBytes(t)) << tenon::name(e).str();
    EXPECT_EQ(back->shape(), t.shape());
    EXPECT_EQ(name, "some name");
  }
  EXPECT_FALSE(readTensorProto("/does/not/exist.pb", diagnostics));
  std::ofstream(path.c_str()) << "damaged";
  EXPECT_FALSE(readTensorProto(path, diagnostics));
  llvm::sys::fs::remove(path);
}

std::string modelsFolder() {
  const char *folder = std::getenv("TENON_MODELS");
  return folder ? folder : "";
}

/// Imports a model, runs it on its first data set and compares with the outputs there.
void checkModel(const std::string &folder) {
  SCOPED_TRACE(folder);
  Context context;
  Diagnostics diagnostics;
  auto report = [&] {
    std::string s;
    llvm::raw_string_ostream os(s);
    diagnostics.print(os);
    return os.str();
  };
  auto model = OnnxModel::load(folder + "/model.onnx", diagnostics);
  ASSERT_TRUE(model) << report();
  auto read = [&](const char *kind) {
    std::vector<Tensor> list;
    for (int i = 0;; ++i) {
      const std::string path =
          folder + "/test_data_set_0/" + kind + "_" + std::to_string(i) + ".pb";
      if (!llvm::sys::fs::exists(path))
        return list;
      auto t = readTensorProto(path, diagnostics);
      list.push_back(t ? *t : Tensor());
    }
  };
  const std::vector<Tensor> inputs = read("input"), expected = read("output");
  ImportOptions options;
  ASSERT_TRUE(model->bindFromData(inputs, options, diagnostics)) << report();
  auto imported = model->toModule(context, options, diagnostics);
  ASSERT_TRUE(imported) << report();
  ASSERT_TRUE(verify(*imported->module, diagnostics)) << report();
  std::vector<Tensor> outputs;
  ASSERT_TRUE(interpret(imported->module->graph(), inputs, outputs, diagnostics)) << report();
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    ASSERT_EQ(outputs[k].shape(), expected[k].shape());
    double largest = 0, error = 0;
    for (int64_t i = 0; i < expected[k].size(); ++i) {
      largest = std::max(largest, std::fabs(expected[k].at(i)));
      error = std::max(error, std::fabs(expected[k].at(i) - outputs[k].at(i)));
    }
    EXPECT_LE(error, 1e-4 * largest) << "output " << k;
  }
}

class RealModel : public ::testing::TestWithParam<const char *> {};

TEST_P(RealModel, MatchesItsData) {
  const std::string folder = modelsFolder() + "/" + GetParam();
  if (!llvm::sys::fs::exists(folder + "/model.onnx"))
    GTEST_SKIP() << "TENON_MODELS has no " << GetParam();
  checkModel(folder);
}

INSTANTIATE_TEST_SUITE_P(All, RealModel,
                         ::testing::Values("nanodet_m_320", "ultraface_rfb_320", "super_resolution",
                                           "basic_pitch", "vww_mobilenet_fp32", "vww_mobilenet_qdq",
                                           "resnet8_fp32", "resnet8_qdq", "kws_dscnn_qdq",
                                           "ad_autoencoder_qdq", "micro_kws_fp32",
                                           "tf_bert_qa_tiny"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace

// Damages models, imports and optimises them: whatever comes, there is a module that verifies, or
// there are errors. An executable of its own, quickly built with sanitizers
// (scripts/mutate-models): without code generation and driver, which read no bytes of models.
// TENON_MUTATIONS says how many copies, TENON_MUTATION_SEED which.
#include "passes/PassManager.h"
#include "tests/unit/frontend/Support.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

/// A model with something of everything: weights, shape arithmetic, subgraphs, a function, a
/// quantised part.
std::string everything() {
  TestModel m;
  m.proto.add_opset_import()->set_domain("local");
  auto *f = m.proto.add_functions();
  f->set_domain("local");
  f->set_name("Twice");
  f->add_input("x");
  f->add_output("y");
  for (int k = 0; k < 2; ++k) {
    auto *n = f->add_node();
    n->set_op_type(k ? "Tanh" : "Relu");
    n->add_input(k ? "t" : "x");
    n->add_output(k ? "y" : "t");
  }
  m.input("x", {"1", "3", "8", "8"});
  m.input("flag", {}, onnx::TensorProto::BOOL);
  weight(m.graph, "w", {4, 3, 3, 3}, 0.1f);
  weight(m.graph, "b", {4}, 0.2f);
  auto *conv = m.node("Conv", {"x", "w", "b"}, {"c"});
  set(conv, "pads", std::vector<int64_t>{1, 1, 1, 1});
  set(conv, "strides", std::vector<int64_t>{2, 2});
  auto *pool = m.node("MaxPool", {"c"}, {"p"});
  set(pool, "kernel_shape", std::vector<int64_t>{2, 2});
  set(pool, "ceil_mode", 1);
  m.node("Twice", {"p"}, {"t"})->set_domain("local");
  weight(m.graph, "scale", {}, 0.05f);
  m.node("QuantizeLinear", {"t", "scale"}, {"q"});
  m.node("DequantizeLinear", {"q", "scale"}, {"d"});
  m.node("Shape", {"d"}, {"s"});
  ints(m.graph, "first", {0});
  ints(m.graph, "minus", {-1});
  m.node("Gather", {"s", "first"}, {"n"});
  set(m.node("Concat", {"n", "minus"}, {"shape"}), "axis", 0);
  m.node("Reshape", {"d", "shape"}, {"flat"});
  ints(m.graph, "starts", {1});
  ints(m.graph, "ends", {9});
  m.node("Slice", {"flat", "starts", "ends", "minus"}, {"part"});
  set(m.node("Softmax", {"part"}, {"soft"}), "axis", 1);
  auto *choice = m.node("If", {"flag"}, {"chosen"});
  auto &yes = setGraph(choice, "then_branch");
  node(yes, "Add", {"soft", "part"}, {"sum"});
  yes.add_output()->set_name("sum");
  setGraph(choice, "else_branch").add_output()->set_name("part");
  ints(m.graph, "three", {3}, true);
  auto *loop = m.node("Loop", {"three", "", "chosen"}, {"last", "steps"});
  auto &body = setGraph(loop, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  declare(body.add_input(), "v", {"1", "8"});
  node(body, "Mul", {"v", "soft"}, {"next"});
  for (const char *name : {"go", "next", "next"})
    body.add_output()->set_name(name);
  m.output("last");
  m.output("steps");
  return m.bytes();
}

/// One to four damages: bits, bytes, cuts, repeats, swaps, and numbers made extreme.
std::string damage(std::string bytes, std::mt19937_64 &random) {
  auto at = [&](size_t size) { return size ? size_t(random() % size) : 0; };
  for (size_t count = 1 + at(4); count > 0 && !bytes.empty(); --count) {
    const size_t i = at(bytes.size()), length = 1 + at(std::min<size_t>(64, bytes.size() - i));
    switch (random() % 8) {
    case 0: bytes[i] = char(bytes[i] ^ (1 << random() % 8)); break;
    case 1: bytes[i] = char(random()); break;
    case 2: bytes.erase(i, length); break;
    case 3: bytes.insert(i, bytes.substr(at(bytes.size()), length)); break;
    case 4: bytes.resize(i); break;
    case 5: std::swap(bytes[i], bytes[at(bytes.size())]); break;
    case 6: bytes[i] = "\x00\x7f\x80\xff"[random() % 4]; break;
    case 7: // an int64 of all ones, as protobuf writes it
      bytes.replace(i, std::min<size_t>(length, 10),
                    std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10));
      break;
    }
  }
  return bytes;
}

/// What is wrong with optimising `module`; empty when it verifies afterwards, or there are errors.
std::string optimised(Module &module) {
  Diagnostics diagnostics;
  PassContext context(diagnostics);
  Pipeline pipeline;
  if (!parsePipeline(optimizationPipeline(2), pipeline, diagnostics))
    return "the pipeline is not read";
  const bool ran = PassManager(context).run(module, pipeline);
  if (ran == diagnostics.hasErrors())
    return ran ? "optimised with errors" : "not optimised, without an error";
  std::string message, text;
  llvm::raw_string_ostream os(message), printed(text);
  print(module, printed, PrintOptions());
  Diagnostics problems;
  if (ran && !verify(module, problems))
    problems.print(os);
  return os.str();
}

TEST(Mutation, GivesAModuleOrErrors) {
  std::vector<std::string> models{everything()};
  auto addFile = [&](const std::string &path) {
    if (auto buffer = llvm::MemoryBuffer::getFile(path, false, false))
      if ((*buffer)->getBufferSize() < 400'000)
        models.push_back((*buffer)->getBuffer().str());
  };
  addFile(TENON_DIGITS);
  ASSERT_EQ(models.size(), 2u) << TENON_DIGITS << " is missing";
  // Small real models, too, where there are some.
  if (const char *folder = std::getenv("TENON_MODELS")) {
    std::error_code code;
    std::vector<std::string> paths;
    for (llvm::sys::fs::directory_iterator it(folder, code), end; !code && it != end;
         it.increment(code))
      paths.push_back(it->path() + "/model.onnx");
    llvm::sort(paths);
    for (const std::string &path : paths)
      addFile(path);
  }
  const char *wanted = std::getenv("TENON_MUTATIONS");
  const int copies = wanted ? std::atoi(wanted) : 400;
  const char *seed = std::getenv("TENON_MUTATION_SEED");
  std::mt19937_64 random(seed ? std::strtoull(seed, nullptr, 10) : 20240607);
  int imported = 0;
  for (int k = 0; k < copies; ++k) {
    const std::string bytes = damage(models[size_t(k) % models.size()], random);
    Context context;
    Diagnostics diagnostics;
    auto model = OnnxModel::parse(bytes, "", diagnostics);
    llvm::Optional<ImportedModel> result;
    ImportOptions options;
    if (model) {
      // Open symbols would end most imports at once.
      for (const DeclaredTensor &in : model->inputs())
        for (size_t d = 0; d < in.shape.size(); ++d)
          if (in.shape[d].empty() || !isdigit(static_cast<unsigned char>(in.shape[d][0])))
            options
                .bindDims[in.shape[d].empty() ? in.name + ".d" + std::to_string(d) : in.shape[d]] =
                1;
      result = model->toModule(context, options, diagnostics);
    }
    ASSERT_EQ(result.hasValue(), !diagnostics.hasErrors()) << "copy " << k;
    if (!result)
      continue;
    ++imported;
    Diagnostics problems;
    EXPECT_TRUE(verify(*result->module, problems)) << "copy " << k;
    problems.print(llvm::errs());
    if (bytes.size() < 100'000) { // real models take seconds each under sanitizers
      EXPECT_EQ(optimised(*result->module), "") << "copy " << k;
    }
  }
  // Were all copies refused, the test would say little.
  EXPECT_GT(imported, copies / 50);
  std::printf("%d of %d damaged copies were still models\n", imported, copies);
}

} // namespace

// Implements the compilation and comparison of test modules.
#include "Compiled.h"

#include "codegen/Codegen.h"
#include "ir/Context.h"
#include "ir/Interpreter.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

namespace tenon::test {
namespace {

/// Values that every arithmetic of the tests survives: floats in [-1, 1), integers in a range.
Tensor randomTensor(Element e, llvm::ArrayRef<int64_t> shape, int64_t lowest, int64_t highest,
                    std::mt19937 &engine) {
  Tensor t(e, shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    if (isFloat(e))
      t.set(i, std::uniform_real_distribution<double>(-1, 1)(engine));
    else if (isBool(e))
      t.setInt(i, int64_t(engine() & 1));
    else {
      const bool isUnsigned =
          e == Element::U8 || e == Element::U16 || e == Element::U32 || e == Element::U64;
      t.setInt(i, std::uniform_int_distribution<int64_t>(
                      isUnsigned ? std::max<int64_t>(lowest, 0) : lowest, highest)(engine));
    }
  }
  return t;
}

/// Replaces random<…> by literals in the side file.
std::string withLiterals(llvm::StringRef text, std::string &data, std::mt19937 &engine) {
  std::string out;
  for (;;) {
    const size_t at = text.find("random<");
    out += text.take_front(at).str();
    if (at == llvm::StringRef::npos)
      return out;
    text = text.drop_front(at + 7);
    auto [type, range] = text.take_front(text.find('>')).split(':');
    text = text.drop_front(text.find('>') + 1);
    llvm::SmallVector<llvm::StringRef, 6> parts;
    type.trim().split(parts, 'x');
    llvm::SmallVector<int64_t, 6> shape;
    for (llvm::StringRef p : llvm::makeArrayRef(parts).drop_back()) {
      int64_t n = 0;
      EXPECT_FALSE(p.getAsInteger(10, n)) << p.str();
      shape.push_back(n);
    }
    int64_t lowest = -100, highest = 100;
    if (!range.empty()) {
      auto [low, high] = range.trim().split("..");
      EXPECT_FALSE(low.getAsInteger(10, lowest) || high.getAsInteger(10, highest)) << range.str();
    }
    const Tensor t = randomTensor(*parseElement(parts.back()), shape, lowest, highest, engine);
    data.resize((data.size() + 63) / 64 * 64);
    out += "data<" + type.trim().str() + ": " + std::to_string(data.size()) + ">";
    data.append(reinterpret_cast<const char *>(t.bytes().data()), t.bytes().size());
  }
}

std::string messages(const Diagnostics &d) {
  std::string s;
  llvm::raw_string_ostream os(s);
  d.print(os);
  return os.str();
}

struct Folder {
  llvm::SmallString<128> path;
  Folder() { llvm::sys::fs::createUniqueDirectory("tenon-tactic", path); }
  ~Folder() { llvm::sys::fs::remove_directories(path); }
  std::string file(llvm::StringRef name) const { return (path + "/" + name).str(); }
};

/// g++ for plain C++, clang++ for vectors where there is one: both must take generated files.
std::string compilerFor(const TargetLevel &level) {
  if (level.simdWidth > 1)
    for (const char *name : {"clang++-14", "clang++"})
      if (auto found = llvm::sys::findProgramByName(name))
        return *found;
  return "c++";
}

/// Runs the shared library on inputs; results in the memory of `outputs`.
void call(const std::string &library, const std::string &prefix, Graph &graph,
          const std::vector<Dim> &symbols, const SymbolValues &values, std::vector<Tensor> &inputs,
          std::vector<Tensor> &outputs) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(handle) << dlerror();
  auto function = [&](const char *name) { return dlsym(handle, (prefix + name).c_str()); };
  auto create = reinterpret_cast<int (*)(const void *, void **)>(function("_model_open"));
  auto context = reinterpret_cast<int (*)(const void *, void **)>(function("_context_create"));
  auto setDim = reinterpret_cast<int (*)(void *, int, long)>(function("_set_dim"));
  auto outputDim = reinterpret_cast<long (*)(const void *, int, int)>(function("_output_dim"));
  auto run =
      reinterpret_cast<int (*)(void *, const void *const *, void *const *)>(function("_run"));
  auto destroyContext = reinterpret_cast<void (*)(void *)>(function("_context_destroy"));
  auto destroyModel = reinterpret_cast<void (*)(void *)>(function("_model_close"));
  ASSERT_TRUE(create && context && run && outputDim && destroyContext && destroyModel);
  void *m = nullptr, *c = nullptr;
  ASSERT_EQ(create(nullptr, &m), 0);
  ASSERT_EQ(context(m, &c), 0);
  for (size_t i = 0; i < symbols.size(); ++i) {
    auto v = values.find(symbols[i].symbol());
    if (v != values.end()) {
      ASSERT_EQ(setDim(c, int(i), long(v->second)), 0);
    }
  }
  std::vector<const void *> in;
  for (Tensor &t : inputs)
    in.push_back(t.bytes().data());
  // Results get room for their upper bounds and are cut to their actual extents afterwards.
  std::vector<Tensor> room;
  std::vector<void *> out;
  Operation *end = graph.returnOp();
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    const Type t = end->operand(i)->type();
    room.push_back(Tensor(t.element(), t.upperShape()));
  }
  for (Tensor &t : room)
    out.push_back(t.mutableBytes());
  ASSERT_EQ(run(c, in.data(), out.data()), 0);
  for (unsigned i = 0; i < room.size(); ++i) {
    llvm::SmallVector<int64_t, 6> shape;
    for (unsigned d = 0; d < room[i].rank(); ++d)
      shape.push_back(outputDim(c, int(i), int(d)));
    Tensor t(room[i].element(), shape);
    if (!t.bytes().empty())
      memcpy(t.mutableBytes(), room[i].bytes().data(), t.bytes().size());
    outputs.push_back(t);
  }
  destroyContext(c);
  destroyModel(m);
  dlclose(handle);
}

void compare(const Tensor &actual, const Tensor &expected, double tolerance,
             const std::string &what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  double largest = 1e-30;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.at(i)))
      largest = std::max(largest, std::abs(expected.at(i)));
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (!isFloat(expected.element())) {
      ASSERT_EQ(actual.intAt(i), expected.intAt(i)) << what << ", element " << i;
    } else if (std::isfinite(expected.at(i))) {
      ASSERT_NEAR(actual.at(i), expected.at(i), tolerance * largest) << what << ", element " << i;
    } else {
      ASSERT_TRUE(actual.at(i) == expected.at(i) ||
                  (std::isnan(actual.at(i)) && std::isnan(expected.at(i))))
          << what << ", element " << i << ": " << actual.at(i) << " for " << expected.at(i);
    }
  }
}

void checkOn(const CompiledCase &c, const std::string &targetName) {
  SCOPED_TRACE(targetName);
  std::mt19937 engine(1);
  std::string data;
  const std::string text = withLiterals(c.text, data, engine);
  Context context;
  Diagnostics diagnostics;
  auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "test.tn");
  auto module = parseModule(context, *buffer, data, diagnostics);
  ASSERT_TRUE(module) << messages(diagnostics) << text;

  SymbolValues values;
  for (Dim d : module->symbols) {
    auto given = c.dims.find(d.symbol().str());
    bool input = false;
    for (Value *a : module->graph().body().arguments())
      for (Dim e : a->type().shape())
        input |= e == d;
    if (input)
      values[d.symbol().str()] = given == c.dims.end() ? d.upper() : given->second;
  }
  std::vector<Tensor> inputs, expected, actual;
  for (Value *a : module->graph().body().arguments()) {
    llvm::SmallVector<int64_t, 6> shape;
    for (Dim d : a->type().shape())
      shape.push_back(*evaluate(
          d,
          [](llvm::StringRef s, void *user) -> llvm::Optional<int64_t> {
            return (*static_cast<SymbolValues *>(user))[s.str()];
          },
          &values));
    inputs.push_back(randomTensor(a->type().element(), shape, c.lowest, c.highest, engine));
  }
  ASSERT_TRUE(interpret(module->graph(), inputs, expected, diagnostics)) << messages(diagnostics);

  PassContext passContext(diagnostics);
  Pipeline pipeline;
  ASSERT_TRUE(parsePipeline(c.passes, pipeline, diagnostics)) << messages(diagnostics);
  ASSERT_TRUE(PassManager(passContext).run(*module, pipeline)) << messages(diagnostics);
  module->stage = Stage::Optimized;
  auto target = parseTarget(targetName, diagnostics);
  ASSERT_TRUE(target) << messages(diagnostics);
  ASSERT_TRUE(scheduleModule(*module, *target, {}, diagnostics)) << messages(diagnostics);
  std::vector<std::string> tactics;
  module->graph().body().walk([&](Operation *op) {
    if (op->is(Op::Group))
      tactics.push_back(op->find("schedule")->get<Schedule>()->tactic);
  });
  if (!c.tactics.empty()) {
    EXPECT_EQ(tactics, c.tactics) << toString(*module);
  }

  std::vector<CompiledFile> files;
  CompileSummary summary;
  CompileOptions options;
  options.weights = CompileOptions::Inline;
  // A prefix of its own for each: libraries of one process share what C++ says is one variable.
  static int count = 0;
  options.prefix = "model" + std::to_string(count++);
  ASSERT_TRUE(emitModule(*module, *target, options, files, summary, diagnostics))
      << messages(diagnostics);
  Folder folder;
  std::string source;
  for (const CompiledFile &f : files) {
    std::error_code error;
    llvm::raw_fd_ostream os(folder.file("model" + f.suffix), error);
    f.write(os);
    if (f.suffix == ".cpp")
      source = f.text();
  }
  // What is tested is the choice and wiring of kernels: quick builds do.
  const TargetLevel &level = *target->levels.front();
  const std::string march = level.buildFlags.substr(level.buildFlags.find(' ') + 1).str();
  const std::string command =
      compilerFor(level) + " -std=c++17 -Wall -Wextra -Werror -O1 -ffp-contract=off " +
      (level.simdWidth > 1 ? march : "") + " -shared -fPIC -o " + folder.file("model.so") + " " +
      folder.file("model.cpp") + " 2> " + folder.file("messages");
  if (std::system(command.c_str()) != 0) {
    auto log = llvm::MemoryBuffer::getFile(folder.file("messages"));
    ADD_FAILURE() << command << "\n"
                  << (*log)->getBuffer().take_front(6000).str() << toString(*module)
                  << source.substr(source.size() - std::min<size_t>(source.size(), 12000));
    return;
  }
  call(folder.file("model.so"), options.prefix, module->graph(), module->symbols, values, inputs,
       actual);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    compare(actual[i], expected[i], c.tolerance, "output " + std::to_string(i));
  if (testing::Test::HasFailure())
    std::fprintf(stderr, "%s\n", toString(*module).c_str());
}

} // namespace

void check(const CompiledCase &c) {
  for (const std::string &target : c.targets)
    checkOn(c, target);
}

void check(llvm::StringRef tactic, llvm::StringRef text) {
  CompiledCase c;
  c.text = text.str();
  c.tactics = {tactic.str()};
  check(c);
}

} // namespace tenon::test

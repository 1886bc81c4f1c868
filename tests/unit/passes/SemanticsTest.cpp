// Every lit test of passes is also run through the interpreter: under the pipelines of its own RUN
// lines and of every optimisation level, outputs must stay what they are.
#include "tests/unit/passes/Semantics.h"

#include "ir/Text.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace tenon {
namespace {

std::string root() {
  const char *dir = std::getenv("TENON_SOURCE_DIR");
  return (dir ? std::string(dir) : std::string(".")) + "/tests/lit/passes";
}

std::vector<std::string> files() {
  std::vector<std::string> list;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(root(), error), end; it != end && !error;
       it.increment(error))
    if (llvm::StringRef(it->path()).endswith(".tn"))
      list.push_back(it->path());
  std::sort(list.begin(), list.end());
  return list;
}

/// The value of --passes in a RUN line, empty when there is none or the line expects failure.
std::string pipelineOf(llvm::StringRef line) {
  if (!line.contains("RUN:") || line.contains("%not"))
    return "";
  llvm::StringRef rest = line.split("--passes=").second;
  return rest.startswith("'") ? rest.drop_front().split('\'').first.str()
                              : rest.split(' ').first.str();
}

class Semantics : public testing::TestWithParam<std::string> {};

TEST_P(Semantics, Kept) {
  auto buffer = llvm::MemoryBuffer::getFile(GetParam());
  ASSERT_TRUE(bool(buffer));
  std::vector<std::string> pipelines;
  for (unsigned level : {0u, 1u, 2u, 3u}) {
    std::string p = optimizationPipeline(level).str();
    pipelines.push_back(p + (p.empty() ? "" : ",") + groupingPipeline(level).str());
  }
  llvm::SmallVector<llvm::StringRef, 0> lines;
  (*buffer)->getBuffer().split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (std::string p = pipelineOf(line); !p.empty())
      pipelines.push_back(p);
  ASSERT_GT(pipelines.size(), 4u) << "no RUN line with --passes";
  for (const std::string &pipeline : pipelines) {
    // Other types of the inputs, or other values by intention; the other pipelines still run.
    if (llvm::StringRef(pipeline).contains("quantized-io") ||
        llvm::StringRef(pipeline).startswith("quantize"))
      continue;
    Context context;
    Diagnostics diagnostics;
    auto module = parseModule(context, **buffer, "", diagnostics);
    ASSERT_TRUE(module);
    // These passes change values, but within a few roundings to 11 bits.
    const llvm::StringRef file = GetParam();
    const bool rounds = llvm::StringRef(pipeline).contains("assign-precision") ||
                        file.endswith("center-channels.tn") || file.endswith("-halves.tn");
    EXPECT_EQ(checkSemantics(*module, pipeline, rounds ? 4e-3 : 1e-5), "")
        << "pipeline " << pipeline;
  }
}

std::string nameOf(const testing::TestParamInfo<std::string> &info) {
  std::string s = llvm::sys::path::stem(info.param).str();
  std::replace_if(
      s.begin(), s.end(), [](char c) { return !isalnum(c); }, '_');
  return s;
}

INSTANTIATE_TEST_SUITE_P(LitFiles, Semantics, testing::ValuesIn(files()), nameOf);

} // namespace
} // namespace tenon

// Tests of the library's interface, with nothing of Tenon but the header that is installed.
#include "compiler/tenon.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include <unistd.h>

namespace {

using namespace tenon;

std::string contents(const std::filesystem::path &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Request digits(const std::string &target = "cpu:generic") {
  Request request;
  request.model = Source::memory(contents(TENON_DIGITS), "digits.onnx");
  request.target = target;
  request.settings.name = "digits";
  return request;
}

std::string said(const std::vector<Message> &messages) {
  std::string text;
  for (const Message &m : messages)
    text += toString(m) + "\n";
  return text;
}

/// The files of a request by their names; the test fails where it is refused.
std::map<std::string, std::string> filesOf(const Request &request) {
  std::vector<Message> messages;
  const auto output = compile(request, messages);
  EXPECT_TRUE(output) << said(messages);
  std::map<std::string, std::string> files;
  if (output)
    for (const File &f : output->files)
      files[f.name] = f.bytes;
  return files;
}

/// What a request is refused with.
std::string refusal(const Request &request) {
  std::vector<Message> messages;
  EXPECT_FALSE(compile(request, messages));
  return said(messages);
}

struct ScratchFolder {
  std::filesystem::path path;
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon-library-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
};

TEST(Library, GivesFilesAndWhatTheyAre) {
  std::vector<Message> messages;
  const auto output = compile(digits(), messages);
  ASSERT_TRUE(output) << said(messages);
  ASSERT_EQ(output->files.size(), 3u);
  EXPECT_EQ(output->files[0].name, "digits.cpp");
  EXPECT_EQ(output->files[1].name, "digits.h");
  EXPECT_EQ(output->files[2].name, "digits.hpp");
  EXPECT_EQ(output->target, "cpu:generic");
  EXPECT_GT(output->nodes, 0);
  EXPECT_EQ(output->kernelCount, int64_t(output->kernels.size()));
  EXPECT_GT(output->arenaBytes, 0);
  EXPECT_FALSE(output->fusions.empty());
  EXPECT_FALSE(output->kernels.front().schedule.empty());
  EXPECT_STREQ(version(), TENON_EXPECTED_VERSION);
}

TEST(Library, TakesAFileOrItsBytes) {
  Request file = digits();
  file.model = Source::file(TENON_DIGITS);
  EXPECT_EQ(filesOf(digits()), filesOf(file));
}

/// What `tenon compile` writes for the same options, over settings of every kind.
TEST(Library, WritesWhatTheCommandWrites) {
  const char *tenon = std::getenv("TENON");
  if (!tenon)
    GTEST_SKIP() << "TENON names no command";
  struct Case {
    std::string target, words;
    std::function<void(Settings &)> set;
  };
  const Case cases[] = {
      {"cpu:generic", "", [](Settings &) {}},
      {"cpu:native", "-O1 --prefix=ten --runtime=include",
       [](Settings &s) {
         s.level = 1;
         s.prefix = "ten";
         s.runtime = Settings::Runtime::Include;
       }},
      {"cpu:generic", "-O0 --weights=file --hooks",
       [](Settings &s) {
         s.level = 0;
         s.weights = Settings::Weights::File;
         s.hooks = true;
       }},
      {"cpu:x86-64-v3", "--disable=fuse --search=none --io image=f16,nhwc --threads=3",
       [](Settings &s) {
         s.threads = 3;
         s.disable = {"fuse"};
         s.search = Settings::Search::None;
         s.io["image"] = "f16,nhwc";
       }},
      {"cuda:sm_80+sm_90a", "--precision=fp16 --kernels=1 --workspace=0 --input-range image=0..1",
       [](Settings &s) {
         s.precision = "fp16";
         s.kernels = 1;
         s.workspace = 0;
         s.inputRanges["image"] = {0, 1};
       }},
      {"mcu:cortex-m4",
       "--optimize=size --pool fast=4096,slow=1048576 --ram-limit=1000000 --io=float",
       [](Settings &s) {
         s.optimize = Settings::Optimize::Size;
         s.pools = {{"fast", 4096}, {"slow", 1048576}};
         s.ramLimit = 1000000;
         s.quantizedIo = false;
       }},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE(c.target + " " + c.words);
    ScratchFolder folder;
    const bool cuda = c.target.compare(0, 4, "cuda") == 0;
    const std::string command = std::string(tenon) + " compile " TENON_DIGITS " -q -o " +
                                (folder.path / (cuda ? "digits.cu" : "digits.cpp")).string() +
                                " --target=" + c.target + " " + c.words;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    Request request = digits(c.target);
    c.set(request.settings);
    const auto files = filesOf(request);
    size_t written = 0;
    for (const auto &entry : std::filesystem::directory_iterator(folder.path)) {
      const std::string name = entry.path().filename().string();
      ++written;
      ASSERT_TRUE(files.count(name)) << name;
      EXPECT_TRUE(files.at(name) == contents(entry.path())) << name << " differs";
    }
    EXPECT_EQ(written, files.size());
  }
}

TEST(Library, SeveralThreadsGetTheSameBytes) {
  const std::vector<std::string> targets = {"cpu:generic", "cpu:x86-64-v4", "cuda:sm_75",
                                            "cuda:sm_90a", "mcu:cortex-m4", "cpu:generic"};
  std::vector<std::map<std::string, std::string>> alone, together(targets.size());
  for (const std::string &target : targets)
    alone.push_back(filesOf(digits(target)));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < targets.size(); ++i)
    threads.emplace_back([&, i] { together[i] = filesOf(digits(targets[i])); });
  for (std::thread &t : threads)
    t.join();
  for (size_t i = 0; i < targets.size(); ++i)
    EXPECT_TRUE(alone[i] == together[i]) << targets[i];
  EXPECT_TRUE(alone.front() == alone.back());
  EXPECT_FALSE(alone[0] == alone[1]);
}

TEST(Library, WrongSettingsAreMessages) {
  struct Case {
    std::function<void(Request &)> set;
    std::vector<std::string> expected;
  };
  const Case cases[] = {
      {[](Request &r) { r.target = "cpu:z80"; }, {"z80", "x86-64-v3"}},
      {[](Request &r) { r.target = "interpreter"; }, {"interpreter"}},
      {[](Request &r) { r.model = {}; }, {"model: ", "path or bytes"}},
      {[](Request &r) { r.settings.level = 4; }, {"-O: ", "0 to 3", "found 4"}},
      {[](Request &r) { r.settings.precision = "fp17"; }, {"--precision: ", "fp17", "fp16"}},
      {[](Request &r) { r.settings.precision = "fp16"; }, {"--precision", "cuda"}},
      {[](Request &r) { r.settings.bind["N"] = "2*"; }, {"--bind: ", "2*", "integer"}},
      {[](Request &r) { r.settings.bind["a,b"] = 2; }, {"--bind: ", "a,b=2"}},
      {[](Request &r) { r.settings.bind[""] = 2; }, {"--bind: ", "name"}},
      {[](Request &r) { r.settings.bind["absent"] = 2; }, {"absent"}},
      {[](Request &r) { r.settings.constants["x"] = "absent.npy"; }, {"absent.npy"}},
      {[](Request &r) {
         r.settings.ranges["N"] = {4, 1};
       },
       {"--range: N: ", "'4..1'", "write N=1..4"}},
      {[](Request &r) { r.settings.states["x"] = {"absent"}; }, {"absent"}},
      {[](Request &r) { r.settings.io["absent"] = "f16"; }, {"absent"}},
      {[](Request &r) {
         r.settings.inputRanges["x"] = {1, -1};
       },
       {"--input-range: ", "LOW..HIGH"}},
      {[](Request &r) { r.settings.disable = {"absent.pass"}; }, {"absent.pass"}},
      {[](Request &r) { r.settings.debugCounters = {"fold"}; }, {"--debug-counter: ", "fold=3"}},
      {[](Request &r) { r.settings.search = Settings::Search(7); }, {"--search: ", "found 7"}},
      {[](Request &r) { r.settings.workspace = -5; }, {"--workspace: ", "found -5"}},
      {[](Request &r) { r.settings.kernels = -1; }, {"--kernels: ", "found -1"}},
      {[](Request &r) { r.settings.threads = 65; }, {"--threads: ", "found '65'"}},
      {[](Request &r) { r.settings.textBytes = -1; }, {"--text-bytes: ", "found -1"}},
      {[](Request &r) { r.settings.ramLimit = 100; }, {"--ram-limit", "microcontrollers"}},
      {[](Request &r) {
         r.settings.pools = {{"a b", 100}};
       },
       {"--pool", "microcontrollers"}},
      {[](Request &r) { r.settings.prefix = "2x"; }, {"--prefix: ", "2x"}},
      {[](Request &r) { r.settings.name = "a/b"; }, {"-o: "}},
      {[](Request &r) {
         r.settings.hooks = true;
         r.target = "cuda:sm_80";
       },
       {"--hooks", "cuda:sm_80"}},
      {[](Request &r) { r.settings.tuning = {Source::memory("nonsense", "t.json")}; }, {"t.json"}},
      {[](Request &r) { r.settings.tuning = {Source::file("absent.json")}; }, {"absent.json"}},
      {[](Request &r) { r.settings.operators = {Source::memory("nonsense", "op.tn")}; }, {"op.tn"}},
      {[](Request &r) { r.settings.operators = {Source()}; }, {"--op: ", "path or bytes"}},
      {[](Request &r) { r.model = Source::memory("no model"); }, {"error: "}},
      {[](Request &r) { r.model = Source::memory(""); }, {"error: "}},
      {[](Request &r) { r.model = Source::memory("no text", "x.tn"); }, {"cannot parse 'x.tn'"}},
      {[](Request &r) { r.model = Source::file("absent.onnx"); }, {"absent.onnx"}},
  };
  for (const Case &c : cases) {
    Request request = digits();
    c.set(request);
    const std::string text = refusal(request);
    for (const std::string &word : c.expected)
      EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in\n" << text;
  }
}

TEST(Library, TakesTextInMemory) {
  const std::string text = R"(module "scaled" stage=imported {
  graph @main (%x "x": tensor<4xf32>) -> ("y") {
    %y = map %x (%a: f32) {
      %t = mul %a, %a : f32
      yield %t
    } : tensor<4xf32>
    return %y
  }
}
)";
  Request request;
  request.model = Source::memory(text, "scaled.tn");
  request.target = "cpu:generic";
  EXPECT_EQ(filesOf(request).count("model.cpp"), 1u);
}

TEST(Library, OutputSaysWhatTheProgramTakesAndGives) {
  std::vector<Message> messages;
  const auto output = compile(digits(), messages);
  ASSERT_TRUE(output) << said(messages);
  ASSERT_EQ(output->interface.inputs.size(), 1u);
  const Interface::Port &image = output->interface.inputs.front();
  EXPECT_EQ(image.name, "image");
  EXPECT_EQ(image.type, "f32");
  ASSERT_EQ(image.shape.size(), 4u);
  EXPECT_EQ(image.shape[3].most, 8);
  EXPECT_EQ(image.shape[3].formula, std::vector<std::string>{"8"});
  EXPECT_TRUE(output->interface.symbols.empty());
  EXPECT_FALSE(output->interface.states);
}

TEST(Library, InterpretedModelsRunAndRefuse) {
  std::vector<Message> messages;
  const auto model = InterpretedModel::load(digits(), messages);
  ASSERT_TRUE(model) << said(messages);
  EXPECT_EQ(model->interface().outputs.front().name, "probabilities");
  const Array image{"f32", {1, 1, 8, 8}, std::string(256, '\0'), {}};
  const auto first = model->run({image}, messages), second = model->run({image}, messages);
  ASSERT_TRUE(first && second) << said(messages);
  EXPECT_EQ(first->front().shape, (std::vector<std::int64_t>{1, 10}));
  EXPECT_EQ(first->front().bytes, second->front().bytes);

  EXPECT_FALSE(model->run({}, messages));
  EXPECT_NE(said(messages).find("expected 1 inputs, found 0"), std::string::npos) << said(messages);
  messages.clear();
  EXPECT_FALSE(model->run({{"f32", {1, 1, 8, 8}, "short", {}}}, messages));
  EXPECT_NE(said(messages).find("input 'image': expected 256 bytes for its shape, found 5"),
            std::string::npos)
      << said(messages);
  messages.clear();
  Request nothing = digits();
  nothing.model = Source::memory("no model", "none.onnx");
  EXPECT_FALSE(InterpretedModel::load(nothing, messages));
  EXPECT_FALSE(messages.empty());
}

} // namespace

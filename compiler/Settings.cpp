// Implements the reading of requests: settings are written as the words that the command line has
// for them, and held to the same forms.
#include "compiler/Settings.h"

#include "compiler/OptionForms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tenon {
namespace {

using Form = std::function<std::string(const std::string &)>;

std::string text(const Settings::Extent &extent) {
  if (const auto *number = std::get_if<int64_t>(&extent))
    return std::to_string(*number);
  return std::get<std::string>(extent);
}

std::string text(const Settings::Range &range) {
  return std::to_string(range.low) + ".." + std::to_string(range.high);
}

std::string text(const Settings::Interval &interval) {
  char low[32], high[32];
  snprintf(low, sizeof low, "%.17g", interval.low);
  snprintf(high, sizeof high, "%.17g", interval.high);
  return low + std::string("..") + high;
}

std::string text(const Settings::State &state) {
  return state.output + (state.appendAxis ? ":append@" + std::to_string(*state.appendAxis) : "");
}

std::string text(const std::vector<Settings::Extent> &shape) {
  std::string s;
  for (const Settings::Extent &extent : shape)
    s += (s.empty() ? "" : ",") + text(extent);
  return s;
}

class Reader {
public:
  Reader(const Request &request, RequestOptions &out, Diagnostics &diagnostics)
      : request_(request), set_(request.settings), out_(out), diagnostics_(diagnostics) {}

  bool run() {
    readModel();
    readInterface();
    readPasses();
    readKernels();
    readText();
    return ok_;
  }

private:
  void error(llvm::StringRef option, const std::string &message) {
    diagnostics_.error(option.str() + ": " + message);
    ok_ = false;
  }

  /// NAME=VALUE; a name that a word cannot hold is an error.
  void add(llvm::StringRef option, const std::string &name, const std::string &value,
           std::vector<std::string> &words, const Form &form = nullptr) {
    const std::string word = name + "=" + value;
    if (name.empty() || value.empty())
      return error(option, "expected a name and a value, found '" + word + "'");
    const auto read = keyValues(word);
    if (read.size() != 1 || read.front().first != name || read.front().second != value)
      return error(option, "'" + word +
                               "' cannot be told from several values; names with ',' have "
                               "to be changed in the model");
    if (std::string why = form ? form(word) : ""; !why.empty())
      return error(option, why);
    words.push_back(word);
  }

  template <class Value>
  void addAll(llvm::StringRef option, const std::map<std::string, Value> &values,
              std::vector<std::string> &words, const Form &form = nullptr) {
    for (const auto &[name, value] : values)
      add(option, name, text(value), words, form);
  }

  /// An enumerator as the command line has it; numbers that are none are errors.
  template <class Enum>
  std::string word(llvm::StringRef option, Enum value, std::initializer_list<const char *> words) {
    if (size_t(value) < words.size())
      return words.begin()[size_t(value)];
    error(option, "expected an enumerator below " + std::to_string(words.size()) + ", found " +
                      std::to_string(int64_t(value)));
    return *words.begin();
  }

  int64_t bytes(llvm::StringRef option, const std::optional<int64_t> &value) {
    if (value && *value < 0)
      error(option,
            "expected a number of bytes that is not negative, found " + std::to_string(*value));
    return value.value_or(-1);
  }

  void readSources(llvm::StringRef option, const std::vector<Source> &sources,
                   std::vector<std::string> &paths, std::vector<InMemory> &inMemory) {
    for (const Source &s : sources)
      if (s.bytes)
        inMemory.push_back({s.path, &*s.bytes, s.literals});
      else if (s.path.empty())
        error(option, "expected a path or bytes, found neither");
      else
        paths.push_back(s.path);
  }

  void readModel() {
    const Source &model = request_.model;
    out_.model.model = model.path;
    out_.model.folder = model.folder;
    if (model.bytes) {
      out_.bytes = {model.path, &*model.bytes, model.literals};
      out_.model.bytes = &out_.bytes;
    } else if (model.path.empty()) {
      error("model", "expected a path or bytes, found neither");
    }
    out_.code.target = request_.target;
  }

  void readInterface() {
    ModelOptions &o = out_.model;
    addAll("--bind", set_.bind, o.bind, bindForm);
    for (const auto &[name, path] : set_.constants)
      add("--bind", name, "@" + path, o.bind, bindForm);
    for (const auto &[name, shape] : set_.shapes)
      add("--shape", name, text(shape), o.shape);
    addAll("--range", set_.ranges, o.range, dimensionRange);
    addAll("--state", set_.states, o.state, stateForm);
    o.decoder = set_.decoder;
    if (std::string why = o.decoder.empty() ? "" : decoderForm(o.decoder); !why.empty())
      error("--decoder", why);
    for (const auto &[name, form] : set_.io)
      add("--io", name, form, o.io);
    if (set_.quantizedIo)
      o.io.push_back(*set_.quantizedIo ? "quantized" : "float");
    addAll("--input-range", set_.inputRanges, o.inputRange, valueRangeForm);
    readSources("--op", set_.operators, o.op, o.operators);
  }

  void readPasses() {
    PipelineOptions &o = out_.passes;
    if (set_.level > 3)
      error("-O", "expected a level from 0 to 3, found " + std::to_string(set_.level));
    o.level = set_.level;
    o.disable = set_.disable;
    o.only = set_.only;
    o.debugCounter = set_.debugCounters;
    const Form form = keyValueForm("fold=3 or fold=3+1");
    for (const std::string &counter : set_.debugCounters)
      if (std::string why = form(counter); !why.empty())
        error("--debug-counter", why);
    o.verifyEach = set_.verifyEach;
  }

  void readKernels() {
    CodeOptions &o = out_.code;
    o.precision = set_.precision;
    if (std::string why = precisionForm(set_.precision); !why.empty())
      error("--precision", why);
    o.search = word("--search", set_.search, {"none", "heuristic"});
    readSources("--tuning", set_.tuning, o.tuning, o.measured);
    o.workspace = bytes("--workspace", set_.workspace);
    o.kernels = bytes("--kernels", set_.kernels);
    if (set_.threads < 1 || set_.threads > 64)
      error("--threads",
            "expected an integer from 1 to 64, found '" + std::to_string(set_.threads) + "'");
    else
      o.threads = unsigned(set_.threads);
    o.optimize = word("--optimize", set_.optimize, {"", "speed", "size"});
    o.ramLimit = bytes("--ram-limit", set_.ramLimit);
    for (const Settings::Pool &pool : set_.pools)
      add("--pool", pool.name, std::to_string(pool.bytes), o.pool);
  }

  void readText() {
    CodeOptions &o = out_.code;
    auto isControl = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
    if (set_.name.empty() || llvm::any_of(set_.name, isControl) ||
        llvm::StringRef(set_.name).contains('/'))
      error("-o", "expected a name for files, without folders and control characters");
    o.prefix = set_.prefix;
    if (std::string why = set_.prefix.empty() ? "" : identifierForm(set_.prefix); !why.empty())
      error("--prefix", why);
    o.weights = word("--weights", set_.weights, {"auto", "inline", "incbin", "file"});
    o.runtime = word("--runtime", set_.runtime, {"embed", "include"});
    o.textBytes = bytes("--text-bytes", set_.textBytes);
    o.hooks = set_.hooks;
  }

  const Request &request_;
  const Settings &set_;
  RequestOptions &out_;
  Diagnostics &diagnostics_;
  bool ok_ = true;
};

} // namespace

bool readRequest(const Request &request, RequestOptions &out, Diagnostics &diagnostics) {
  return Reader(request, out, diagnostics).run();
}

} // namespace tenon

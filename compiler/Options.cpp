// Implements the interpretation of options.
#include "compiler/Options.h"

#include "compiler/Npy.h"
#include "frontend/Extents.h"
#include "frontend/UserOperator.h"
#include "ir/Entries.h"

#include "llvm/Support/MathExtras.h"

#include <set>
#include <utility>

namespace tenon {

std::vector<std::pair<std::string, std::string>> keyValues(llvm::ArrayRef<std::string> words) {
  std::vector<std::pair<std::string, std::string>> out;
  for (llvm::StringRef word : words) {
    bool first = true;
    llvm::SmallVector<llvm::StringRef, 4> items;
    word.split(items, ',');
    for (llvm::StringRef item : items) {
      if (!first && !item.contains('=')) {
        out.back().second += "," + item.str();
        continue;
      }
      // Names may hold '=': a file begins at "=@", everything else after the last '='.
      const size_t file = item.find("=@");
      auto [key, value] = file != llvm::StringRef::npos
                              ? std::pair(item.take_front(file), item.drop_front(file + 1))
                              : item.rsplit('=');
      out.push_back({key.str(), value.str()});
      first = false;
    }
  }
  return out;
}

std::vector<std::string> listItems(llvm::ArrayRef<std::string> words) {
  std::vector<std::string> out;
  for (llvm::StringRef word : words) {
    llvm::SmallVector<llvm::StringRef, 4> items;
    word.split(items, ',', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef item : items)
      out.push_back(item.trim().str());
  }
  return out;
}

namespace {

/// The path in a value, which begins at `start`, keeps its last part.
void addOption(std::string &text, llvm::StringRef name, llvm::StringRef value,
               size_t start = llvm::StringRef::npos) {
  const size_t slash = value.rfind('/');
  text += (text.empty() ? "" : " ") + name.str() + "=";
  if (slash != llvm::StringRef::npos && start <= slash)
    text += value.take_front(start).str() + value.drop_front(slash + 1).str();
  else
    text += value.str();
}

void addOptions(std::string &text, llvm::StringRef name, llvm::ArrayRef<std::string> values) {
  for (const std::string &value : values)
    addOption(text, name, value);
}

} // namespace

std::string optionText(const ModelOptions &options) {
  std::string text;
  for (const auto &[key, value] : keyValues(options.bind))
    addOption(text, "--bind", key + "=" + value,
              value[0] == '@' ? key.size() + 2 : std::string::npos);
  addOptions(text, "--shape", options.shape);
  addOptions(text, "--range", options.range);
  addOptions(text, "--state", options.state);
  if (!options.decoder.empty())
    addOption(text, "--decoder", options.decoder);
  for (const std::string &path : options.op)
    addOption(text, "--op", path, 0);
  for (const InMemory &declared : options.operators)
    addOption(text, "--op", declared.path, 0);
  return text;
}

std::string optionText(const PipelineOptions &options) {
  std::string text;
  if (options.level != PipelineOptions().level)
    text = "-O" + std::to_string(options.level);
  addOptions(text, "--disable", options.disable);
  addOptions(text, "--only", options.only);
  addOptions(text, "--debug-counter", options.debugCounter);
  return text;
}

/// Lengths of runs for prompts where nobody says them: the largest power of two that adds at most a
/// half to the rows of the caches, up to 1,024, beyond which kernels gain little. One more for
/// short prompts. With logits of every token, which a context keeps, 128 at most.
static std::vector<int64_t> usualPrefill(const DecoderRequest &request) {
  constexpr int64_t kShort = 128, kLong = 1024;
  const auto most = std::min<int64_t>(int64_t(llvm::PowerOf2Floor(uint64_t(request.capacity / 2))),
                                      request.lastLogits ? kLong : kShort);
  if (most <= kStepTokens)
    return {};
  return most > 2 * kShort ? std::vector<int64_t>{kShort, most} : std::vector<int64_t>{most};
}

llvm::Optional<DecoderRequest> decoderRequest(llvm::StringRef words, std::string &why) {
  DecoderRequest request;
  llvm::SmallVector<llvm::StringRef, 3> items;
  words.split(items, ',');
  if (items[0].getAsInteger(10, request.capacity) || request.capacity < 2 ||
      request.capacity > INT32_MAX) {
    why = "expected the most tokens that the caches hold, such as 4096, found '" + items[0].str() +
          "'";
    return llvm::None;
  }
  bool saysLogits = false, saysPrefill = false;
  for (llvm::StringRef item : llvm::makeArrayRef(items).drop_front()) {
    auto [key, value] = item.split('=');
    llvm::SmallVector<llvm::StringRef, 4> sizes;
    value.split(sizes, ':');
    bool ok = false;
    if (key == "prefill" && !std::exchange(saysPrefill, true))
      ok = value == "none" || llvm::all_of(sizes, [&](llvm::StringRef size) {
             int64_t rows;
             const bool isLength = !size.getAsInteger(10, rows) && rows >= 1;
             request.prefill.push_back(isLength ? rows : 0);
             return isLength && rows <= request.capacity;
           });
    else if (key == "logits" && !saysLogits)
      saysLogits = ok = value == "last" || value == "all";
    if (!ok) {
      why = "expected prefill=128:512, lengths up to the maximum, or prefill=none, and logits=last "
            "or logits=all, each once, found '" +
            item.str() + "'";
      return llvm::None;
    }
    request.lastLogits &= !(key == "logits" && value == "all");
  }
  if (!saysPrefill) {
    request.prefill = usualPrefill(request);
    request.prefillChosen = true;
  }
  return request;
}

bool inputRanges(const ModelOptions &options, std::map<std::string, Interval> &ranges,
                 Diagnostics &diagnostics) {
  for (const auto &[name, text] : keyValues(options.inputRange)) {
    auto [low, high] = llvm::StringRef(text).split("..");
    Interval r;
    if (low.getAsDouble(r.low) || high.getAsDouble(r.high) || !(r.low <= r.high)) {
      diagnostics.error("--input-range " + name + ": expected LOW..HIGH such as -1..1, found '" +
                        text + "'");
      return false;
    }
    ranges[name] = r;
  }
  return true;
}

bool portRequests(const ModelOptions &options, std::vector<PortRequest> &ports,
                  llvm::Optional<bool> &quantized, Diagnostics &diagnostics) {
  bool ok = true;
  for (const auto &[name, text] : keyValues(options.io)) {
    if (text.empty() && (name == "quantized" || name == "float")) {
      if (quantized && *quantized != (name == "quantized")) {
        diagnostics.error("--io: expected quantized or float, found both");
        ok = false;
      }
      quantized = name == "quantized";
      continue;
    }
    if (name.empty() || text.empty()) {
      diagnostics.error("--io: expected a form such as NAME=f16,nhwc, quantized or float, found '" +
                        name + (text.empty() ? "" : "=" + text) + "'");
      ok = false;
      continue;
    }
    ports.emplace_back();
    ok = parsePortRequest(name, text, ports.back(), diagnostics) && ok;
  }
  return ok;
}

llvm::Optional<Tensor> readTensorFile(llvm::StringRef path, Diagnostics &diagnostics) {
  if (path.endswith(".npy"))
    return readNpy(path, diagnostics);
  if (path.endswith(".pb"))
    return readTensorProto(path, diagnostics);
  diagnostics.error("cannot read '" + path.str() + "': expected a .npy or .pb file");
  return llvm::None;
}

/// Whether no key stands in the words of both options; reports the first that does.
static bool givenApart(llvm::StringRef one, llvm::ArrayRef<std::string> words,
                       llvm::StringRef other, llvm::ArrayRef<std::string> others,
                       Diagnostics &diagnostics) {
  std::set<std::string> seen;
  for (const auto &entry : keyValues(words))
    seen.insert(entry.first);
  for (const auto &entry : keyValues(others))
    if (seen.count(entry.first)) {
      diagnostics.error(one.str() + " and " + other.str() + " both name '" + entry.first +
                        "': give one of them");
      return false;
    }
  return true;
}

bool givenOnce(const ModelOptions &options, Diagnostics &diagnostics) {
  return givenOnce("--bind", options.bind, diagnostics) &&
         givenOnce("--shape", options.shape, diagnostics) &&
         givenOnce("--range", options.range, diagnostics) &&
         givenOnce("--state", options.state, diagnostics) &&
         givenApart("--bind", options.bind, "--range", options.range, diagnostics);
}

bool givenOnce(llvm::StringRef option, llvm::ArrayRef<std::string> words,
               Diagnostics &diagnostics) {
  std::set<std::string> seen;
  for (const auto &[key, value] : keyValues(words))
    if (!seen.insert(key).second) {
      diagnostics.error(option.str() + ": '" + key + "' is given twice");
      return false;
    }
  return true;
}

bool importOptions(const ModelOptions &options, ImportOptions &out, Diagnostics &diagnostics) {
  for (const auto &[key, value] : keyValues(options.bind)) {
    llvm::StringRef text(value);
    if (text.consume_front("@")) {
      auto tensor = readTensorFile(text, diagnostics);
      if (!tensor)
        return false;
      out.constants[key] = *tensor;
      continue;
    }
    int64_t v;
    if (!text.getAsInteger(10, v)) {
      out.bindDims[key] = v;
    } else if (frontend::parseExtent(text)) {
      out.bindExtents[key] = value;
    } // others are refused by the command line already
  }
  for (const std::string &path : options.op)
    if (!readUserOperator(path, out, diagnostics))
      return false;
  for (const InMemory &declared : options.operators)
    if (!readUserOperator(*llvm::MemoryBuffer::getMemBuffer(*declared.bytes, declared.path),
                          declared.literals, declared.path, out, diagnostics))
      return false;
  for (const auto &[key, value] : keyValues(options.shape)) {
    llvm::SmallVector<llvm::StringRef, 6> extents;
    llvm::StringRef(value).split(extents, ',');
    for (llvm::StringRef e : extents)
      out.shapes[key].push_back(e.trim().str());
  }
  for (const auto &[key, value] : keyValues(options.range)) {
    auto [low, high] = llvm::StringRef(value).split("..");
    ImportRange r;
    if (low.getAsInteger(10, r.lower) || high.getAsInteger(10, r.upper))
      continue; // refused by the command line already
    out.ranges[key] = r;
  }
  for (const auto &[key, value] : keyValues(options.state)) {
    auto [name, mode] = llvm::StringRef(value).rsplit(":append@");
    ImportState s{key, name.str(), llvm::None};
    if (!mode.empty()) {
      int64_t axis;
      if (mode.getAsInteger(10, axis))
        continue; // refused by the command line already
      s.appendAxis = axis;
    }
    out.states.push_back(std::move(s));
  }
  return true;
}

} // namespace tenon

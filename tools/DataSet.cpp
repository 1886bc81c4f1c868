// Implements reading of data sets and the making of seeded values.
#include "tools/DataSet.h"

#include "compiler/Npy.h"
#include "compiler/Options.h"
#include "tools/Compare.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

#include <cmath>

namespace tenon {
namespace {

int indexOf(llvm::ArrayRef<DeclaredTensor> declared, llvm::StringRef name) {
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i].name == name)
      return int(i);
  return -1;
}

bool readNumbered(llvm::StringRef folder, llvm::StringRef stem,
                  llvm::ArrayRef<DeclaredTensor> declared, std::vector<Tensor> &out,
                  std::map<std::string, int64_t> &counts, std::vector<std::string> &files,
                  Diagnostics &diagnostics) {
  // Per declaration its tensors: one, or the elements of a container.
  std::vector<std::vector<Tensor>> read(declared.size(), std::vector<Tensor>(1));
  for (size_t k = 0;; ++k) {
    const std::string path = (folder + "/" + stem + "_" + llvm::Twine(k)).str();
    const bool proto = llvm::sys::fs::exists(path + ".pb");
    if (!proto && !llvm::sys::fs::exists(path + ".npy"))
      break;
    files.push_back(path + (proto ? ".pb" : ".npy"));
    if (k < declared.size() && proto && declared[k].container != Container::None) {
      auto elements = readContainerProto(path + ".pb", diagnostics);
      if (!elements)
        return false;
      counts[declared[k].name] = int64_t(elements->size());
      read[k] = std::move(*elements);
      continue;
    }
    std::string name;
    auto tensor = proto ? readTensorProto(path + ".pb", diagnostics, &name)
                        : readNpy(path + ".npy", diagnostics);
    if (!tensor)
      return false;
    int at = indexOf(declared, name);
    auto isFree = [&](size_t i) { return read[i].size() == 1 && read[i][0].isNull(); };
    if (at < 0 || !isFree(size_t(at)))
      at = int(k);
    if (size_t(at) >= declared.size() || !isFree(size_t(at))) {
      diagnostics.error("'" + path + "': the model has " + std::to_string(declared.size()) + " " +
                        stem.str() + "s");
      return false;
    }
    read[size_t(at)][0] = *tensor;
  }
  for (std::vector<Tensor> &tensors : read)
    out.insert(out.end(), tensors.begin(), tensors.end());
  return true;
}

/// SplitMix64: small, and its sequence is fixed.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double unit() { return double(bits() >> 11) * 0x1p-53; }

private:
  uint64_t state_;
};

/// Up to eight letters, spaces and signs.
std::string randomWord(Random &random) {
  constexpr llvm::StringLiteral kLetters = "abcdeXYZ ,.\xc3\xa9";
  std::string word;
  for (uint64_t n = random.bits() % 9; n > 0; --n) {
    const size_t at = random.bits() % (kLetters.size() - 1);
    word += at == kLetters.size() - 2 ? kLetters.take_back(2) : kLetters.substr(at, 1);
  }
  return word;
}

} // namespace

bool readDataSet(llvm::StringRef option, llvm::StringRef folder,
                 llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                 DataSet &data, Diagnostics &diagnostics) {
  if (!llvm::sys::fs::is_directory(folder)) {
    diagnostics.error(option.str() + ": no folder '" + folder.str() + "'");
    return false;
  }
  data = DataSet();
  if (!readNumbered(folder, "input", inputs, data.inputs, data.inputCounts, data.files,
                    diagnostics) ||
      !readNumbered(folder, "output", outputs, data.outputs, data.outputCounts, data.files,
                    diagnostics))
    return false;
  if (data.files.empty() && !(inputs.empty() && outputs.empty())) {
    diagnostics.error(option.str() + ": '" + folder.str() +
                      "' holds neither input_0.pb nor output_0.pb");
    return false;
  }
  return true;
}

bool readInputFiles(llvm::ArrayRef<std::string> options, llvm::ArrayRef<DeclaredTensor> inputs,
                    DataSet &data, Diagnostics &diagnostics) {
  data.inputs.resize(inputs.size());
  for (const auto &[name, path] : keyValues(options)) {
    const int at = indexOf(inputs, name);
    if (at < 0) {
      std::string names;
      for (const DeclaredTensor &d : inputs)
        names += (names.empty() ? "'" : ", '") + d.name + "'";
      diagnostics.error("--input: the model has no input '" + name + "'; it has " +
                        (names.empty() ? "none" : names));
      return false;
    }
    auto tensor = readTensorFile(llvm::StringRef(path).ltrim('@'), diagnostics);
    if (!tensor)
      return false;
    data.inputs[size_t(at)] = *tensor;
  }
  return true;
}

Tensor randomTensor(Element element, llvm::ArrayRef<int64_t> shape, const Tensor &like,
                    uint64_t seed) {
  Random random(seed);
  Tensor t(element, shape);
  if (element == Element::String) {
    for (int64_t i = 0; i < t.size(); ++i)
      t.setString(i, like.isNull() || like.size() == 0
                         ? randomWord(random)
                         : like.stringValues()[random.bits() % uint64_t(like.size())]);
    return t;
  }
  double low = isFloat(element) ? -1 : 0, high = isFloat(element) ? 1 : 3;
  if (!like.isNull())
    valueRange(like, low, high);
  for (int64_t i = 0; i < t.size(); ++i) {
    if (isFloat(element))
      t.set(i, low + (high - low) * random.unit());
    else if (isBool(element))
      t.setInt(i, int64_t(random.bits() >> 63));
    else
      t.setInt(i, int64_t(low) + int64_t(std::floor(random.unit() * (high - low + 1))));
  }
  return t;
}

} // namespace tenon

// Implements reading of calibration data.
#include "tools/Samples.h"

#include "compiler/Npy.h"
#include "compiler/Options.h"
#include "ir/Extents.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

namespace fs = llvm::sys::fs;

std::vector<std::string> entries(llvm::StringRef folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
    paths.push_back(it->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool isDataSet(llvm::StringRef folder) {
  return fs::exists(folder + "/input_0.pb") || fs::exists(folder + "/input_0.npy");
}

llvm::Optional<Tensor> readRaw(llvm::StringRef path, Element e, Diagnostics &diagnostics) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    diagnostics.error("'" + path.str() + "' cannot be read: " + buffer.getError().message());
    return llvm::None;
  }
  const llvm::StringRef bytes = (*buffer)->getBuffer();
  const int64_t count = int64_t(bytes.size()) * 8 / bitWidth(e);
  return Tensor(e, {count}, std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

/// One tensor for each set that `t` holds.
bool split(const Tensor &t, llvm::ArrayRef<int64_t> shape, llvm::StringRef path,
           std::vector<DataSet> &sets, Diagnostics &diagnostics) {
  const int64_t one = product(shape);
  if (one == 0 || t.size() == 0 || t.size() % one != 0) {
    diagnostics.error("'" + path.str() + "' has " + std::to_string(t.size()) +
                      " elements; an input has " + std::to_string(one));
    return false;
  }
  const size_t bytes = t.bytes().size() / size_t(t.size() / one);
  for (size_t at = 0; at < t.bytes().size(); at += bytes) {
    DataSet set;
    set.from = path.str();
    set.inputs.push_back(
        Tensor(t.element(), shape,
               std::vector<uint8_t>(t.bytes().begin() + std::ptrdiff_t(at),
                                    t.bytes().begin() + std::ptrdiff_t(at + bytes))));
    sets.push_back(std::move(set));
  }
  return true;
}

bool readFiles(const std::vector<std::string> &paths, const DeclaredTensor &input,
               const llvm::SmallVector<int64_t, 6> &shape, Samples &samples,
               Diagnostics &diagnostics) {
  if (input.element == Element::String) {
    diagnostics.error("input '" + input.name +
                      "' is text; give folders of data sets, each with its input_0.pb");
    return false;
  }
  for (const std::string &path : paths) {
    const llvm::StringRef suffix = llvm::sys::path::extension(path);
    if (llvm::sys::path::filename(path) == "labels.npy") {
      auto labels = readNpy(path, diagnostics);
      if (!labels)
        return false;
      if (labels->element() == Element::String) {
        diagnostics.error("'" + path + "': expected numbers of classes, found text");
        return false;
      }
      for (int64_t i = 0; i < labels->size(); ++i)
        samples.labels.push_back(labels->intAt(i));
      continue;
    }
    if (suffix != ".npy" && suffix != ".pb" && suffix != ".bin")
      continue;
    auto t = suffix == ".bin" ? readRaw(path, input.element, diagnostics)
                              : readTensorFile(path, diagnostics);
    if (!t)
      return false;
    if (t->element() != input.element) {
      diagnostics.error("'" + path + "' has elements of another type than input '" + input.name +
                        "'");
      return false;
    }
    if (!split(*t, shape.empty() ? t->shape() : llvm::ArrayRef<int64_t>(shape), path, samples.sets,
               diagnostics))
      return false;
  }
  return true;
}

/// The position of the largest value of each set's first output, when all have one.
void labelsFromOutputs(Samples &samples) {
  std::vector<int64_t> labels;
  for (const DataSet &set : samples.sets) {
    if (set.outputs.empty() || set.outputs[0].isNull() ||
        set.outputs[0].element() == Element::String)
      return;
    const Tensor &t = set.outputs[0];
    int64_t best = 0;
    for (int64_t i = 1; i < t.size(); ++i)
      if (t.at(i) > t.at(best))
        best = i;
    labels.push_back(best);
  }
  samples.labels = std::move(labels);
}

} // namespace

bool readSamples(llvm::StringRef data, llvm::ArrayRef<DeclaredTensor> inputs,
                 llvm::ArrayRef<DeclaredTensor> outputs,
                 llvm::ArrayRef<llvm::SmallVector<int64_t, 6>> shapes, Samples &samples,
                 Diagnostics &diagnostics) {
  if (!fs::exists(data)) {
    diagnostics.error("--data: no file or folder '" + data.str() + "'");
    return false;
  }
  std::vector<std::string> folders, files{data.str()};
  if (isDataSet(data))
    folders = files;
  else if (fs::is_directory(data)) {
    files = entries(data);
    llvm::copy_if(files, std::back_inserter(folders), [](auto &path) { return isDataSet(path); });
  }
  for (const std::string &path : folders) {
    samples.sets.emplace_back();
    if (!readDataSet("--data", path, inputs, outputs, samples.sets.back(), diagnostics))
      return false;
    samples.sets.back().from = path;
  }
  if (!folders.empty())
    labelsFromOutputs(samples);
  else if (inputs.size() == 1 && !readFiles(files, inputs[0], shapes[0], samples, diagnostics))
    return false;
  if (samples.sets.empty()) {
    diagnostics.error(
        "--data: '" + data.str() +
        (inputs.size() == 1
             ? "' holds neither test data sets (input_0.pb) nor files of inputs (.npy, .pb, .bin)"
             : "' holds no test data sets: a model with " + std::to_string(inputs.size()) +
                   " inputs expects folders, each with an input_K.pb or .npy for every input K"));
    return false;
  }
  if (!samples.labels.empty() && samples.labels.size() != samples.sets.size()) {
    diagnostics.error("labels.npy has " + std::to_string(samples.labels.size()) + " labels for " +
                      std::to_string(samples.sets.size()) + " inputs");
    return false;
  }
  return true;
}

} // namespace tenon

// Implements reading of sets of inputs.
#include "tools/CalibrationSet.h"

#include "compiler/Npy.h"
#include "compiler/Options.h"
#include "ir/Extents.h"
#include "tools/Npz.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

namespace fs = llvm::sys::fs;

constexpr llvm::StringLiteral kLabels = "labels.npy";

std::vector<std::string> entries(llvm::StringRef folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
    paths.push_back(it->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool isDataSet(llvm::StringRef path) {
  if (llvm::sys::path::extension(path) == ".npz")
    return true;
  return llvm::any_of(llvm::ArrayRef<const char *>{"input_0", "output_0"}, [&](const char *stem) {
    return fs::exists(path + "/" + stem + ".pb") || fs::exists(path + "/" + stem + ".npy");
  });
}

/// Empty unless all extents are numbers.
llvm::SmallVector<int64_t, 6> knownShape(const DeclaredTensor &declared) {
  llvm::SmallVector<int64_t, 6> shape;
  for (const std::string &extent : declared.shape) {
    int64_t n;
    if (llvm::StringRef(extent).getAsInteger(10, n))
      return {};
    shape.push_back(n);
  }
  return shape;
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

/// How many sets `t` holds; 0 after reporting that it holds no whole number.
int64_t setsIn(const Tensor &t, llvm::ArrayRef<int64_t> shape, llvm::StringRef path,
               Diagnostics &diagnostics) {
  if (shape.empty())
    return 1;
  const int64_t one = product(shape);
  if (one == 0 || t.size() == 0 || t.size() % one != 0) {
    diagnostics.error("'" + path.str() + "' has " + std::to_string(t.size()) +
                      " elements; an input has " + std::to_string(one));
    return 0;
  }
  return t.size() / one;
}

/// The part of `t` that belongs to one of `count` sets.
Tensor partOf(const Tensor &t, llvm::ArrayRef<int64_t> shape, int64_t set, int64_t count) {
  if (count == 1 && (shape.empty() || t.element() == Element::String))
    return t;
  if (t.element() == Element::String) {
    const auto &values = t.stringValues();
    const auto one = std::ptrdiff_t(t.size() / count);
    return Tensor::strings(shape,
                           Strings(values.begin() + set * one, values.begin() + (set + 1) * one));
  }
  const auto one = std::ptrdiff_t(t.bytes().size()) / count;
  return Tensor(
      t.element(), shape,
      std::vector<uint8_t>(t.bytes().begin() + set * one, t.bytes().begin() + (set + 1) * one));
}

/// One set for each that `t` holds.
bool split(const Tensor &t, llvm::ArrayRef<int64_t> shape, llvm::StringRef path,
           std::vector<DataSet> &sets, Diagnostics &diagnostics) {
  const int64_t count = setsIn(t, shape, path, diagnostics);
  for (int64_t k = 0; k < count; ++k) {
    DataSet set;
    set.from = path.str();
    set.files.push_back(path.str());
    set.inputs.push_back(partOf(t, shape, k, count));
    sets.push_back(std::move(set));
  }
  return count > 0;
}

bool readLabels(const Tensor &t, llvm::StringRef path, CalibrationSet &samples,
                Diagnostics &diagnostics) {
  if (t.element() == Element::String) {
    diagnostics.error("'" + path.str() + "': expected numbers of classes, found text");
    return false;
  }
  for (int64_t i = 0; i < t.size(); ++i)
    samples.labels.push_back(t.intAt(i));
  return true;
}

/// The declaration that an array of a .npz file is of: by its name, else by `stem`_K.
llvm::Optional<size_t> placeOf(llvm::StringRef name, llvm::ArrayRef<DeclaredTensor> declared,
                               llvm::ArrayRef<llvm::StringRef> stems) {
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i].name == name)
      return i;
  for (llvm::StringRef stem : stems) {
    llvm::StringRef rest = name;
    size_t k;
    if (rest.consume_front(stem) && !rest.getAsInteger(10, k) && k < declared.size())
      return k;
  }
  return llvm::None;
}

bool readArchive(llvm::StringRef path, llvm::ArrayRef<DeclaredTensor> inputs,
                 llvm::ArrayRef<DeclaredTensor> outputs, CalibrationSet &samples,
                 Diagnostics &diagnostics) {
  auto fail = [&](const std::string &what) {
    diagnostics.error("'" + path.str() + "': " + what);
    return false;
  };
  const auto arrays = readNpz(path, diagnostics);
  if (!arrays)
    return false;
  std::vector<Tensor> in(inputs.size()), out(outputs.size());
  int64_t count = 0;
  for (const auto &[name, tensor] : *arrays) {
    if (auto k = placeOf(name, inputs, {"input_", "arr_"})) {
      const int64_t sets = setsIn(tensor, knownShape(inputs[*k]), path, diagnostics);
      if (sets == 0)
        return false;
      if (count != 0 && count != sets)
        return fail("input '" + inputs[*k].name + "' has " + std::to_string(sets) +
                    " sets of values; another input has " + std::to_string(count));
      count = sets;
      in[*k] = tensor;
    } else if (auto o = placeOf(name, outputs, {"output_"})) {
      out[*o] = tensor;
    } else if (name == "labels") {
      if (!readLabels(tensor, path, samples, diagnostics))
        return false;
    } else {
      std::string names;
      for (llvm::ArrayRef<DeclaredTensor> list : {inputs, outputs})
        for (const DeclaredTensor &d : list)
          names += (names.empty() ? "'" : ", '") + d.name + "'";
      return fail("the model has no input or output '" + name + "'; it has " + names);
    }
  }
  count = std::max<int64_t>(count, 1);
  for (int64_t k = 0; k < count; ++k) {
    DataSet set;
    set.from = path.str();
    set.files.push_back(path.str());
    for (size_t i = 0; i < in.size(); ++i)
      set.inputs.push_back(in[i].isNull() ? Tensor()
                                          : partOf(in[i], knownShape(inputs[i]), k, count));
    for (size_t o = 0; o < out.size(); ++o) {
      llvm::SmallVector<int64_t, 6> shape;
      if (!out[o].isNull()) {
        shape.assign(out[o].shape().begin(), out[o].shape().end());
        if (count > 1 && (shape.empty() || shape[0] % count != 0))
          return fail("output '" + outputs[o].name + "' does not divide into the " +
                      std::to_string(count) + " sets that the inputs have");
        if (count > 1)
          shape[0] /= count;
      }
      set.outputs.push_back(out[o].isNull() ? Tensor() : partOf(out[o], shape, k, count));
    }
    samples.sets.push_back(std::move(set));
  }
  return true;
}

bool readFiles(const std::vector<std::string> &paths, const DeclaredTensor &input,
               CalibrationSet &samples, Diagnostics &diagnostics) {
  if (input.element == Element::String) {
    diagnostics.error("input '" + input.name +
                      "' is text; give folders of data sets, each with its input_0.pb");
    return false;
  }
  for (const std::string &path : paths) {
    const llvm::StringRef suffix = llvm::sys::path::extension(path);
    if (llvm::sys::path::filename(path) == kLabels)
      continue;
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
    if (!split(*t, knownShape(input), path, samples.sets, diagnostics))
      return false;
  }
  return true;
}

/// The position of the largest value of each set's first output, when all have one.
void labelsFromOutputs(CalibrationSet &samples) {
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

bool readSamples(llvm::StringRef option, llvm::StringRef data,
                 llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                 CalibrationSet &samples, Diagnostics &diagnostics) {
  if (!fs::exists(data)) {
    diagnostics.error(option.str() + ": no file or folder '" + data.str() + "'");
    return false;
  }
  std::vector<std::string> found{data.str()}, sets;
  if (isDataSet(data) || (inputs.empty() && outputs.empty())) {
    sets = found;
  } else if (fs::is_directory(data)) {
    found = entries(data);
    llvm::copy_if(found, std::back_inserter(sets), [](auto &path) { return isDataSet(path); });
  }
  for (const std::string &path : sets) {
    if (!fs::is_directory(path)) {
      if (!readArchive(path, inputs, outputs, samples, diagnostics))
        return false;
      continue;
    }
    samples.sets.emplace_back();
    if (!readDataSet(option, path, inputs, outputs, samples.sets.back(), diagnostics))
      return false;
    samples.sets.back().from = path;
  }
  if (sets.empty() && inputs.size() == 1 && !readFiles(found, inputs[0], samples, diagnostics))
    return false;
  const std::string labels = (data + "/" + kLabels).str();
  if (samples.labels.empty() && fs::exists(labels)) {
    auto t = readNpy(labels, diagnostics);
    if (!t || !readLabels(*t, labels, samples, diagnostics))
      return false;
  }
  if (samples.labels.empty())
    labelsFromOutputs(samples);
  if (samples.sets.empty()) {
    diagnostics.error(
        option.str() + ": '" + data.str() +
        (inputs.size() == 1
             ? "' holds neither test data sets (folders with input_0.pb or .npy, .npz files) nor "
               "files of inputs (.npy, .pb, .bin)"
             : "' holds no test data sets: a model with " + std::to_string(inputs.size()) +
                   " inputs expects folders, each with an input_K.pb or .npy for every input K, or "
                   ".npz files with an array for each"));
    return false;
  }
  if (!samples.labels.empty() && samples.labels.size() != samples.sets.size()) {
    diagnostics.error(option.str() + ": '" + data.str() + "' has " +
                      std::to_string(samples.labels.size()) + " labels for " +
                      std::to_string(samples.sets.size()) + " inputs");
    return false;
  }
  return true;
}

bool readFirstSample(llvm::StringRef option, llvm::StringRef data,
                     llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                     DataSet &set, Diagnostics &diagnostics) {
  CalibrationSet samples;
  if (!readSamples(option, data, inputs, outputs, samples, diagnostics))
    return false;
  if (samples.sets.size() > 1)
    diagnostics.warning(option.str() + ": '" + data.str() + "' holds " +
                        std::to_string(samples.sets.size()) +
                        " sets of inputs; the first is used, from '" + samples.sets[0].from + "'");
  set = std::move(samples.sets[0]);
  return true;
}

} // namespace tenon

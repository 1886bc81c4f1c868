// Implements what a built program is told of a run, and what it answers: the files that
// runtime/harness/main.cpp describes.
#include "tools/Program.h"

#include "codegen/emit/CppText.h"
#include "tools/MemoryImage.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace tenon {
namespace {

class Numbers {
public:
  void add(int64_t v) { bytes_.append(reinterpret_cast<const char *>(&v), sizeof v); }
  llvm::StringRef bytes() const { return bytes_; }

private:
  std::string bytes_;
};

/// Reads what the program wrote; reports once when it is too short.
class ResultReader {
public:
  explicit ResultReader(llvm::StringRef bytes) : bytes_(bytes) {}
  bool take(void *to, size_t size) {
    if (size > bytes_.size())
      return good_ = false;
    memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.drop_front(size);
    return good_;
  }
  int64_t number() {
    int64_t v = 0;
    take(&v, sizeof v);
    return v;
  }
  double real() {
    double v = 0;
    take(&v, sizeof v);
    return v;
  }
  std::string text(int64_t size) {
    if (size < 0 || size > int64_t(bytes_.size()))
      good_ = false;
    std::string s = good_ ? bytes_.take_front(size_t(size)).str() : "";
    bytes_ = bytes_.drop_front(s.size());
    return s;
  }
  bool good() const { return good_; }

private:
  llvm::StringRef bytes_;
  bool good_ = true;
};

std::string bytesText(llvm::ArrayRef<uint8_t> bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// Text as DATA and RESULTS have it: the lengths of `count` elements, those beyond the tensor's
/// empty, then the bytes.
std::string textData(const Tensor &t, int64_t count) {
  Numbers lengths;
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    lengths.add(i < t.size() ? int64_t(t.stringValues()[size_t(i)].size()) : 0);
    bytes += i < t.size() ? t.stringValues()[size_t(i)] : "";
  }
  return lengths.bytes().str() + bytes;
}

/// The tensor of such text; null when it is cut short.
Tensor readText(ResultReader &reader, llvm::ArrayRef<int64_t> shape, int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count && reader.good(); ++i)
    lengths.push_back(reader.number());
  Strings values;
  for (int64_t length : lengths)
    values.push_back(reader.text(length));
  return reader.good() ? Tensor::strings(shape, std::move(values)) : Tensor();
}

int64_t upperBytes(Type t) { return byteSize(t.element(), t.upperElements()); }

//===----------------------------------------------------------------------===//
// Parts of the manifest
//===----------------------------------------------------------------------===//

/// Run-time dimensions whose sizes the run is given; those born in the graph are not.
std::string settingsOf(const Module &module, const SymbolValues &symbols) {
  const DimSpelling dims(module);
  Numbers count, settings;
  int64_t settable = 0;
  for (size_t i = 0; i < dims.symbols().size(); ++i) {
    auto it = symbols.find(dims.symbols()[i].symbol().str());
    if (it == symbols.end())
      continue;
    settings.add(int64_t(i));
    settings.add(it->second);
    ++settable;
  }
  count.add(settable);
  return count.bytes().str() + settings.bytes().str();
}

/// Sizes of the inputs; their bytes go to `data`. Buffers have the size of the largest extents, as
/// the interface asks.
std::string inputsOf(Graph &graph, llvm::ArrayRef<Tensor> values, const SymbolValues &symbols,
                     std::string &data) {
  Numbers count, inputs;
  int64_t number = 0;
  for (unsigned i = 0; i < values.size(); ++i) {
    if (graph.stateOfInput(i))
      continue;
    ++number;
    const Type t = graph.body().argument(i)->type();
    const bool isText = t.element() == Element::String;
    std::string bytes =
        isText ? textData(values[i], t.upperElements()) : physicalBytes(values[i], t, symbols);
    if (!isText)
      bytes.resize(size_t(std::max<int64_t>(upperBytes(t), int64_t(bytes.size()))));
    inputs.add(int64_t(bytes.size()));
    inputs.add(isText ? t.upperElements() : -1);
    data += bytes;
  }
  count.add(number);
  return count.bytes().str() + inputs.bytes().str();
}

std::string outputsOf(Graph &graph) {
  Operation *end = graph.returnOp();
  Numbers count, outputs;
  int64_t number = 0;
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    if (graph.stateOfOutput(i))
      continue;
    ++number;
    const Type t = end->operand(i)->type();
    outputs.add(upperBytes(t));
    outputs.add(t.rank());
    outputs.add(t.element() == Element::String ? t.upperElements() : -1);
  }
  count.add(number);
  return count.bytes().str() + outputs.bytes().str();
}

/// What is moved around steps; the bytes that go in go to `data`.
std::string transfersOf(llvm::ArrayRef<Transfer> all, std::string &data) {
  Numbers transfers;
  transfers.add(int64_t(all.size()));
  for (const Transfer &t : all) {
    const bool indexed = t.place.home == Home::Input || t.place.home == Home::Output;
    const int home = t.place.home == Home::Input    ? 1
                     : t.place.home == Home::Output ? 2
                     : t.place.home == Home::State  ? 3
                                                    : 0;
    for (int64_t v : {int64_t(t.step), int64_t(t.read), int64_t(t.read), int64_t(home), t.place.at,
                      indexed ? t.place.offset : 0, int64_t(t.form.segments().size())})
      transfers.add(v);
    for (const Segment &s : t.form.segments()) {
      transfers.add(s.offset);
      transfers.add(s.bytes);
    }
    if (!t.read)
      data += bytesText(t.bytes);
  }
  return transfers.bytes().str();
}

//===----------------------------------------------------------------------===//
// Parts of the results
//===----------------------------------------------------------------------===//

bool readOutputs(Graph &graph, ResultReader &reader, std::vector<Tensor> &outputs,
                 Diagnostics &diagnostics) {
  Operation *end = graph.returnOp();
  std::vector<llvm::SmallVector<int64_t, 6>> shapes(end->numOperands());
  for (unsigned i = 0; i < end->numOperands(); ++i)
    for (unsigned d = 0; !graph.stateOfOutput(i) && d < end->operand(i)->type().rank(); ++d)
      shapes[i].push_back(reader.number());
  outputs.assign(end->numOperands(), Tensor());
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    if (graph.stateOfOutput(i))
      continue;
    const Type t = end->operand(i)->type();
    int64_t elements = 1;
    for (int64_t d : shapes[i])
      elements *= d;
    if (elements < 0 || byteSize(t.element(), elements) > upperBytes(t)) {
      diagnostics.error("output '" + graph.outputNames[i] +
                        "': the generated code reports an extent beyond its bound");
      return false;
    }
    if (t.element() == Element::String) {
      outputs[i] = readText(reader, shapes[i], elements);
      continue;
    }
    std::vector<uint8_t> bytes(size_t(upperBytes(t)));
    if (!reader.take(bytes.data(), bytes.size()))
      break;
    bytes.resize(size_t(byteSize(t.element(), elements)));
    outputs[i] = Tensor(t.element(), shapes[i], std::move(bytes));
  }
  return true;
}

void readTimes(ResultReader &reader, ProgramRun &run) {
  run.createNanoseconds = reader.real();
  run.firstNanoseconds = reader.real();
  const int64_t times = reader.number(), profiled = reader.number(), steps = reader.number();
  run.nanoseconds.clear();
  for (int64_t i = 0; i < times && reader.good(); ++i)
    run.nanoseconds.push_back(reader.real());
  run.stepNanoseconds.clear();
  for (int64_t i = 0; i < steps && reader.good(); ++i)
    run.stepNanoseconds.push_back(reader.real() / double(std::max<int64_t>(profiled, 1)));
  if (run.contexts > 1) {
    run.oneContextNanoseconds = reader.real();
    run.allContextsNanoseconds = reader.real();
  }
}

} // namespace

bool describeRun(Compiler &compiler, const ProgramRun &run, unsigned threads, std::string &manifest,
                 std::string &data) {
  Graph &graph = compiler.module().graph();
  SymbolValues symbols;
  if (!bindInputs(graph, run.inputs, symbols, compiler.diagnostics()))
    return false;
  Numbers head;
  for (int64_t v : {int64_t(threads), run.runs, run.warmup, run.budgetMilliseconds,
                    int64_t(run.profileSteps), int64_t(run.contexts)})
    head.add(v);
  manifest = head.bytes().str() + settingsOf(compiler.module(), symbols);
  manifest += inputsOf(graph, run.inputs, symbols, data);
  manifest += outputsOf(graph);
  manifest += transfersOf(run.transfers, data);
  return true;
}

bool readResults(Compiler &compiler, llvm::StringRef bytes, ProgramRun &run) {
  ResultReader reader(bytes);
  if (!readOutputs(compiler.module().graph(), reader, run.outputs, compiler.diagnostics()))
    return false;
  for (Transfer &t : run.transfers)
    if (t.read) {
      t.done = reader.number();
      t.bytes.resize(size_t(t.form.bytes()));
      reader.take(t.bytes.data(), t.bytes.size());
    }
  readTimes(reader, run);
  if (!reader.good())
    compiler.diagnostics().error("the results of the generated code are cut short");
  return reader.good();
}

} // namespace tenon

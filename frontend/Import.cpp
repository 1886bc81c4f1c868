// Implements the import of a model: file, checks of the whole, inputs, nodes, outputs, facts.
#include "frontend/Import.h"

#include "frontend/Decoder.h"
#include "frontend/Extents.h"
#include "frontend/Sha256.h"
#include "frontend/Signature.h"
#include "frontend/States.h"
#include "frontend/SupportCheck.h"
#include "frontend/onnx/Common.h"
#include "frontend/onnx/Table.h"

#include "ir/Entries.h"
#include "ir/Names.h"
#include "ir/NearFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace tenon {
using namespace frontend;

struct OnnxModel::Impl {
  explicit Impl(llvm::StringRef folder) : folder(folder) {}
  onnx::ModelProto proto;
  ExternalFolder folder;
  std::string sha256;
  std::vector<DeclaredTensor> inputs, outputs;
  /// Numbers of elements of the containers that have been unfolded.
  std::map<std::string, int64_t> counts;
};

OnnxModel::OnnxModel() = default;
OnnxModel::~OnnxModel() = default;
const std::vector<DeclaredTensor> &OnnxModel::inputs() const { return impl_->inputs; }
const std::vector<DeclaredTensor> &OnnxModel::outputs() const { return impl_->outputs; }

void OnnxModel::unfold(const std::map<std::string, int64_t> &counts) {
  for (const DeclaredTensor &in : impl_->inputs)
    if (auto at = counts.find(in.name); in.container != Container::None && at != counts.end())
      impl_->counts.insert(*at);
  impl_->inputs = unfolded(impl_->inputs, counts);
}

std::vector<DeclaredTensor> unfolded(llvm::ArrayRef<DeclaredTensor> declared,
                                     const std::map<std::string, int64_t> &counts) {
  std::vector<DeclaredTensor> list;
  for (const DeclaredTensor &d : declared) {
    auto at = counts.find(d.name);
    if (d.container == Container::None || at == counts.end()) {
      list.push_back(d);
      continue;
    }
    DeclaredTensor element = d;
    element.container = Container::None;
    element.elementOf = d.name;
    for (std::string &extent : element.shape) // a symbol has a value of its own in each element
      if (!llvm::all_of(extent, llvm::isDigit))
        extent.clear();
    for (int64_t i = 0; i < std::min<int64_t>(at->second, kElementLimit); ++i) {
      element.name = d.name + "[" + std::to_string(i) + "]";
      list.push_back(element);
    }
  }
  return list;
}

std::unique_ptr<OnnxModel> OnnxModel::load(llvm::StringRef path, Diagnostics &diagnostics) {
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) && llvm::sys::fs::is_directory(status)) {
    diagnostics.error(quoted(path) + " is a folder: expected an ONNX file");
    return nullptr;
  }
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) {
    diagnostics.error(quoted(path) + " cannot be read: " + buffer.getError().message() +
                      nearFile(path));
    return nullptr;
  }
  if ((*buffer)->getBufferSize() == 0) {
    diagnostics.error(quoted(path) + " is empty: expected an ONNX model");
    return nullptr;
  }
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  Diagnostics found;
  auto model = parse((*buffer)->getBuffer(), folder.empty() ? "." : folder, found);
  for (Diagnostic &d : found.list()) {
    d.message = quoted(path) + ": " + d.message;
    diagnostics.report(d.severity, "") = d;
  }
  return model;
}

std::unique_ptr<OnnxModel> OnnxModel::parse(llvm::StringRef bytes, llvm::StringRef folder,
                                            Diagnostics &diagnostics) {
  std::unique_ptr<OnnxModel> model(new OnnxModel);
  model->impl_ = std::make_unique<Impl>(folder);
  Impl &m = *model->impl_;
  auto fail = [&](std::string why) {
    diagnostics.error(std::move(why));
    return nullptr;
  };
  if (bytes.size() > size_t(INT32_MAX))
    return fail("the file is larger than protobuf allows (2 GiB): store its weights as external "
                "data");
  if (bytes.empty() || !parseMessage(bytes, m.proto))
    return fail("not an ONNX model, or a truncated or damaged one: expected a protobuf ModelProto");
  if (!m.proto.has_graph())
    return fail("the model has no graph");
  const auto opset = llvm::find_if(m.proto.opset_import(), [](const onnx::OperatorSetIdProto &set) {
    return canonicalDomain(set.domain()).empty();
  });
  if (opset != m.proto.opset_import().end()) {
    const std::string range = std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset);
    if (opset->version() < kOldestOpset)
      return fail("opset " + std::to_string(opset->version()) + " is not supported: expected " +
                  range + "; convert the model with onnx.version_converter");
    if (opset->version() > kNewestOpset)
      diagnostics.warning("opset " + std::to_string(opset->version()) +
                          " is newer than this compiler knows (" + range +
                          "): operators are read as in opset " + std::to_string(kNewestOpset));
  }
  if (!readDeclarations(m.proto, m.inputs, m.outputs, diagnostics))
    return nullptr;
  m.sha256 = sha256(bytes);
  return model;
}

/// Whether a dimension's value comes from others, so that data must not bind it.
static bool follows(const std::string &symbol, const ImportOptions &options) {
  if (options.bindExtents.count(symbol) || options.bindExtents.count(sanitizeName(symbol)))
    return true;
  if (!frontend::isExtentExpression(symbol))
    return false;
  const auto terms = frontend::parseExtent(symbol);
  return llvm::any_of(*terms, [&](const frontend::ExtentTerm &t) {
    return llvm::any_of(t.names, [&](const std::string &n) {
      return options.ranges.count(n) || options.ranges.count(sanitizeName(n));
    });
  });
}

bool OnnxModel::bindFromData(llvm::ArrayRef<Tensor> data, ImportOptions &options,
                             Diagnostics &diagnostics) const {
  bool ok = true;
  auto fail = [&](const DeclaredTensor &in, const std::string &why) {
    diagnostics.error("data for input " + quoted(in.name) + " " + why);
    ok = false;
  };
  auto isSymbol = [&](const std::string &name) {
    return llvm::any_of(
        inputs(), [&](const DeclaredTensor &in) { return llvm::is_contained(in.shape, name); });
  };
  for (size_t i = 0; i < data.size() && i < inputs().size(); ++i) {
    const DeclaredTensor &in = inputs()[i];
    const Tensor &t = data[i];
    if (t.isNull() || options.shapes.count(in.name) || options.constants.count(in.name) ||
        followingInput(options, in.name))
      continue;
    if (t.element() != in.element)
      fail(in, "is " + name(t.element()).str() + ", expected " + name(in.element).str());
    if (!in.hasShape) {
      std::vector<std::string> shape;
      for (int64_t d : t.shape())
        shape.push_back(std::to_string(d));
      options.shapes[in.name] = shape;
      continue;
    }
    if (t.rank() != in.shape.size()) {
      fail(in, "has rank " + std::to_string(t.rank()) + ", expected " +
                   std::to_string(in.shape.size()));
      continue;
    }
    if (t.rank() == 0 && isInteger(in.element) && !isSymbol(in.name))
      options.ranges.insert({in.name, {std::min<int64_t>(0, t.intAt(0)), t.intAt(0)}});
    for (unsigned d = 0; d < t.rank(); ++d) {
      const int64_t extent = t.shape()[d];
      const std::string symbol = in.shape[d].empty() ? anonymousName(in.name, d) : in.shape[d];
      int64_t declared;
      if (!llvm::StringRef(symbol).getAsInteger(10, declared)) {
        if (declared != extent)
          fail(in, "has extent " + std::to_string(extent) + " at dimension " + std::to_string(d) +
                       ", expected " + symbol);
      } else if (!options.ranges.count(symbol) && !options.ranges.count(sanitizeName(symbol)) &&
                 !options.bindDims.count(sanitizeName(symbol)) && !follows(symbol, options)) {
        // Also compares with what another input has bound.
        if (options.bindDims.insert({symbol, extent}).first->second != extent)
          fail(in, "has extent " + std::to_string(extent) + " at dimension " + std::to_string(d) +
                       ", but " + quoted(symbol) + " is bound to " +
                       std::to_string(options.bindDims[symbol]));
      }
    }
  }
  return ok;
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

namespace {

/// Compares a declared type with what was inferred; contradictions are the model's, not ours.
void compareDeclared(ModelImport &state, const onnx::ValueInfoProto &info, Value *v) {
  if (!v || !info.type().has_tensor_type())
    return;
  const auto &declared = info.type().tensor_type();
  Type t = v->type();
  std::string found;
  if (declared.elem_type() != 0 && declared.elem_type() != onnxCode(t.element()))
    found = "another element type";
  if (found.empty() && declared.has_shape()) {
    bool same = declared.shape().dim_size() == int(t.rank());
    for (unsigned d = 0; same && d < t.rank(); ++d) {
      const auto &dim = declared.shape().dim(int(d));
      if (dim.has_dim_value() && dim.dim_value() >= 0 && t.dim(d).isConstant())
        same = dim.dim_value() == t.dim(d).constant();
    }
    if (!same)
      found = "another shape";
  }
  if (!found.empty())
    state.warning("the model declares " + found + " for " + quoted(info.name()) +
                  "; what inference found is used: " + toString(t));
}

/// Sequences and optionals need to be told how many elements they have.
bool areCounted(llvm::ArrayRef<DeclaredTensor> inputs, ModelImport &state) {
  for (const DeclaredTensor &in : inputs)
    if (in.container != Container::None)
      state.error("input " + quoted(in.name) + " is " +
                  (in.container == Container::Sequence ? "a sequence" : "an optional") +
                  ": say how many elements it has with --bind " +
                  llvm::StringRef(quoted(in.name + "=1")).trim('\'').str());
  return !state.failed();
}

/// What the file says of itself.
void noteOrigin(const ModelImport &state, Module &module) {
  const onnx::ModelProto &proto = state.model;
  module.facts["nodes"] = std::to_string(proto.graph().node_size());
  module.facts["ir_version"] = std::to_string(proto.ir_version());
  for (const auto &[domain, version] : state.opsets)
    module.facts[domain.empty() ? "opset" : "opset." + validUtf8(domain)] = std::to_string(version);
  if (!proto.producer_name().empty())
    module.facts["producer"] =
        validUtf8(proto.producer_name() +
                  (proto.producer_version().empty() ? "" : " " + proto.producer_version()));
}

/// What a model is imported from.
struct Source {
  const onnx::ModelProto &proto;
  const ExternalFolder &folder;
  const std::string &sha256;
  const std::vector<DeclaredTensor> &inputs, &outputs;
  const std::map<std::string, int64_t> &counts; // of containers
};

/// The names of the graph's outputs, those of sequences by element; false after an error.
bool nameOutputs(ModelImport &state, llvm::ArrayRef<DeclaredTensor> declared,
                 const TensorsOrSequences &outputs, Graph &g) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &name = declared[i].name;
    if (const auto stack = outputs[i].stack()) {
      state.error("output " + quoted(name) + " is a sequence of " +
                  text({stack->pieces->type().dim(0)}, "") +
                  " tensors: expected a known number; give its symbols values with --bind, or end "
                  "the model in ConcatFromSequence");
      return false;
    }
    if (outputs[i].tensor() && declared[i].container == Container::None)
      g.outputNames.push_back(name);
    else
      for (size_t k = 0; k < outputs[i].values().size(); ++k)
        g.outputNames.push_back(name + "[" + std::to_string(k) + "]");
  }
  return true;
}

/// A module of one graph.
llvm::Optional<ImportedModel> importOnce(const Source &source, Context &context,
                                         const ImportOptions &options, Diagnostics &diagnostics) {
  const onnx::ModelProto &proto = source.proto;
  const onnx::GraphProto &graph = proto.graph();
  ImportOptions own = options;
  for (const auto &[name, count] : source.counts)
    own.bindDims.erase(name); // no dimension
  ModelImport state(proto, source.folder, own, diagnostics);
  if (!checkSupport(state) || !areCounted(source.inputs, state))
    return llvm::None;
  std::vector<InputType> types;
  const std::vector<DeclaredTensor> inputs = declaredInputs(own, source.inputs);
  if (!resolveInputs(state, context, inputs, source.outputs, types))
    return llvm::None;
  state.inputSymbols = state.symbols.size();

  ImportedModel result;
  result.module = std::make_unique<Module>(context);
  Module &module = *result.module;
  module.name = graph.name().empty() ? "model" : validUtf8(graph.name());
  Graph &g = module.addGraph("main");
  Builder b(g.body(), state.pending);
  GraphImporter importer(state, b, "", state.opsets, nullptr, 0);
  std::map<std::string, Elements> lists;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string &name = inputs[i].name;
    if (followingInput(own, name))
      continue;
    Value *v;
    if (types[i].constant) {
      v = b.constant(*types[i].constant, name);
    } else {
      v = g.body().addArgument(Type::tensor(context, types[i].element, types[i].shape), name);
      g.inputNames.push_back(name);
      if (v->type().upperElements() > kElementLimit || v->type().upperElements() < 0)
        state.error("input " + quoted(name) + " of type " + toString(v->type()) +
                    " has more elements than any machine holds");
      if (types[i].range)
        state.valueRanges[v] = *types[i].range;
    }
    state.names.push_back({name, v});
    if (inputs[i].elementOf.empty())
      importer.define(name, v);
    else
      lists[inputs[i].elementOf].push_back(v);
  }
  for (const auto &info : graph.input()) {
    auto count = source.counts.find(info.name());
    if (count == source.counts.end())
      continue;
    Elements &list = lists[info.name()];
    if (info.type().has_sequence_type() ||
        (count->second > 0 && info.type().optional_type().elem_type().has_sequence_type()))
      importer.define(info.name(), TensorOrSequence(std::move(list)));
    else
      importer.define(info.name(), list.empty() ? TensorOrSequence() : TensorOrSequence(list[0]));
  }
  if (own.decoder && !state.failed() && !defineFollowing(state, g, importer, inputs))
    return llvm::None;
  Value *run = state.drawsRandom(graph) ? addRandomRun(graph, g, importer) : nullptr;
  TensorsOrSequences outputs;
  if (state.failed() || !importer.importGraph(graph) || !importer.results(outputs))
    return llvm::None;
  b.location = {};
  if (!nameOutputs(state, source.outputs, outputs, g))
    return llvm::None;
  llvm::SmallVector<Value *, 8> results = flattened(outputs);
  if (run)
    countRuns(graph, g, b, run, results);
  carryText(own, g, b, results);
  b.yield(results, Op::Return);
  if (!resolveStates(state, g) || (own.decoder && !finishDecoder(state, g)))
    return llvm::None;

  for (const auto &info : graph.output())
    compareDeclared(state, info,
                    importer.find(info.name()).getValueOr(TensorOrSequence()).tensor());
  for (const auto &info : graph.value_info())
    compareDeclared(state, info,
                    importer.find(info.name()).getValueOr(TensorOrSequence()).tensor());

  module.stage = Stage::Imported;
  module.symbols = state.symbols;
  module.facts["sha256"] = source.sha256;
  noteOrigin(state, module);
  result.names = std::move(state.names);
  result.nodeCount = graph.node_size();
  const std::set<std::string> &files = source.folder.filesRead();
  result.files.assign(files.begin(), files.end());
  return result;
}

} // namespace

bool OnnxModel::readDecoder(const DecoderRequest &request, ImportOptions &options,
                            Diagnostics &diagnostics) const {
  return frontend::readDecoder(impl_->proto.graph(), inputs(), outputs(), request, options,
                               diagnostics);
}

llvm::Optional<ImportedModel> OnnxModel::toModule(Context &context, const ImportOptions &options,
                                                  Diagnostics &diagnostics) const {
  const Source source{impl_->proto,  impl_->folder,  impl_->sha256,
                      impl_->inputs, impl_->outputs, impl_->counts};
  auto result = importOnce(source, context, options, diagnostics);
  if (!result || !options.decoder)
    return result;
  for (const DecoderEntry &entry : decoderEntries(options, *result->module)) {
    // What there is to warn of has been said of the first graph.
    Diagnostics found;
    const auto imported = importOnce(source, context, entry.options, found);
    if (!imported) {
      for (Diagnostic &d : found.list())
        if (d.severity == Severity::Error) {
          d.message = "--decoder, " + entry.name + ": " + d.message;
          diagnostics.error("") = std::move(d);
        }
      return llvm::None;
    }
    addCopy(*result->module, imported->module->graph()).name = entry.name;
    for (Dim d : imported->module->symbols)
      if (!llvm::is_contained(result->module->symbols, d))
        result->module->symbols.push_back(d);
  }
  return result;
}

} // namespace tenon

// Implements the writing of ONNX graphs: names, initializers, extents, the model around them.
#include "exporter/Writer.h"

#include "exporter/Opset.h"
#include "ir/Extents.h"
#include "ir/Names.h"
#include "ir/ops/Ops.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace tenon {
namespace exporter {

namespace {

/// Initializers of at most so many bytes are written once however often they are wanted, and never
/// stand in the file of weights.
constexpr size_t kSmall = 1024;

void setAttribute(onnx::AttributeProto &a, const AttributeValue &value) {
  if (const auto *i = std::get_if<int64_t>(&value)) {
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(*i);
  } else if (const auto *f = std::get_if<double>(&value)) {
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(float(*f));
  } else if (const auto *s = std::get_if<std::string>(&value)) {
    a.set_type(onnx::AttributeProto::STRING);
    a.set_s(*s);
  } else if (const auto *list = std::get_if<Ints>(&value)) {
    a.set_type(onnx::AttributeProto::INTS);
    for (int64_t i : *list)
      a.add_ints(i);
  } else {
    a.set_type(onnx::AttributeProto::GRAPH);
    a.mutable_g()->Swap(std::get<onnx::GraphProto *>(value));
  }
}

} // namespace

Element storedAs(Element e) {
  return e == Element::I2 ? Element::I8 : e == Element::U2 ? Element::U8 : e;
}

bool Writer::refuse(const llvm::Twine &reason) {
  if (!failed_)
    diagnostics_.error(*current_, current_->name().str() + " has no form in ONNX opset " +
                                      std::to_string(kExportOpset) + ": " + reason.str());
  failed_ = true;
  return false;
}

std::string Writer::unique(llvm::StringRef base) {
  std::string wanted = base.empty() ? "value" : base.str();
  if (used_.insert(wanted).second)
    return wanted;
  unsigned &next = counters_[wanted];
  for (;;)
    if (std::string s = wanted + "_" + std::to_string(++next); used_.insert(s).second)
      return s;
}

Names Writer::nodes(llvm::StringRef type, const Names &inputs, const Attributes &attributes,
                    unsigned results) {
  onnx::NodeProto &n = *graph().add_node();
  n.set_op_type(type.str());
  const Location &loc = current_->loc();
  n.set_name(unique("node:" + (loc.empty() ? type.str() : loc.front())).substr(5));
  for (const std::string &input : inputs)
    n.add_input(input);
  while (n.input_size() && n.input(n.input_size() - 1).empty())
    n.mutable_input()->RemoveLast();
  for (auto &[key, value] : attributes) {
    onnx::AttributeProto &a = *n.add_attribute();
    a.set_name(key);
    setAttribute(a, value);
  }
  Names made;
  const std::string hint =
      current_->numResults() ? sanitizeName(current_->result()->hint()) : std::string();
  for (unsigned i = 0; i < results; ++i)
    n.add_output(made.emplace_back(unique((hint.empty() ? "" : hint + "_") + type.lower())));
  temporary_ = results == 1 ? made[0] : "";
  return made;
}

std::string Writer::node(llvm::StringRef type, const Names &inputs, const Attributes &attributes) {
  return nodes(type, inputs, attributes, 1)[0];
}

std::string Writer::name(const Value *v) {
  if (auto it = names_.find(v); it != names_.end())
    return it->second;
  // Constants are written where they are first wanted as they are.
  const Literal t = constantValue(v);
  if (!t)
    return refused("an operand that is not known before it");
  std::string made = constant(*t, v->hint());
  names_[v] = made;
  return made;
}

void Writer::bind(const Value *v, const std::string &made) {
  std::string called = made;
  if (!temporary_.empty() && made == temporary_) {
    auto it = wanted_.find(v);
    called = it != wanted_.end() ? it->second
             : v->hint().empty() ? made
                                 : unique(sanitizeName(v->hint()));
    onnx::NodeProto &last = *graph().mutable_node(graph().node_size() - 1);
    last.set_output(0, called);
    if (called != made)
      used_.erase(made);
    if (it == wanted_.end() && v->type().isTensor() && v->type().hasStaticShape()) {
      onnx::ValueInfoProto &info = *graph().add_value_info();
      info.set_name(called);
      setType(info, v->type());
    }
  }
  temporary_.clear();
  names_[v] = called;
  learnExtents(v, called);
}

void Writer::alias(const Value *v, const Value *other) {
  names_[v] = name(other);
  learnExtents(v, names_[v]);
}

void Writer::addInitializer(const std::string &name, const Tensor &tensor) {
  onnx::TensorProto &t = *model_.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(onnxCode(tensor.element()));
  for (int64_t d : tensor.shape())
    t.add_dims(d);
  tensors_.push_back(tensor);
}

std::string Writer::constant(const Tensor &given, llvm::StringRef hint) {
  Tensor tensor = given;
  if (const Element e = storedAs(given.element()); e != given.element()) {
    tensor = Tensor(e, given.shape());
    for (int64_t i = 0; i < given.size(); ++i)
      tensor.setInt(i, given.intAt(i));
  }
  std::string key;
  if (tensor.element() != Element::String && tensor.bytes().size() <= kSmall) {
    llvm::raw_string_ostream os(key);
    os << tenon::name(tensor.element());
    for (int64_t d : tensor.shape())
      os << ' ' << d;
    os << ':';
    os.write(reinterpret_cast<const char *>(tensor.bytes().data()), tensor.bytes().size());
    if (auto it = small_.find(os.str()); it != small_.end())
      return it->second;
  }
  std::string called = sanitizeName(hint);
  called = unique(called.empty() ? "constant" : called);
  addInitializer(called, tensor);
  if (!key.empty())
    small_[key] = called;
  return called;
}

void Writer::learnExtents(const Value *v, const std::string &called) {
  const Type t = v->type();
  if (!t.isTensor())
    return;
  for (unsigned i = 0; i < t.rank(); ++i)
    if (!t.dim(i).isConstant())
      scopes_.back().sources.insert({t.dim(i).node(), {called, i}});
}

std::string Writer::madeExtent(Dim d) {
  for (size_t s = scopes_.size(); s-- > 0;)
    if (auto it = scopes_[s].sources.find(d.node()); it != scopes_[s].sources.end()) {
      const int64_t axis = it->second.second;
      return node("Shape", {it->second.first}, {{"start", axis}, {"end", axis + 1}});
    }
  const DimNode &n = *d.node();
  if (n.kind == DimKind::Symbol)
    return refused("no tensor before it has the extent " + d.symbol());
  const std::string a = extent(Dim(n.lhs)), b = extent(Dim(n.rhs));
  if (failed_)
    return "";
  switch (n.kind) {
  case DimKind::Add: return node("Add", {a, b});
  case DimKind::Mul: return node("Mul", {a, b});
  case DimKind::Min: return node("Min", {a, b});
  case DimKind::Max: return node("Max", {a, b});
  default: // a division that rounds down
    return node("Div", {node("Sub", {a, node("Mod", {a, b})}), b});
  }
}

std::string Writer::extent(Dim d) {
  if (d.isConstant())
    return integers({d.constant()});
  for (size_t s = scopes_.size(); s-- > 0;)
    if (auto it = scopes_[s].extents.find(d.node()); it != scopes_[s].extents.end())
      return it->second;
  std::string made = madeExtent(d);
  scopes_.back().extents[d.node()] = made;
  temporary_.clear(); // it keeps its name, for others
  return made;
}

std::string Writer::scalarExtent(Dim d) {
  if (d.isConstant()) {
    Tensor t(Element::I64, {});
    t.setInt(0, d.constant());
    return constant(t);
  }
  return node("Squeeze", {extent(d), integers({0})});
}

std::string Writer::shape(llvm::ArrayRef<Dim> dims) {
  if (llvm::all_of(dims, [](Dim d) { return d.isConstant(); })) {
    Extents known;
    for (Dim d : dims)
      known.push_back(d.constant());
    return integers(known);
  }
  Names parts;
  for (Dim d : dims)
    parts.push_back(extent(d));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", int64_t(0)}});
}

std::string Writer::range(Dim d) {
  if (d.isConstant()) {
    Tensor t(Element::I64, {d.constant()});
    for (int64_t i = 0; i < t.size(); ++i)
      t.setInt(i, i);
    return constant(t);
  }
  Tensor zero(Element::I64, {}), one = zero;
  one.setInt(0, 1);
  return node("Range", {constant(zero), scalarExtent(d), constant(one)});
}

std::string Writer::reshape(const std::string &x, llvm::ArrayRef<Dim> dims) {
  // One extent that is not known follows from the others.
  unsigned open = 0;
  bool zero = false;
  Extents known;
  for (Dim d : dims) {
    open += !d.isConstant();
    zero |= d.lower() <= 0;
    known.push_back(d.isConstant() ? d.constant() : -1);
  }
  const std::string to = open == 1 && !zero ? integers(known) : shape(dims);
  Attributes attributes;
  if (zero)
    attributes.push_back({"allowzero", int64_t(1)});
  return node("Reshape", {x, to}, attributes);
}

std::string Writer::transpose(const std::string &x, llvm::ArrayRef<int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != int64_t(i))
      return node("Transpose", {x}, {{"perm", Ints(perm.begin(), perm.end())}});
  return x;
}

std::string Writer::cast(const std::string &x, Element to) {
  return node("Cast", {x}, {{"to", int64_t(onnxCode(storedAs(to)))}});
}

std::string Writer::swapped(const Value *v) {
  const unsigned rank = v->type().rank();
  Ints perm;
  for (unsigned i = 0; i < rank; ++i)
    perm.push_back(i + 2 < rank ? i : 2 * rank - 3 - i);
  return transpose(name(v), perm);
}

void Writer::setType(onnx::ValueInfoProto &info, Type type) {
  onnx::TypeProto::Tensor &t = *info.mutable_type()->mutable_tensor_type();
  t.set_elem_type(onnxCode(storedAs(type.element())));
  onnx::TensorShapeProto &s = *t.mutable_shape();
  for (Dim d : type.shape())
    if (auto *dim = s.add_dim(); d.isConstant())
      dim->set_dim_value(d.constant());
    else
      dim->set_dim_param(text(d));
}

void Writer::beginGraph(onnx::GraphProto &g) {
  g.set_name(unique("graph:" + current_->name().str()).substr(6));
  scopes_.emplace_back(&g);
  temporary_.clear();
}

void Writer::endGraph() {
  scopes_.pop_back();
  temporary_.clear();
}

std::string Writer::graphInput(Type type, llvm::StringRef hint) {
  onnx::ValueInfoProto &info = *graph().add_input();
  std::string called = unique(sanitizeName(hint));
  info.set_name(called);
  setType(info, type);
  return called;
}

std::string Writer::graphInput(Element e, llvm::StringRef hint) {
  onnx::ValueInfoProto &info = *graph().add_input();
  std::string called = unique(hint);
  info.set_name(called);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnxCode(storedAs(e)));
  return called;
}

void Writer::graphOutput(const std::string &made, Type type) {
  // What comes from outside, and what is given twice, needs a node of this graph's own.
  const std::string called = node("Identity", {made});
  onnx::ValueInfoProto &info = *graph().add_output();
  info.set_name(called);
  setType(info, type);
}

void Writer::graphOutput(const std::string &made, Element e) {
  const std::string called = node("Identity", {made});
  onnx::ValueInfoProto &info = *graph().add_output();
  info.set_name(called);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnxCode(storedAs(e)));
}

bool Writer::dispatch(Operation &op) {
  switch (op.kind()) {
  case Op::Constant: return true;
  case Op::Map: return exportMap(op, *this);
  case Op::Reduce: return exportReduce(op, *this);
  case Op::Scan: return exportScan(op, *this);
  case Op::Softmax: return exportSoftmax(op, *this);
  case Op::QuantizedSoftmax: return exportQuantizedSoftmax(op, *this);
  case Op::Normalize: return exportNormalize(op, *this);
  case Op::Reshape:
  case Op::Transpose:
  case Op::Slice:
  case Op::Pad:
  case Op::Concat:
  case Op::Gather:
  case Op::Scatter:
  case Op::Bitcast: return exportMovement(op, *this);
  case Op::Conv:
  case Op::ConvTranspose:
  case Op::MatMul: return exportContraction(op, *this);
  case Op::Attention: return exportAttention(op, *this);
  case Op::Pool:
  case Op::Resize: return exportWindow(op, *this);
  case Op::ShapeOf:
  case Op::NonZero:
  case Op::TopK:
  case Op::NonMaxSuppression:
  case Op::Unique: return exportSearch(op, *this);
  case Op::TextMap:
  case Op::TextSplit: return exportText(op, *this);
  case Op::If:
  case Op::Loop:
  case Op::Group:
  case Op::User: return exportControl(op, *this);
  default: return refuse("it stands outside of a body");
  }
}

bool Writer::operation(Operation &op) {
  Operation *outer = current_;
  current_ = &op;
  temporary_.clear();
  for (Value *v : op.results())
    if (!v->type().isTensor())
      return refuse("its result is " + toString(v->type()));
    else if (const Element e = v->type().element(); onnxCode(e) > 22 && storedAs(e) == e)
      return refuse("its result is of " + tenon::name(e) + ", which a later opset has");
  const bool ok = dispatch(op) && !failed_;
  current_ = outer;
  return ok;
}

bool Writer::operations(Region &region) {
  for (Operation &op : region)
    if (!op.isTerminator() && !operation(op))
      return false;
  return true;
}

bool Writer::ports(Graph &g) {
  for (const std::string &name : g.inputNames)
    used_.insert(name);
  for (const std::string &name : g.outputNames)
    used_.insert(name);
  for (unsigned i = 0; i < g.body().numArguments(); ++i) {
    Value *v = g.body().argument(i);
    if (!v->type().isTensor()) {
      diagnostics_.error("input '" + g.inputNames[i] + "' is " + toString(v->type()) +
                         ": only tensors are exported");
      return false;
    }
    onnx::ValueInfoProto &info = *graph().add_input();
    info.set_name(g.inputNames[i]);
    setType(info, v->type());
    names_[v] = g.inputNames[i];
    learnExtents(v, g.inputNames[i]);
  }
  // Values that are made under the names of outputs; what is none of its own gets a node below.
  const std::set<std::string> inputs(g.inputNames.begin(), g.inputNames.end());
  for (unsigned i = 0; i < g.outputNames.size(); ++i) {
    Value *v = g.returnOp()->operand(i);
    while (v->def() && v->def()->is(Op::Group))
      v = v->def()->region().terminator()->operand(v->index());
    if (!inputs.count(g.outputNames[i]) && !wanted_.count(v))
      wanted_[v] = g.outputNames[i];
  }
  return true;
}

bool Writer::results(Graph &g) {
  current_ = g.returnOp();
  for (unsigned i = 0; i < g.outputNames.size(); ++i) {
    Value *v = g.returnOp()->operand(i);
    const std::string called = name(v);
    if (called != g.outputNames[i]) {
      node("Identity", {called});
      graph().mutable_node(graph().node_size() - 1)->set_output(0, g.outputNames[i]);
    }
    onnx::ValueInfoProto &info = *graph().add_output();
    info.set_name(g.outputNames[i]);
    setType(info, v->type());
  }
  return true;
}

bool Writer::finish(ExportedModel &exported) {
  int64_t total = 0;
  for (const Tensor &t : tensors_)
    if (t.element() != Element::String)
      total += int64_t(t.bytes().size());
  const bool apart =
      options_.weights == ExportOptions::Weights::File ||
      (options_.weights == ExportOptions::Weights::Auto && total > options_.inlineLimit);
  if (!apart && total > options_.inlineLimit) {
    diagnostics_.error("weights of " + std::to_string(total) + " bytes do not fit into a model, " +
                       "which holds " + std::to_string(options_.inlineLimit) +
                       ": let a file have them, with --weights=file");
    return false;
  }
  int64_t at = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor &t = tensors_[i];
    onnx::TensorProto &proto = *model_.mutable_graph()->mutable_initializer(int(i));
    if (t.element() == Element::String) {
      for (const std::string &s : t.stringValues())
        proto.add_string_data(s);
      continue;
    }
    const llvm::ArrayRef<uint8_t> bytes = t.bytes();
    if (!apart || bytes.size() <= kSmall) {
      proto.set_raw_data(bytes.data(), bytes.size());
      continue;
    }
    at = int64_t(llvm::alignTo(uint64_t(at), uint64_t(ExportedModel::kAlignment)));
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    auto entry = [&](const char *key, const std::string &value) {
      onnx::StringStringEntryProto &e = *proto.add_external_data();
      e.set_key(key);
      e.set_value(value);
    };
    entry("location", options_.weightsFile);
    entry("offset", std::to_string(at));
    entry("length", std::to_string(bytes.size()));
    at += int64_t(bytes.size());
    exported.weights.push_back(std::make_shared<const Tensor>(t));
  }
  exported.nodes = unsigned(model_.graph().node_size());
  exported.opset = leastOpset(model_.graph());
  model_.mutable_opset_import(0)->set_version(exported.opset);
  {
    google::protobuf::io::StringOutputStream stream(&exported.bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    if (!model_.SerializeToCodedStream(&out)) {
      diagnostics_.error("the model is longer than protobuf allows: let a file have its weights, "
                         "with --weights=file");
      return false;
    }
  }
  return true;
}

bool Writer::write(ExportedModel &exported) {
  if (module_.graphs.size() != 1) {
    diagnostics_.error("the module has " + std::to_string(module_.graphs.size()) +
                       " graphs, one for each level of its target: export it before it is "
                       "scheduled, or for one level");
    return false;
  }
  Graph &g = module_.graph();
  current_ = g.returnOp();
  // IR version 10 came with opset 21.
  model_.set_ir_version(10);
  model_.set_producer_name("tenon");
  model_.set_producer_version(TENON_VERSION);
  model_.add_opset_import();
  for (auto &[key, value] : module_.facts) {
    onnx::StringStringEntryProto &e = *model_.add_metadata_props();
    e.set_key("tenon." + key);
    e.set_value(value);
  }
  onnx::GraphProto &top = *model_.mutable_graph();
  top.set_name(module_.name.empty() ? g.name : module_.name);
  scopes_.emplace_back(&top);
  if (!ports(g) || !operations(g.body()) || !results(g) || failed_)
    return false;
  return finish(exported);
}

} // namespace exporter

void ExportedModel::writeWeights(llvm::raw_ostream &os) const {
  int64_t at = 0;
  for (const Literal &t : weights) {
    const int64_t start = int64_t(llvm::alignTo(uint64_t(at), uint64_t(kAlignment)));
    os.write_zeros(unsigned(start - at));
    os.write(reinterpret_cast<const char *>(t->bytes().data()), t->bytes().size());
    at = start + int64_t(t->bytes().size());
  }
}

bool exportModule(Module &module, const ExportOptions &options, ExportedModel &exported,
                  Diagnostics &diagnostics) {
  return exporter::Writer(module, options, diagnostics).write(exported);
}

} // namespace tenon

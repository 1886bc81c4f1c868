// Implements declared types and the resolution of symbolic dimensions.
#include "frontend/Signature.h"

#include "frontend/Decoder.h"
#include "frontend/Extents.h"
#include "ir/Entries.h"
#include "ir/Names.h"
#include "ir/SumBounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace tenon::frontend {
namespace {

/// Whether some node of the graph, or of its subgraphs, has a result of this name.
bool makes(const onnx::GraphProto &graph, const std::string &name) {
  for (const auto &node : graph.node()) {
    for (const std::string &output : node.output())
      if (output == name)
        return true;
    for (const auto &a : node.attribute())
      if (a.has_g() && makes(a.g(), name))
        return true;
  }
  return false;
}

/// Whether converters write this for any extent that they do not know, so that it says nothing of
/// another one of the same name.
bool saysNothing(llvm::StringRef name) {
  name = name.trim();
  return name.empty() || name == "?" || name == "*" || name == "-1" || name == "None";
}

/// Whether this is ZipMap's result: it is imported as the tensor of the maps' values.
bool isListOfMaps(const onnx::TypeProto &type) {
  return type.has_sequence_type() && type.sequence_type().elem_type().has_map_type();
}

bool readDeclaration(const onnx::ValueInfoProto &info, const char *role, DeclaredTensor &out,
                     Diagnostics &diagnostics) {
  auto fail = [&](const std::string &why) {
    diagnostics.error(std::string(role) + " " + quoted(info.name()) + " " + why);
    return false;
  };
  out.name = info.name();
  if (out.name.empty())
    return fail("has no name");
  const onnx::TypeProto *holder = &info.type();
  if (holder->has_optional_type()) {
    out.container = Container::Optional;
    holder = &holder->optional_type().elem_type();
  }
  if (holder->has_sequence_type()) {
    out.container =
        out.container == Container::Optional ? Container::OptionalSequence : Container::Sequence;
    holder = &holder->sequence_type().elem_type();
  }
  if (!holder->has_tensor_type())
    return fail(info.has_type()
                    ? "is not a tensor: maps, sparse tensors and sequences of sequences "
                      "are not supported"
                    : "has no type");
  const auto &type = holder->tensor_type();
  std::string error;
  auto element = toElement(type.elem_type(), error);
  if (!element)
    return fail(error);
  out.element = *element;
  out.hasShape = type.has_shape();
  for (const auto &dim : type.shape().dim()) {
    if (dim.has_dim_param() && saysNothing(dim.dim_param())) {
      out.shape.push_back("");
    } else if (dim.has_dim_value() && (dim.dim_value() < 0 || dim.dim_value() > kElementLimit)) {
      // Some exporters write −1 for what they do not know.
      if (dim.dim_value() != -1)
        return fail("has the impossible extent " + std::to_string(dim.dim_value()));
      out.shape.push_back("");
    } else {
      out.shape.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
    }
  }
  return true;
}

llvm::Optional<int64_t> asNumber(const std::string &extent) {
  int64_t v;
  if (llvm::StringRef(extent).getAsInteger(10, v))
    return llvm::None;
  return v;
}

std::string list(const std::set<std::string> &names) {
  std::string s;
  for (const std::string &name : names)
    s += (s.empty() ? "" : ", ") + quoted(name);
  return s.empty() ? "none" : s;
}

/// Symbol values and bounds, from the options and from shapes that fix them.
class Symbols {
public:
  Symbols(ModelImport &state, Context &context) : state_(state), context_(context) {
    for (const auto &[name, value] : state.options.bindDims)
      bound_.insert({name, value});
  }

  void fix(const std::string &name, int64_t value, const std::string &why) {
    auto known = bound_.find(key(name, bound_));
    if (known != bound_.end() && known->second != value)
      state_.error("dimension " + quoted(name) + " is bound to " + std::to_string(known->second) +
                   ", but " + why + " makes it " + std::to_string(value));
    const auto &ranges = state_.options.ranges;
    const auto range = ranges.find(key(name, ranges));
    if (range != ranges.end() && (value < range->second.lower || value > range->second.upper))
      state_.error("dimension " + quoted(name) + " is kept from " +
                   std::to_string(range->second.lower) + " to " +
                   std::to_string(range->second.upper) + ", but " + why + " makes it " +
                   std::to_string(value));
    bound_[name] = value;
  }

  /// One name may stand for different extents, as `--shape` says of each input. Whoever else uses
  /// it has to say so, too.
  void give(const std::string &name, int64_t value, const std::string &why) {
    auto [first, fresh] = given_.insert({name, value});
    const auto &binds = state_.options.bindDims;
    if (fresh || first->second == value || binds.count(key(name, binds))) {
      fix(name, value, why);
      return;
    }
    ambiguous_.insert({name, {first->second, value}});
  }

  /// The extent for `name`; null when the options leave it open.
  Dim get(const std::string &name) {
    known.insert(name);
    auto several = ambiguous_.find(name);
    if (several != ambiguous_.end())
      state_.error("dimension " + quoted(name) + " stands for " +
                   std::to_string(several->second.first) + " and " +
                   std::to_string(several->second.second) +
                   " in the shapes given for other inputs: give every input that has it a shape "
                   "with --shape NAME=1,3,…");
    return resolve(name);
  }

  std::set<std::string> known, used;

private:
  Dim resolve(const std::string &name) {
    auto made = made_.find(name);
    if (made != made_.end())
      return made->second;
    const Dim d = resolveAnew(name);
    boundLength(name);
    return d;
  }

  /// A decoder's caches have room for what a run appends, or the run is refused. To be said as soon
  /// as both extents are there, before there are expressions over them.
  void boundLength(const std::string &name) {
    const auto &decoder = state_.options.decoder;
    if (!decoder || (name != decoder->length && name != decoder->count))
      return;
    const auto length = made_.find(decoder->length), count = made_.find(decoder->count);
    if (length != made_.end() && count != made_.end() && length->second.isSymbol() &&
        count->second.isSymbol() && length->second != count->second)
      boundSum(length->second, count->second, decoder->request.capacity);
  }

  Dim resolveAnew(const std::string &name) {
    auto value = bound_.find(key(name, bound_));
    if (value != bound_.end()) {
      used.insert(value->first);
      if (value->second < 0 || value->second > kElementLimit)
        state_.error("dimension " + quoted(name) + " cannot be " + std::to_string(value->second));
      return made_[name] = context_.dim(value->second);
    }
    auto range = state_.options.ranges.find(key(name, state_.options.ranges));
    if (range == state_.options.ranges.end())
      return follow(name);
    used.insert(range->first);
    const auto [lower, upper] = range->second;
    if (lower < 0 || upper < lower || upper > kElementLimit)
      state_.error("range " + std::to_string(lower) + ".." + std::to_string(upper) +
                   " of dimension " + quoted(name) + " is not a range of extents");
    return made_[name] = lower == upper
                             ? context_.dim(lower)
                             : state_.newSymbol(context_, symbolName(name), lower, upper);
  }

  /// The symbol of an entry is called so already: the model has no such dimension.
  std::string symbolName(llvm::StringRef name) const {
    return firstSymbol(name) == name || known.count(name.str()) ? identifier(name) : name.str();
  }

  /// An extent that is bound to an expression, or named by one whose dimensions have values.
  Dim follow(const std::string &name) {
    const auto &given = state_.options.bindExtents;
    const auto bound = given.find(key(name, given));
    const bool isBound = bound != given.end();
    if (!isBound && !isExtentExpression(name))
      return Dim();
    const std::string &text = isBound ? bound->second : name;
    if (isBound)
      used.insert(bound->first);
    std::string why = following_.insert(name).second ? "" : "is bound to itself";
    Dim sum = context_.dim(0);
    if (why.empty()) {
      sum = valueOf(text, why);
      following_.erase(name);
    }
    if (why.empty())
      return made_[name] = sum;
    if (isBound)
      state_.error("dimension " + quoted(name) + ", bound to " + quoted(text) + ", " + why);
    return isBound ? context_.dim(1) : Dim();
  }

  /// The value of an expression; `why` says why there is none.
  Dim valueOf(llvm::StringRef text, std::string &why) {
    Dim sum = context_.dim(0);
    const auto terms = parseExtent(text);
    for (const ExtentTerm &term : *terms) {
      Dim product = context_.dim(term.factor);
      for (const std::string &name : term.names) {
        const Dim d = resolve(name);
        if (!d) {
          why = "has no value: bind " + quoted(name) + " or keep it within bounds";
          return sum;
        }
        product = product * d;
      }
      sum = sum + product;
    }
    if (sum.lower() < 0 || sum.upper() > kElementLimit)
      why = "is not an extent: it lies in " + std::to_string(sum.lower()) + ".." +
            std::to_string(sum.upper());
    return sum;
  }

  static std::string identifier(llvm::StringRef name) {
    auto [stem, suffix] = name.rsplit(".d"); // `input.d0` stays as it is
    unsigned k;
    if (!suffix.empty() && !suffix.getAsInteger(10, k) && !sanitizeName(stem).empty())
      return sanitizeName(stem) + ".d" + std::to_string(k);
    return sanitizeName(name);
  }
  /// The model's name itself, or the symbol made of it.
  template <class Map> static std::string key(const std::string &name, const Map &map) {
    return map.count(name) ? name : identifier(name);
  }

  ModelImport &state_;
  Context &context_;
  std::map<std::string, int64_t> bound_;
  std::map<std::string, Dim> made_;
  std::map<std::string, int64_t> given_; // by --shape
  std::map<std::string, std::pair<int64_t, int64_t>> ambiguous_;
  std::set<std::string> following_; // whose expressions are being evaluated
};

/// What the options make of the declared inputs, step by step.
class InputResolver {
public:
  InputResolver(ModelImport &state, Context &context, llvm::ArrayRef<DeclaredTensor> inputs)
      : state_(state), options_(state.options), context_(context), inputs_(inputs),
        symbols_(state, context) {}

  bool run(llvm::ArrayRef<DeclaredTensor> outputs, std::vector<InputType> &types) {
    // Shapes first: what they fix holds for every input.
    for (const DeclaredTensor &in : inputs_)
      if (!readShape(in))
        return false;
    for (size_t i = 0; i < inputs_.size() && !state_.failed(); ++i)
      types.push_back(typeOf(inputs_[i], shapes_[i]));
    for (const DeclaredTensor &out : outputs)
      for (const std::string &extent : out.shape)
        if (!extent.empty() && !asNumber(extent))
          symbols_.used.insert(extent); // a name of the model, though it decides nothing
    checkNames();
    reportOpen();
    return !state_.failed();
  }

private:
  /// The input's extents as text: the model's, a constant's or what --shape says.
  bool readShape(const DeclaredTensor &in) {
    std::vector<std::string> shape = in.shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d].empty())
        shape[d] = anonymousName(in.name, d);
    if (followingInput(options_, in.name)) { // made from lengths
      symbols_.known.insert(shape.begin(), shape.end());
      shapes_.push_back({});
      return true;
    }
    const auto fixed = options_.constants.find(in.name);
    const auto given = options_.shapes.find(in.name);
    const bool isFixed = fixed != options_.constants.end();
    if (!isFixed && given == options_.shapes.end()) {
      if (!in.hasShape)
        state_.error("input " + quoted(in.name) +
                     " has no shape in the model: give it one with --shape NAME=1,3,…");
      shapes_.push_back(std::move(shape));
      return true;
    }
    std::vector<std::string> wanted;
    std::string why;
    if (isFixed) {
      for (int64_t d : fixed->second.shape())
        wanted.push_back(std::to_string(d));
      why = "the constant bound to input " + quoted(in.name);
      if (fixed->second.element() != in.element)
        state_.error("input " + quoted(in.name) + " is " + name(in.element).str() +
                     ", but the constant bound to it is " + name(fixed->second.element()).str());
    } else {
      wanted = given->second;
      why = "the shape given for input " + quoted(in.name);
    }
    if (in.hasShape && wanted.size() != shape.size()) {
      state_.error(why + " has rank " + std::to_string(wanted.size()) + ", expected " +
                   std::to_string(shape.size()));
      return false;
    }
    for (size_t d = 0; in.hasShape && d < wanted.size(); ++d)
      if (const auto value = asNumber(wanted[d]))
        meet(shape[d], d, *value, isFixed, why);
    shapes_.push_back(std::move(wanted));
    return true;
  }

  /// An extent that the model declares meets one that the options give.
  void meet(const std::string &declared, size_t d, int64_t value, bool isFixed,
            const std::string &why) {
    if (const auto number = asNumber(declared)) {
      if (*number != value && isFixed)
        state_.error(why + " has extent " + std::to_string(value) + " at dimension " +
                     std::to_string(d) + ", expected " + std::to_string(*number));
      return;
    }
    symbols_.known.insert(declared);
    if (isFixed)
      symbols_.fix(declared, value, why);
    else
      symbols_.give(declared, value, why);
  }

  InputType typeOf(const DeclaredTensor &in, const std::vector<std::string> &shape) {
    InputType type;
    type.element = in.element;
    for (const std::string &extent : shape) {
      const auto value = asNumber(extent);
      const Dim d = value ? context_.dim(*value) : symbols_.get(extent);
      // Digits that make no number are no name, but a number that is too large.
      const bool digits = !extent.empty() && llvm::all_of(extent, llvm::isDigit);
      if (value ? *value < 0 || *value > kElementLimit : digits)
        state_.error("input " + quoted(in.name) + " cannot have extent " + extent);
      if (!d && !digits && asked_.insert(extent).second)
        open_.push_back(extent);
      type.shape.push_back(d ? d : context_.dim(1));
    }
    const auto fixed = options_.constants.find(in.name);
    if (fixed != options_.constants.end())
      type.constant = fixed->second;
    // A scalar integer may be bound or bounded by its own name, a short list bounded.
    const bool scalar = type.shape.empty();
    if (!isInteger(in.element) ||
        (!scalar && (type.shape.size() != 1 || type.shape[0].upper() > kMostBounded)))
      return type;
    const auto value = options_.bindDims.find(in.name);
    const auto range = options_.ranges.find(in.name);
    if (scalar || range != options_.ranges.end())
      symbols_.known.insert(in.name);
    if (scalar && value != options_.bindDims.end()) {
      Tensor t(in.element, {});
      t.setInt(0, value->second);
      type.constant = t;
      symbols_.used.insert(in.name);
    } else if (range != options_.ranges.end()) {
      type.range = range->second;
      symbols_.used.insert(in.name);
    }
    return type;
  }

  /// Every name in an option is one of the model's.
  void checkNames() {
    if (!state_.failed()) {
      for (const auto &entry : options_.bindDims)
        checkSymbol(entry.first, "--bind");
      for (const auto &entry : options_.bindExtents)
        checkSymbol(entry.first, "--bind");
      for (const auto &[name, range] : options_.ranges)
        if (!isSymbol(name) && makes(state_.model.graph(), name))
          state_.resultRanges[name] = range;
        else
          checkSymbol(name, "--range");
    }
    for (const auto &entry : options_.shapes)
      checkInput(entry.first, "--shape");
    for (const auto &entry : options_.constants)
      checkInput(entry.first, "--bind");
  }

  bool isSymbol(const std::string &name) const {
    return symbols_.used.count(name) || symbols_.known.count(name);
  }
  void checkSymbol(const std::string &name, const char *option) {
    if (isSymbol(name))
      return;
    const auto fixed = llvm::find_if(shapes_, [](const auto &shape) { return !shape.empty(); });
    if (!symbols_.known.empty() || fixed == shapes_.end())
      return reportUnknown(name, option, "symbolic dimensions and scalar inputs", symbols_.known);
    std::vector<std::string> named = *fixed;
    named[0] = name;
    state_.error(std::string(option) + " names " + quoted(name) +
                 ", which the model has not: every extent of its inputs is fixed; --shape=" +
                 inputs_[size_t(fixed - shapes_.begin())].name + "=" + llvm::join(named, ",") +
                 " gives one of them this name");
  }
  void checkInput(const std::string &name, const char *option) {
    std::set<std::string> names;
    for (const DeclaredTensor &in : inputs_)
      names.insert(in.name);
    if (!names.count(name))
      reportUnknown(name, option, "inputs", names);
  }
  void reportUnknown(const std::string &name, const char *option, const std::string &kind,
                     const std::set<std::string> &known) {
    state_.error(std::string(option) + " names " + quoted(name) + ", which the model has not: " +
                 (known.empty() ? "it has no " + kind : "its " + kind + " are " + list(known)));
  }

  void reportOpen() {
    if (open_.empty())
      return;
    std::string names, remedy;
    for (const std::string &name : open_) {
      names += (names.empty() ? "" : ", ") + quoted(name);
      remedy += (remedy.empty() ? "" : ",") + name + "=1";
    }
    state_.error("symbolic dimensions have no value: " + names + "; bind them with --bind " +
                 llvm::StringRef(quoted(remedy)).trim('\'').str() +
                 " or keep them within bounds with --range NAME=1..8");
  }

  ModelImport &state_;
  const ImportOptions &options_;
  Context &context_;
  llvm::ArrayRef<DeclaredTensor> inputs_;
  Symbols symbols_;
  std::vector<std::vector<std::string>> shapes_; // of each input
  std::vector<std::string> open_;                // names without a value, in the order met
  std::set<std::string> asked_;
};

} // namespace

std::string anonymousName(llvm::StringRef input, size_t dimension) {
  return input.str() + ".d" + std::to_string(dimension);
}

bool readDeclarations(const onnx::ModelProto &model, std::vector<DeclaredTensor> &inputs,
                      std::vector<DeclaredTensor> &outputs, Diagnostics &diagnostics) {
  llvm::StringSet<> initialised, seen;
  for (const auto &t : model.graph().initializer())
    initialised.insert(t.name());
  for (const auto &t : model.graph().sparse_initializer())
    initialised.insert(t.values().name());
  for (const auto &info : model.graph().input()) {
    if (initialised.count(info.name()))
      continue;
    DeclaredTensor d;
    if (!readDeclaration(info, "input", d, diagnostics))
      return false;
    if (!seen.insert(d.name).second) {
      diagnostics.error("input " + quoted(d.name) + " is declared twice");
      return false;
    }
    inputs.push_back(std::move(d));
  }
  for (const auto &info : model.graph().output()) {
    DeclaredTensor d;
    if (!info.has_type() || info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET ||
        isListOfMaps(info.type()))
      d.name = info.name(); // inference says the rest
    else if (!readDeclaration(info, "output", d, diagnostics))
      return false;
    outputs.push_back(std::move(d));
  }
  return true;
}

bool resolveInputs(ModelImport &state, Context &context, llvm::ArrayRef<DeclaredTensor> inputs,
                   llvm::ArrayRef<DeclaredTensor> outputs, std::vector<InputType> &types) {
  return InputResolver(state, context, inputs).run(outputs, types);
}

} // namespace tenon::frontend

// quantize: from a float graph and a file of ranges to the quantised graph.
//
//   {"type": "int8", "weight_scales": "channel",
//    "values": [{"name": "conv1", "low": -1.5, "high": 3.25, "channel_means": [0.5]}],
//    "layers": [{"name": "conv1", "quantize": true}]}
//
// type is int8 (so, too, where it is missing) or e4m3. Values are those that layers read and give
// (Layers.h); channel_means may be missing, then biases stay as they are. Layers that the file does
// not name are quantised. Insert.cpp has what a layer becomes.
#include "passes/quantize/Quantize.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace tenon {
namespace {

/// Takes a file of ranges apart; the first thing that is wrong ends it.
class Reader {
public:
  Reader(Graph &graph, llvm::StringRef file, Diagnostics &diagnostics)
      : file_(file), diagnostics_(diagnostics), numbers_(graph), layers_(findLayers(graph)),
        names_(numbers_.names()) {}

  bool read(llvm::StringRef text, QuantizationPlan &plan) {
    auto parsed = llvm::json::parse(text);
    if (!parsed)
      return fail(llvm::toString(parsed.takeError()));
    const llvm::json::Object *all = parsed->getAsObject();
    const llvm::json::Array *values = all ? all->getArray("values") : nullptr;
    if (!values)
      return fail("expected an object with a list of values");
    const auto type = all->getString("type").getValueOr("int8");
    if (type != "int8" && type != "e4m3")
      return fail("expected a type of int8 or e4m3, found " + type);
    plan.element = type == "int8" ? Element::I8 : Element::F8E4M3;
    const auto scales = all->getString("weight_scales").getValueOr("channel");
    if (scales != "channel" && scales != "tensor")
      return fail("expected weight_scales of channel or tensor, found " + scales);
    plan.perChannel = scales == "channel";
    plan.values.resize(numbers_.size());
    for (const llvm::json::Value &v : *values)
      if (!readValue(v, plan))
        return false;
    plan.layers.assign(layers_.size(), true);
    if (const llvm::json::Array *layers = all->getArray("layers"))
      for (const llvm::json::Value &v : *layers)
        if (!readLayer(v, plan))
          return false;
    return check(plan);
  }

private:
  bool fail(const llvm::Twine &message) {
    diagnostics_.error((llvm::Twine("ranges '") + file_ + "': " + message).str());
    return false;
  }

  bool readValue(const llvm::json::Value &v, QuantizationPlan &plan) {
    const llvm::json::Object *value = v.getAsObject();
    const auto name = value ? value->getString("name") : llvm::None;
    const auto low = value ? value->getNumber("low") : llvm::None;
    const auto high = value ? value->getNumber("high") : llvm::None;
    if (!name || !low || !high)
      return fail("expected values with name, low and high");
    if (!std::isfinite(*low) || !std::isfinite(*high) || *low > 0 || *high < 0)
      return fail("value '" + *name + "': expected low <= 0 <= high, found " +
                  std::to_string(*low) + " to " + std::to_string(*high));
    const auto place = llvm::find(names_, name->str());
    if (place == names_.end())
      return fail("the network has no value '" + *name +
                  "'; calibrate it again, or run the same passes before");
    ValueRange &range = plan.values[size_t(place - names_.begin())];
    range.known = true;
    range.low = *low;
    range.high = *high;
    if (const llvm::json::Array *means = value->getArray("channel_means"))
      for (const llvm::json::Value &mean : *means) {
        if (!mean.getAsNumber())
          return fail("value '" + *name + "': expected numbers in channel_means");
        range.channelMeans.push_back(*mean.getAsNumber());
      }
    return true;
  }

  bool readLayer(const llvm::json::Value &v, QuantizationPlan &plan) {
    const llvm::json::Object *layer = v.getAsObject();
    const auto name = layer ? layer->getString("name") : llvm::None;
    const auto quantize = layer ? layer->getBoolean("quantize") : llvm::None;
    if (!name || !quantize)
      return fail("expected layers with name and quantize");
    bool found = false;
    for (size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i].name() == *name) {
        plan.layers[i] = *quantize;
        found = true;
      }
    return found || fail("the network has no layer '" + *name + "'");
  }

  /// Whether what the quantised layers need is there.
  bool check(const QuantizationPlan &plan) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!plan.layers[i] || !takesElement(layers_[i], plan.element))
        continue;
      llvm::SmallVector<Value *, 4> needed(layers_[i].inputs.begin(), layers_[i].inputs.end());
      if (plan.element == Element::I8)
        needed.push_back(layers_[i].result);
      for (Value *v : needed)
        if (const int n = numbers_.of(v); n >= 0 && !plan.values[size_t(n)].known)
          return fail("layer '" + layers_[i].name() + "': expected a range of value '" +
                      names_[size_t(n)] + "', found none; add it, or leave the layer in floats");
      const int read = layers_[i].isContraction() ? numbers_.of(layers_[i].anchor->operand(0)) : -1;
      if (read >= 0 && !checkMeans(layers_[i], plan.values[size_t(read)].channelMeans.size()))
        return false;
    }
    return true;
  }

  bool checkMeans(const QuantizableLayer &layer, size_t found) {
    const Type x = layer.anchor->operand(0)->type();
    const unsigned axis = layer.anchor->is(Op::Conv) ? 1 : x.rank() - 1;
    if (found == 0 || (x.dim(axis).isConstant() && x.dim(axis).constant() == int64_t(found)))
      return true;
    return fail("layer '" + layer.name() + "' reads " + toString(x) +
                ": expected channel_means for " + "each of its channels, found " +
                llvm::Twine(found));
  }

  llvm::StringRef file_;
  Diagnostics &diagnostics_;
  ValueNumbers numbers_;
  std::vector<QuantizableLayer> layers_;
  std::vector<std::string> names_;
};

} // namespace

std::string rangesText(Graph &graph, const QuantizationPlan &plan) {
  const std::vector<std::string> names = ValueNumbers(graph).names();
  const std::vector<QuantizableLayer> layers = findLayers(graph);
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, 1);
  json.object([&] {
    if (plan.element != Element::I8)
      json.attribute("type", "e4m3");
    json.attribute("weight_scales", plan.perChannel ? "channel" : "tensor");
    json.attributeArray("values", [&] {
      for (size_t n = 0; n < plan.values.size(); ++n) {
        const ValueRange &r = plan.values[n];
        if (r.known)
          json.object([&] {
            json.attribute("name", llvm::json::fixUTF8(names[n]));
            json.attribute("low", r.low);
            json.attribute("high", r.high);
            if (!r.channelMeans.empty())
              json.attributeArray("channel_means", [&] {
                for (double mean : r.channelMeans)
                  json.value(mean);
              });
          });
      }
    });
    json.attributeArray("layers", [&] {
      for (size_t i = 0; i < layers.size(); ++i)
        json.object([&] {
          json.attribute("name", llvm::json::fixUTF8(layers[i].name()));
          json.attribute("quantize", plan.layers.empty() || plan.layers[i]);
        });
    });
  });
  os << '\n';
  return os.str();
}

llvm::Optional<QuantizationPlan> readRanges(Graph &graph, llvm::StringRef text,
                                            llvm::StringRef file, Diagnostics &diagnostics) {
  QuantizationPlan plan;
  if (!Reader(graph, file, diagnostics).read(text, plan))
    return llvm::None;
  return plan;
}

bool runQuantize(Graph &graph, PassContext &context) {
  const llvm::StringRef file = context.textOption("ranges");
  if (file.empty()) {
    context.diagnostics.error("pass 'quantize' expects a file: quantize{ranges=FILE}");
    return false;
  }
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!buffer) {
    context.diagnostics.error("cannot read '" + file.str() + "': " + buffer.getError().message());
    return false;
  }
  auto plan = readRanges(graph, (*buffer)->getBuffer(), file, context.diagnostics);
  if (!plan)
    return false;
  const std::vector<QuantizableLayer> layers = findLayers(graph);
  bool any = false;
  for (size_t i = 0; i < layers.size(); ++i) {
    plan->layers[i] = plan->layers[i] && context.fire("quantize.layer", *layers[i].anchor);
    any |= plan->layers[i];
  }
  if (any)
    insertQuantization(graph, *plan, context.diagnostics);
  return any;
}

} // namespace tenon

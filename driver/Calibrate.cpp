// Implements `tenon calibrate`: from a float model and real inputs to a quantised one.
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/CalibrationSet.h"
#include "tools/Compare.h"
#include "tools/Files.h"
#include "tools/Oracle.h"

#include "passes/quantize/Equalize.h"
#include "passes/quantize/Quantize.h"
#include "passes/quantize/Sensitivity.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

namespace tenon {
namespace {

struct CalibrateOptions {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  std::string data, output, saved, type = "int8", ranges, weights = "channel";

  Element element() const { return type == "int8" ? Element::I8 : Element::F8E4M3; }
  /// Numbers of f8e4m3 are finer where they are smaller: there is little to gain from saturation.
  std::string method() const {
    return !ranges.empty() ? ranges : type == "int8" ? "mse" : "min-max";
  }
  bool noEqualize = false, noBias = false;
  unsigned keepWorst = 0, samples = 8;
  double accuracyDrop = -1;
};

/// A number of percentage points.
std::string pointsText(double points) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g", points);
  return text;
}

class Calibrator {
public:
  Calibrator(const CalibrateOptions &options, Console &console)
      : options_(options), console_(console), compiler_(console, options.model, options.passes) {}

  bool run() { return load() && gather() && judge() && choose() && write(); }
  void print(llvm::raw_ostream &os) const;
  void printJson(llvm::raw_ostream &os) const;
  Diagnostics &diagnostics() { return compiler_.diagnostics(); }
  Status status() const { return status_; }

private:
  bool fail(const std::string &message) {
    diagnostics().error(message);
    return false;
  }
  Graph &graph() { return compiler_.module().graph(); }
  bool load();
  /// Says which data the error just reported is about; false.
  bool noteSource(const DataSet &set) {
    auto &list = diagnostics().list();
    if (!list.empty() && !set.from.empty())
      list.back().notes.push_back("reading '" + set.from +
                                  (&set == samples_.sets.data()
                                       ? "'"
                                       : "'; open extents are those of '" + samples_.sets[0].from +
                                             "' unless --range=NAME=LOW..HIGH keeps them open"));
    return false;
  }
  /// Whether an input has values of its own; those that options make constants do not.
  bool isAsked(const DeclaredTensor &input) const {
    return input.container == Container::None &&
           llvm::none_of(keyValues(options_.model.bind),
                         [&](const auto &bound) { return bound.first == input.name; });
  }
  void warnOfData();
  void warnOfModel();
  bool gather();
  bool judge();
  bool choose();
  bool write();
  /// Of the network with plan_.layers quantised.
  bool measure();
  /// Layers that stay in floats.
  size_t kept() const { return size_t(llvm::count(plan_.layers, false)); }
  void progress(const char *what, double share) {
    console_.progress((llvm::Twine(what) + " " + llvm::Twine(int(100 * share)) + " %").str());
  }

  const CalibrateOptions &options_;
  Console &console_;
  Compiler compiler_;
  CalibrationSet samples_;
  std::vector<Sample> inputs_;
  std::vector<QuantizableLayer> layers_;
  Statistics statistics_;
  QuantizationPlan plan_;
  llvm::Optional<CostEvaluator> evaluator_;
  std::vector<QuantizationCost> costs_; // of each layer alone
  std::vector<size_t> order_;           // layers, the costliest first
  unsigned equalized_ = 0;
  QuantizationCost total_;
  Status status_ = Failed;
};

bool Calibrator::load() {
  if (!compiler_.open()) {
    status_ = compiler_.status();
    return false;
  }
  if (!readSamples("--data", options_.data, compiler_.inputs(), compiler_.outputs(), samples_,
                   diagnostics()))
    return false;
  for (const DataSet &set : samples_.sets)
    for (size_t i = 0; i < set.inputs.size() && i < compiler_.inputs().size(); ++i)
      if (set.inputs[i].isNull() && isAsked(compiler_.inputs()[i]))
        return fail("'" + set.from + "' has no values for input '" + compiler_.inputs()[i].name +
                    "': ranges come from real ones, so each data set expects all inputs");
  warnOfData();
  Pipeline pipeline;
  if (!compiler_.load(samples_.sets[0].inputs)) {
    status_ = compiler_.status();
    return noteSource(samples_.sets[0]);
  }
  if (compiler_.module().stage != Stage::Imported)
    return fail("'" + options_.model.model + "' is past import; calibrate the model as imported");
  warnOfModel();
  if (!parsePipeline(preparationPipeline(), pipeline, diagnostics()) ||
      !compiler_.runPasses(pipeline)) {
    status_ = compiler_.status();
    return false;
  }
  for (const DataSet &set : samples_.sets) {
    inputs_.emplace_back();
    if (!graphInputs(graph(), compiler_.inputs(), set.inputs, 0, inputs_.back(), diagnostics()))
      return noteSource(set);
    for (const Tensor &t : inputs_.back())
      if (const int64_t count = countNotFinite(t)) {
        std::string why = std::to_string(count) + " of " + std::to_string(t.size()) +
                          " elements of an input in '" + set.from +
                          "' are infinite or NaN: ranges come from finite values";
        return fail(why);
      }
  }
  return true;
}

/// What the data is too poor for: the figures that are printed do not show it.
void Calibrator::warnOfData() {
  constexpr size_t kFew = 32;
  if (samples_.sets.size() < kFew)
    diagnostics().warning(
        "--data: ranges are those of " + std::to_string(samples_.sets.size()) +
        (samples_.sets.size() == 1 ? " input" : " inputs") +
        "; values outside saturate, so give some hundred typical ones, at least " +
        std::to_string(kFew));
  if (samples_.labels.empty())
    diagnostics().warning(
        std::string("--data: without labels (labels.npy, or output_0 in each set) accuracy is "
                    "unknown") +
        (options_.accuracyDrop < 0
             ? ""
             : "; --accuracy-drop bounds how often the float network's answer changes"));
}

/// What is quantised twice is only rounded once more.
void Calibrator::warnOfModel() {
  int64_t count = 0;
  graph().body().walk([&](Operation *op) { count += op->is(Op::Quantize); });
  if (count)
    diagnostics().warning("'" + options_.model.model + "' quantises already, at " +
                          std::to_string(count) + (count == 1 ? " place" : " places") +
                          ": calibrate the float model that it was made of");
}

bool Calibrator::gather() {
  auto statistics = [&] {
    layers_ = findLayers(graph());
    return gatherStatistics(
        graph(), layers_, inputs_, statistics_, [&](double s) { progress("ranges", s); },
        diagnostics());
  };
  if (!statistics())
    return false;
  if (layers_.empty())
    return fail("'" + options_.model.model +
                "' has no layer that can be quantised: no convolution, product, sum or average of "
                "floats");
  if (!options_.noEqualize)
    equalized_ = equalizeLayers(graph(), statistics_, diagnostics());
  return equalized_ == 0 || statistics();
}

bool Calibrator::judge() {
  plan_.element = options_.element();
  plan_.values = chooseRanges(statistics_, *findRangeMethod(options_.method()), !options_.noBias);
  plan_.perChannel = options_.weights == "channel";
  evaluator_.emplace(compiler_.module(), inputs_, samples_.labels, diagnostics());
  if (!evaluator_->prepare())
    return false;
  for (size_t i = 0; i < layers_.size(); ++i) {
    progress("sensitivity", double(i) / double(layers_.size()));
    if (!takesElement(layers_[i], plan_.element)) {
      costs_.emplace_back();
      continue;
    }
    order_.push_back(i);
    QuantizationPlan alone = plan_;
    alone.layers.assign(layers_.size(), false);
    alone.layers[i] = true;
    auto cost = evaluator_->cost(alone, std::max(1u, options_.samples));
    if (!cost)
      return false;
    costs_.push_back(*cost);
  }
  if (order_.empty())
    return fail("'" + options_.model.model + "' has no layer that can be quantised to " +
                options_.type + ": no convolution or product with constant weights");
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return costs_[a].noise > costs_[b].noise; });
  return true;
}

bool Calibrator::measure() {
  auto cost = evaluator_->cost(plan_, inputs_.size());
  if (cost)
    total_ = *cost;
  return cost.hasValue();
}

/// Layers go to floats, the costliest first, until accuracy suffices. Few inputs leave accuracy
/// steps, so some of them will not have mattered: those come back, the one with the least error at
/// the outputs first.
bool Calibrator::choose() {
  const size_t asked = std::min<size_t>(options_.keepWorst, order_.size());
  plan_.layers.assign(layers_.size(), false);
  for (size_t layer : order_)
    plan_.layers[layer] = true;
  size_t next = 0;
  for (; next < asked; ++next)
    plan_.layers[order_[next]] = false;
  if (!measure())
    return false;
  if (options_.accuracyDrop < 0)
    return true;
  if (const double step = 100.0 / double(inputs_.size());
      options_.accuracyDrop > 0 && options_.accuracyDrop < step)
    diagnostics().warning("--accuracy-drop=" + pointsText(options_.accuracyDrop) + ": " +
                          std::to_string(inputs_.size()) +
                          (inputs_.size() == 1 ? " input tells" : " inputs tell") +
                          " accuracy in steps of " + pointsText(step) + " points; give more");
  const double least = evaluator_->floatAccuracy() - options_.accuracyDrop / 100 - 1e-12;
  for (; total_.accuracy < least && next < order_.size(); ++next) {
    progress("mixed precision", double(next) / double(order_.size()));
    plan_.layers[order_[next]] = false;
    if (!measure())
      return false;
  }
  for (size_t i = next; i-- > asked;) {
    progress("mixed precision", double(next - i) / double(next));
    const QuantizationCost before = total_;
    plan_.layers[order_[i]] = true;
    if (!measure())
      return false;
    if (total_.accuracy < least) {
      plan_.layers[order_[i]] = false;
      total_ = before;
    }
  }
  return true;
}

bool Calibrator::write() {
  std::unique_ptr<Module> quantized = compiler_.module().clone();
  insertQuantization(quantized->graph(), plan_, diagnostics());
  quantized->facts["calibrated"] = std::to_string(inputs_.size()) + " inputs, " +
                                   options_.method() + " ranges, " + std::to_string(kept()) +
                                   " layers in floats";
  OutputFiles files(diagnostics());
  console_.endProgress();
  if (!options_.saved.empty() && !files.add(options_.saved, rangesText(graph(), plan_)))
    return false;
  return addModule(files, *quantized, options_.output) && files.commit();
}

void Calibrator::print(llvm::raw_ostream &os) const {
  os << "layers, the most sensitive first: signal over noise at the outputs when it alone is "
     << options_.type << '\n';
  for (size_t i = 0; i < order_.size(); ++i) {
    const size_t l = order_[i];
    os << llvm::format("  %7.1f dB  ", costs_[l].decibels())
       << (!plan_.layers[l]          ? "float"
           : options_.type == "int8" ? "int8 "
                                     : "e4m3 ")
       << "  " << layers_[l].anchor->name() << "  " << layers_[l].name() << '\n';
  }
  os << "together    " << llvm::format("%.1f dB\n", total_.decibels()) << "equalised   "
     << equalized_ << (equalized_ == 1 ? " pair" : " pairs") << " of layers\n"
     << (samples_.labels.empty() ? "agreement   " : "accuracy    ");
  const auto inputs = std::to_string(inputs_.size()) + (inputs_.size() == 1 ? " input" : " inputs");
  if (samples_.labels.empty())
    os << llvm::format("%.2f %%", 100 * total_.accuracy) << " of " << inputs
       << " have the float network's largest output; without labels.npy accuracy is unknown\n";
  else
    os << llvm::format("%.2f %% in floats, %.2f %% quantised", 100 * evaluator_->floatAccuracy(),
                       100 * total_.accuracy)
       << " (" << inputs << " with labels)\n";
}

void Calibrator::printJson(llvm::raw_ostream &os) const {
  llvm::json::OStream json(os, 2);
  json.object([&] {
    json.attributeArray("layers", [&] {
      for (size_t i = 0; i < order_.size(); ++i)
        json.object([&] {
          json.attribute("name", llvm::json::fixUTF8(layers_[order_[i]].name()));
          json.attribute("kind", layers_[order_[i]].anchor->name());
          json.attribute("decibels", costs_[order_[i]].decibels());
          json.attribute("quantized", bool(plan_.layers[order_[i]]));
        });
    });
    json.attribute("decibels", total_.decibels());
    json.attribute("equalized", int64_t(equalized_));
    json.attribute("inputs", int64_t(inputs_.size()));
    json.attribute("labels", !samples_.labels.empty());
    if (samples_.labels.empty()) {
      json.attribute("accuracy_float", nullptr);
      json.attribute("accuracy", nullptr);
      json.attribute("agreement", total_.accuracy);
    } else {
      json.attribute("accuracy_float", evaluator_->floatAccuracy());
      json.attribute("accuracy", total_.accuracy);
    }
  });
  os << '\n';
}

int run(const CalibrateOptions &options) {
  Console console(options.console);
  Calibrator calibrator(options, console);
  const bool ok = calibrator.run();
  console.endProgress();
  console.report(calibrator.diagnostics());
  if (!ok)
    return calibrator.status() == Done ? int(Failed) : calibrator.status();
  if (console.json())
    calibrator.printJson(llvm::outs());
  else if (!console.quiet())
    calibrator.print(llvm::outs());
  return Done;
}

std::vector<std::string> methodNames() {
  std::vector<std::string> names;
  for (const RangeMethod &m : rangeMethods())
    names.push_back(m.name.str());
  return names;
}
std::string methodHelp() {
  std::string text = "how ranges of activations are chosen";
  for (const RangeMethod &m : rangeMethods())
    text += "; " + m.name.str() + ": " + m.summary.str();
  return text;
}

} // namespace

void declareCalibrate(CommandLine &app) {
  auto options = std::make_shared<CalibrateOptions>();
  CommandLine sub = app.command("calibrate", "quantises a float model from real inputs");
  sub.option("--data", options->data,
             "test data sets (folders with input_K.pb or .npy, .npz files), or .npy, .pb and .bin "
             "files of the one input; labels.npy has the right classes")
      .required()
      .type("DIR");
  sub.option("-o,--output", options->output, "the quantised model")
      .required()
      .moduleFile()
      .writesFile();
  sub.option("--save-ranges", options->saved,
             "writes the ranges, which may be edited, for the pass quantize{ranges=FILE}")
      .type("FILE")
      .writesFile();
  sub.option("--type", options->type,
             "what becomes 8 bits: integers, or floats (e4m3, of convolutions and products)")
      .oneOf({"int8", "e4m3"})
      .type("int8|e4m3")
      .showDefault();
  sub.option("--ranges", options->ranges, methodHelp() + "; default: mse, of e4m3 min-max")
      .oneOf(methodNames())
      .type("METHOD");
  sub.option("--weight-scales", options->weights, "one scale for each output channel, or one")
      .oneOf({"channel", "tensor"})
      .type("channel|tensor")
      .showDefault();
  sub.flag("--no-equalize", options->noEqualize,
           "leaves weights as they are; else factors move between neighbouring layers");
  sub.flag("--no-bias-correction", options->noBias,
           "leaves biases as they are; else they make up for rounded weights");
  sub.option("--keep-worst", options->keepWorst, "the N most sensitive layers stay in floats")
      .type("N");
  sub.option("--accuracy-drop", options->accuracyDrop,
             "as many of the most sensitive layers stay in floats as it takes to lose at most X "
             "points of accuracy on the data")
      .nonNegative()
      .type("X");
  sub.option("--sensitivity-samples", options->samples,
             "inputs that each layer's sensitivity is measured on")
      .type("N")
      .showDefault();
  declare(sub, options->model);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    Console console(options->console);
    if (!console.accepts(sub.givenInVain(
            {{"--save-ranges", !options->noEqualize,
              "expects --no-equalize: ranges after equalisation are of other weights than the "
              "model's"}})))
      return int(Usage);
    console.warn(sub.givenInVain(
        {{"-O", true, "a model is prepared for calibration by one list of passes"}}));
    return run(*options);
  });
}

} // namespace tenon

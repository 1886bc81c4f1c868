// Defines what a pass is, what it is given, and the table of everything that has a stable id.
//
// A pass is a function on one graph that says honestly whether it changed anything. Passes,
// patterns and fusions stand in one table (passes/Table.cpp); a pattern's id is its pass's id, a
// dot and a name. Whoever rewrites asks PassContext::fire(id, op) immediately before doing so:
// that is where --disable, --only and --debug-counter act and where the counters come from.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"
#include "ir/Result.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

class PassContext;
struct RecurrentShape;

/// An option of a pass, written `pass{name=value}` in a pipeline: an integer, or words without
/// commas and braces.
struct PassOption {
  llvm::StringRef name;
  int64_t value; // default; of words: none
  llvm::StringRef summary;
  bool isText = false;
};

enum class RowKind : uint8_t { Pass, Pattern, Fusion };

/// One row of the table. Patterns and fusions have no `run`.
struct PassInfo {
  RowKind kind;
  llvm::StringRef id;
  llvm::StringRef summary;
  bool (*run)(Graph &graph, PassContext &context) = nullptr;
  llvm::ArrayRef<PassOption> options = {};
  /// Structure that code generation relies on: --disable and --only do not reach it.
  bool required = false;
};

/// All passes, each followed by its patterns or fusions.
llvm::ArrayRef<PassInfo> passTable();
/// The row of an id; null when there is none.
const PassInfo *findRow(llvm::StringRef id);
/// The part before the first dot.
inline llvm::StringRef passOf(llvm::StringRef id) { return id.split('.').first; }

/// What --disable, --only and --debug-counter say. A selector is a glob over ids, optionally
/// followed by '@' and a glob over source node names: `fuse.*@/layer1/*`. A pass's id stands for
/// its patterns, too.
struct PassControls {
  std::vector<std::string> disable;
  std::vector<std::string> only;
  /// `id=skip` or `id=skip+count`: the first `skip` firings are suppressed, then `count` pass
  /// (all when it is missing).
  std::vector<std::string> counters;
  /// Passes after which the module is printed (globs); only whether there are such is looked at.
  std::vector<std::string> printAfter = {};
};

/// What the middle of the compiler must know of the target.
struct TargetTraits {
  /// Convolutions, pools and resizes run best with channels innermost.
  bool channelsLast = true;
  /// Depthwise convolutions run as well along rows, with channels outermost.
  bool depthwiseRows = false;
  /// Products read tensors as they lie, at the speed of convolutions with channels innermost.
  bool productsInPlace = false;
  /// Channels that grouped convolutions of volumes are brought to (bundle-groups); 0: they stay as
  /// they are. One H200, 32 channels of 32 x 56 x 56, 3x3x3, fp32: 188 µs where all channels are
  /// one group and 2,765 for groups of eight on contract_any.
  int64_t bundledVolumeChannels = 32;
  /// Kernels apply elementwise work to the elements of their first operand as they read them.
  bool prologues = true;
  /// Bytes of the tensor from which a prologue of several operations beats a pass of its own: of
  /// 16-bit elements, and of others.
  int64_t prologueBytesOfHalves = 0, prologueBytes = 0;
  /// Kernels of maps read through slices, pads and transposes.
  bool movementReads = true;
  /// Convolutions over at most this many channels read row-major inputs without conversion.
  int64_t rowMajorReadChannels = 4;
  /// Alignment in bytes that windows of a buffer keep along its innermost dimension (16 where
  /// vector loads must be aligned, as on CUDA; 1 where they need not).
  int64_t viewAlignment = 1;
  /// There are kernels for sums of 8-bit integers that are at least as fast as those of floats.
  bool integerSums = true;
  /// Also for those of 16-bit activations, of two tensors, and of weights with a zero point.
  bool wideIntegerSums = true;
  /// Sums of integers become bytes faster by a product of f32 than by one of 64 bits.
  bool floatRescale = false;
  /// Rows up to which products with narrow weights (narrow-weights) beat those with floats.
  int64_t narrowWeightRows = INT64_MAX;
  /// The same of 16-bit floats with weights of 4 bits (fp16: or 8) around 0 and scales for 32, 64,
  /// 128 or 256 of them; 0: as others.
  int64_t narrowWeightRowsOfHalves = 0;
  /// There are kernels for products of f8e4m3 that are at least as fast as those of fp16; else why
  /// not.
  bool float8Products = false;
  std::string whyNoFloat8Products = "the target multiplies no floats of 8 bits";
  /// Products of one tensor, each too small for the machine, are faster as one.
  bool mergedProducts = false;
  /// Products of 16-bit floats whose columns maps read as two halves are faster as two, beside each
  /// other in a kernel that has both sums.
  bool pairedProducts = false;
  /// Reductions of one tensor are faster as one.
  bool mergedReductions = false;
  /// Matrix products take constants on their left as they do on their right.
  bool leftWeights = true;
  /// Rows picked by a table move as fast as pieces of a concat, each a copy of its own.
  bool gatheredRows = true;
  /// There are kernels for weights of bytes with a zero point for each output channel.
  bool zeroPointsOfChannels = false;
  /// Contractions of bytes take a zero point of their input at no cost.
  bool zeroPoints = true;
  /// Elements of the largest head of attention that kernels take, where these have 16 bits, and
  /// where they are f32; 0: there are no such kernels.
  int64_t attentionHeadOfHalves = 256, attentionHead = 256;
  /// Attention of more queries than these takes maps of its results.
  int64_t attentionQueriesBeforeMaps = INT64_MAX;
  /// Which recurrent layers there are kernels for; null: for all.
  std::function<bool(const RecurrentShape &)> runsRecurrent;
  /// Programs branch and loop as values say; without that, control flow becomes plain operations.
  bool controlFlow = true;
  /// Sequences of groups that run side by side at most.
  int64_t branches = 1;
};

/// Tensors that operations of these nodes (a glob; empty: all) make are stored as `element`;
/// contractions of f32 have the attribute `precision` = `multiply`, where that is not empty.
struct PrecisionRule {
  std::string nodes;
  Element element;
  std::string multiply;

  /// Whether it asks for anything but plain fp32.
  bool isReduced() const { return element != Element::F32 || !multiply.empty(); }
  /// As --precision spells it.
  std::string name() const;
};

class PassContext {
public:
  explicit PassContext(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  Diagnostics &diagnostics;
  TargetTraits target;
  /// What --precision says; the last rule that matches counts.
  std::vector<PrecisionRule> precision;

  /// Takes the controls; reports selectors that match nothing, with the nearest ids.
  /// `extraIds` are further ids that exist elsewhere (tactics; fusions that scheduling decides,
  /// whose names begin as their pass's). --only limits the passes where it names one of theirs, and
  /// the others where it names one of those.
  bool setControls(const PassControls &controls, llvm::ArrayRef<llvm::StringRef> extraIds = {});

  /// Warns of globs over nodes, of selectors and precision rules, that no operation of the module
  /// comes from, with the nearest node.
  void warnOfUnknownNodes(Module &module);

  /// Whether a pass takes part at all: it, or one of its patterns, is switched on.
  bool passEnabled(llvm::StringRef id) const;
  /// Whether the controls allow `id` at `op` (null: anywhere).
  bool enabled(llvm::StringRef id, const Operation *op = nullptr) const;
  /// The same at an operation of these source nodes.
  bool enabled(llvm::StringRef id, const Location &nodes) const;
  /// The same for what has several names: each of them switches it off, each that --only names
  /// allows it.
  bool enabledUnder(llvm::ArrayRef<llvm::StringRef> names) const;
  /// To be called when a rewrite has matched and is about to happen: true when it may. Counts.
  bool fire(llvm::StringRef id, const Operation &op);
  /// Forgets the firings of an id: whoever decides anew counts anew.
  void restart(llvm::StringRef id);
  /// Option of the running pass.
  int64_t option(llvm::StringRef name) const;
  /// The same for an option of words; empty where it is not given.
  llvm::StringRef textOption(llvm::StringRef name) const;

  /// What `make` makes of the elements of `of` in a way that `how` says in full. While a pass runs
  /// over several graphs (a decoder's entries have all weights in common), it is made for the first
  /// of them.
  Tensor shared(llvm::function_ref<std::string()> how, llvm::ArrayRef<Tensor> of,
                llvm::function_ref<Tensor()> make);

  /// Firings by id.
  std::map<std::string, int64_t, std::less<>> counts;
  /// Further figures a pass wants to report ("assign-layout.conversion-bytes").
  std::map<std::string, int64_t, std::less<>> statistics;
  std::vector<FusionDecision> fusions;

private:
  friend class PassManager;
  struct Selector {
    std::string id, node; // globs; node empty: any
    /// `nodes`: null for none.
    bool matches(llvm::StringRef id, const Location *nodes) const;
  };
  struct Counter {
    int64_t skip = 0, count = -1, seen = 0;
  };
  std::vector<Selector> disable_, only_;
  bool enabledAt(llvm::StringRef id, const Location *nodes) const;
  /// Which kinds of ids --only names: those of passes and their fusions, others (tactics). The
  /// other kind is not limited.
  bool onlyPasses_ = false, onlyOthers_ = false;
  std::map<std::string, Counter, std::less<>> counters_;
  const PassInfo *running_ = nullptr;
  /// What shared() made, with what it was made of, whose places the keys are; looked up only.
  struct Made {
    Tensor result;
    std::vector<Tensor> of;
  };
  std::unordered_map<std::string, Made> made_;
  bool runsOnSeveral_ = false;
  std::map<std::string, std::string, std::less<>> options_; // of the running pass, as written
};

/// True when `text` matches `pattern` with * and ?.
bool globMatches(llvm::StringRef pattern, llvm::StringRef text);
/// Up to three ids of the table nearest to a misspelt one.
std::vector<std::string> nearIds(llvm::StringRef id, llvm::ArrayRef<llvm::StringRef> extraIds = {});

} // namespace tenon

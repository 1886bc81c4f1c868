// Defines the tactic `attention_sm90a`: one pass over keys and values by warpgroups, which the copy
// engine brings from where the projections left them (runtime/cuda/attention/sm90.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Contraction.h"
#include "codegen/forms/AttentionForm.h"
#include "codegen/memory/Alignment.h"
#include "runtime/cuda/attention/geometry.h"

#include <cmath>

namespace tenon::cuda {
namespace {

constexpr int64_t kLargestHead = 256;
constexpr size_t kMostLeading = 3; // of the five dimensions of a tensor map
/// Queries of runs of a decoder that a caller may capture, at most.
constexpr int64_t kMostOfCaptured = 16;
constexpr int64_t kReserved = 1024; // bytes of shared memory that every block has beside its own

struct WarpgroupAttentionSchedule {
  int64_t warpgroups; // that multiply
  int64_t teams;      // of them, along keys
  int64_t keys;       // of a tile
  int64_t stages;
  int64_t overlap; // of softmax and products
  int64_t turns;   // of warpgroups, one multiplying while another computes weights
  int64_t blocks;  // of a multiprocessor

  static llvm::ArrayRef<Field<WarpgroupAttentionSchedule>> fields() {
    using S = WarpgroupAttentionSchedule;
    static const Field<S> kFields[] = {
        {"warpgroups", &S::warpgroups, between(1, 3)},   {"teams", &S::teams, oneOf(1, 2)},
        {"keys", &S::keys, oneOf(32, 64, 96, 128, 160)}, {"stages", &S::stages, between(1, 4)},
        {"overlap", &S::overlap, oneOf(0, 1)},           {"turns", &S::turns, oneOf(0, 1)},
        {"blocks", &S::blocks, between(1, 3)},
    };
    return kFields;
  }
};

/// A schedule that is tried for values of at most `width` columns, and what it costs in
/// microseconds: a tile of keys of each team, where its block is alone on a multiprocessor and
/// where as many are there as fit; a block, its first loads and last stores included.
struct Row {
  int64_t width;
  WarpgroupAttentionSchedule schedule;
  double alone, together, block;
};
struct Costs {
  double launch = 1.0;
  /// The copy engine takes as long for each row of less than 128 bytes, whatever its block does.
  double shortRow = 0.0057;
  /// What a bias adds to a tile, as a factor: one of keys, and one of each score.
  /// Source: single attentions under `tenon tune`, bench/cuda/attention/README.md.
  double biasOfKeys = 1.3, bias = 2.0;
  Row rows[15];
};
/// Source: fitted to bench/cuda/attention/h100.csv (one H100, plain launches): rms error of each
/// schedule 4 to 8 %; of its 31 problems the estimate takes the fastest in 22, and what it takes is
/// 1.013 times as long as the fastest on the geometric mean, 1.13 at most. Rows of more than 128
/// columns are assumed, but for two that 8 heads of 160, 256 tokens, took under `tenon tune`.
constexpr Costs kCosts = {.rows = {
                              // warpgroups, teams, keys, stages, overlap, turns, blocks
                              {64, {1, 1, 128, 2, 1, 0, 2}, 0.854, 1.166, 1.664},
                              {64, {1, 1, 64, 2, 1, 0, 3}, 0.536, 0.894, 1.516},
                              {64, {2, 1, 64, 2, 0, 0, 2}, 0.770, 1.183, 1.851},
                              {64, {2, 2, 64, 4, 1, 0, 1}, 0.725, 0.725, 1.888},
                              {64, {2, 2, 128, 4, 1, 0, 1}, 1.265, 1.265, 1.751},
                              {64, {3, 1, 128, 2, 1, 1, 1}, 1.417, 1.417, 2.753},
                              {64, {2, 1, 128, 2, 1, 1, 1}, 1.152, 1.152, 2.353},
                              {128, {2, 2, 64, 4, 1, 0, 1}, 1.057, 1.057, 2.395},
                              {128, {2, 1, 128, 2, 1, 1, 1}, 1.552, 1.552, 2.405},
                              {128, {1, 1, 64, 2, 1, 0, 2}, 0.801, 0.965, 1.478},
                              {128, {2, 2, 128, 2, 1, 0, 1}, 3.474, 3.474, 0.202},
                              {256, {2, 1, 64, 2, 1, 1, 1}, 1.6, 1.6, 3.2},
                              {256, {2, 1, 32, 2, 1, 1, 1}, 1.1, 1.1, 3.2},
                              {256, {2, 2, 64, 2, 1, 0, 1}, 1.8, 1.8, 5.9},
                              {256, {1, 1, 64, 2, 1, 0, 1}, 1.0, 1.0, 2.7},
                          }};

/// Whether a tensor map describes these strides of elements of 16 bits, the last contiguous:
/// multiples of 16 bytes, but for those of extents of one element.
bool hasMap(const Strides &s, llvm::ArrayRef<Dim> extents) {
  for (size_t d = 0; d + 1 < s.strides.size(); ++d)
    if (!extents[d].isConstant(1) &&
        !(s.strides[d].isConstant() && s.strides[d].constant() % 8 == 0))
      return false;
  return true;
}

struct WarpgroupAttention {
  static constexpr llvm::StringLiteral id = "attention_sm90a",
                                       summary = "fp16 and bf16 attention by warpgroups on Tensor "
                                                 "Cores, which the copy engine feeds";
  struct Problem {
    GroupQuery in;
    AttentionForm f;

    attention_sm90_geometry geometry(const WarpgroupAttentionSchedule &s) const {
      index_t staged = 0;
      for (unsigned i = 0; i < f.countOfParts(); ++i)
        staged += part(i).staged_words(s.keys);
      return {s.warpgroups,          s.teams, s.keys, s.stages, s.blocks, f.depth().constant(),
              f.extent().constant(), staged};
    }
    attention_part_geometry part(unsigned i) const {
      const AttentionFactor factor = f.factor(i);
      const Element e = in.form.anchor->operand(f.part(i))->type().element();
      return {factor.step, factor.extent, bitWidth(e) / 8};
    }
    /// Registers for what is added to scores.
    int64_t held(const WarpgroupAttentionSchedule &s) const {
      int64_t n = sharesBias() ? s.keys / 4 : 0;
      for (unsigned i = 0; i < f.countOfParts(); ++i)
        n += part(i).held(s.keys);
      return n;
    }
    /// Whether all queries of a head have the same bias.
    bool sharesBias() const {
      return f.hasBias() && f.view(3).strides[f.leading().size()].isConstant(0);
    }
    /// Whether two neighbours of the bias along the keys lie together, at a multiple of their
    /// bytes.
    bool hasPairs() const {
      if (!f.hasBias() || !f.keys().isConstant() || f.keys().constant() % 2 != 0)
        return false;
      const Strides s = f.view(3);
      auto isEven = [](Dim d) { return d.isConstant() && d.constant() % 2 == 0; };
      return s.strides.back().isConstant(1) &&
             llvm::all_of(llvm::makeArrayRef(s.strides).drop_back(), isEven) &&
             isAligned(3, bitWidth(in.form.anchor->operand(3)->type().element()) / 4);
    }
    bool isAligned(unsigned i, int64_t bytes) const {
      const Access &a = in.form.anchorInputs[i].inputs[0];
      return in.alignment && in.alignment->isKnown(in.form.group->operand(a.source->index()),
                                                   f.view(i).offset, bytes);
    }
  };
  using Schedule = WarpgroupAttentionSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return in.form.anchor && in.form.anchor->is(Op::Attention) && hasWgmma(in.level);
  }

  static Result<Problem> match(const GroupQuery &in) {
    return matchAttention(in, kLargestHead, 0, {.order = true, .parts = true, .body = true})
        .andThen([&]() -> Result<Problem> {
          if (auto wgmma = wantsWgmma(in.level); !wgmma)
            return std::move(wgmma).refusal();
          const Element e = in.form.anchor->operand(0)->type().element();
          if (e != Element::F16 && e != Element::BF16)
            return Refusal{"elements of " + name(e).str(), ""};
          const double scale = in.form.anchor->floatAttr("scale");
          if (!(scale > 0 && std::isnormal(float(scale)) && std::isnormal(float(scale * 1.5))))
            return Refusal{
                "a scale that is not positive and normal: the largest product would not be "
                "the largest score",
                ""};
          Problem p{in, AttentionForm(in.form)};
          if (p.f.leading().size() > kMostLeading)
            return Refusal{"more than " + std::to_string(kMostLeading) +
                               " leading dimensions, which no tensor map takes",
                           ""};
          if (in.form.anchor->has("softcap"))
            return Refusal{"a bound of the scores", ""};
          if (p.f.hasOrder() && p.f.queries().upper() <= kMostOfCaptured)
            return Refusal{"positions or a window of up to " + std::to_string(kMostOfCaptured) +
                               " queries: a run that a caller captures has no tensor maps that "
                               "follow its length",
                           ""};
          if (Result<> maps = checkMaps(p); !maps)
            return std::move(maps).refusal();
          return p;
        });
  }

  /// The copy engine reads q, k and v where they lie.
  static Result<> checkMaps(const Problem &p) {
    for (unsigned i = 0; i < 3; ++i) {
      const std::string operand = p.in.form.anchor->info().operands[i].str();
      llvm::SmallVector<Dim, 6> extents(p.f.leading().begin(), p.f.leading().end());
      extents.push_back(i == 0 ? p.f.queries() : p.f.keys());
      extents.push_back(i == 2 ? p.f.extent() : p.f.depth());
      if (!hasMap(p.f.view(i), extents))
        return Refusal{operand + ": rows that no tensor map takes", ""};
      if (!p.isAligned(i, 16))
        return Refusal{operand + " need not start at a multiple of 16 bytes", ""};
    }
    return Accepted{};
  }

  /// The width of rows that heads like these have (Row::width).
  static int64_t widthOf(const Problem &p) {
    const int64_t width = std::max(p.f.depth().constant(), p.f.extent().constant());
    return width <= 64 ? 64 : width <= 128 ? 128 : 256;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const Row &r : kCosts.rows)
      if (r.width == widthOf(p) && legal(p, r.schedule))
        out.push_back(r.schedule);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.warpgroups % s.teams != 0)
      return impossible(text, "teams divide the warpgroups");
    if (s.turns != 0 && (s.teams > 1 || s.warpgroups == 1))
      return impossible(text, "several warpgroups of one team take turns");
    const attention_sm90_geometry shape = p.geometry(s);
    if (!shape.fits_registers(p.held(s)))
      return impossible(text, std::to_string(shape.needed_registers(p.held(s))) +
                                  " registers where a thread has " +
                                  std::to_string(shape.consumer_registers()));
    if (shape.joining_bytes() > shape.barriers_at() - shape.keys_at())
      return impossible(text, "what teams send does not fit into the buffers of keys and values");
    if (s.blocks * (shape.shared_bytes() + kReserved) > int64_t(p.in.level.sharedBytes) + kReserved)
      return impossible(text, std::to_string(s.blocks) + " blocks of " +
                                  std::to_string(shape.shared_bytes()) +
                                  " bytes of shared memory do not fit on a multiprocessor");
    return Accepted{};
  }

  /// The row of a schedule; of one that has none, the row that is nearest in what a block computes.
  static const Row &rowOf(const Problem &p, const Schedule &s) {
    const int64_t width = widthOf(p);
    const Row *best = nullptr;
    int64_t least = 0;
    for (const Row &r : kCosts.rows) {
      const Schedule &t = r.schedule;
      const int64_t distance =
          (r.width != width ? 10000 : 0) + 1000 * std::abs(t.teams - s.teams) +
          300 * std::abs(t.warpgroups - s.warpgroups) + 4 * std::abs(t.keys - s.keys) +
          100 * std::abs(t.blocks - s.blocks) +
          10 * (std::abs(t.overlap - s.overlap) + std::abs(t.turns - s.turns)) +
          std::abs(t.stages - s.stages);
      if (!best || distance < least) {
        best = &r;
        least = distance;
      }
    }
    return *best;
  }

  /// What is added to scores makes a tile take so many times as long.
  static double priceOfAdded(const Problem &p, const Schedule &s) {
    double price = !p.f.hasBias() ? 1 : p.sharesBias() ? kCosts.biasOfKeys : kCosts.bias;
    for (unsigned i = 0; i < p.f.countOfParts(); ++i)
      price += (p.part(i).staged_words(s.keys) > 0 ? kCosts.bias : kCosts.biasOfKeys) - 1;
    return price;
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Row &row = rowOf(p, s);
    const attention_sm90_geometry shape = p.geometry(s);
    const double multiprocessors = std::max(1u, p.in.level.multiprocessors);
    const double keys = double(p.f.keys().upper()), rows = double(shape.queries());
    const double share = p.f.visibleShare();
    // Tiles of a team: of the longest block, and of all on average; the tile that a diagonal
    // crosses is computed whole.
    const double longest = std::ceil(std::ceil(keys / double(s.keys)) / double(s.teams));
    const double average = std::ceil((share < 1 ? std::ceil(keys / double(s.keys)) * share + 0.5
                                                : std::ceil(keys / double(s.keys))) /
                                     double(s.teams));
    const double blocks = p.f.heads() * std::ceil(double(p.f.queries().upper()) / rows);
    double alone = row.alone, together = row.together;
    const double factor = double(s.keys) / double(row.schedule.keys) * priceOfAdded(p, s);
    const double shortRows =
        double(s.keys * s.teams) * kCosts.shortRow *
        ((p.f.depth().constant() % 64 != 0) + (p.f.extent().constant() % 64 != 0));
    alone = std::max(alone * factor, shortRows);
    together = std::max(together * factor, double(s.blocks) * shortRows);
    const auto most = double(s.blocks);
    double tiles = 0, rounds = 0;
    if (share < 1) {
      // Blocks that are done early leave room for others.
      const double each = blocks / multiprocessors;
      tiles = std::max(longest * alone, each / most * average * together) +
              (each > most ? longest * alone / 4 : 0);
      rounds = std::ceil(each / most);
    } else {
      const double each = std::ceil(blocks / multiprocessors), whole = std::floor(each / most),
                   rest = each - whole * most;
      tiles =
          longest *
          (whole * together +
           (rest > 0 ? alone + (most > 1 ? (together - alone) * (rest - 1) / (most - 1) : 0) : 0));
      rounds = std::ceil(each / most);
    }
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    return std::max(kCosts.launch + tiles + rounds * row.block, cuda::microseconds(p.in.level, e));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/attention/sm90.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("batch", p.f.leading());
    p.f.configure(cfg);
    for (const auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    cfg.flag("bias_pairs", p.hasPairs());
    if (isLarge(p.in.form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    p.f.writeViews(out);
    launch(out, "attention_sm90", p.f.arguments(config));
  }
};

} // namespace

const Tactic &kAttentionSm90a = kTacticOf<WarpgroupAttention>;

} // namespace tenon::cuda

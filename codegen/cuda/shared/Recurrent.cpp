// Implements how recurrent layers are shared out among blocks.
#include "codegen/cuda/shared/Recurrent.h"

#include "codegen/cuda/shared/Common.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

constexpr int64_t kMostTiles = 64;   // of a thread, whose text is unrolled
constexpr int64_t kMostItems = 2;    // rows and units of a thread
constexpr int64_t kMostSums = 32;    // registers of a thread beside its weights
constexpr int64_t kMostBlocks = 128; // of all clusters: on every machine with clusters at once
constexpr double kClock = 1.7e3;     // cycles of a microsecond, assumed

bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }

int64_t clustersOf(const RecurrentShape &shape, const RecurrentSchedule &s) {
  return ceilDiv(std::max<int64_t>(1, shape.rows), s.rows);
}

/// Cycles of a product in a step. By hand, from 21 times of one H200 in fp16 and fp32: of mma.sync
/// six cycles a tile and 33 until the next of a chain, of fused multiply-adds 128 a cycle, of
/// shared memory 128 bytes.
double productCycles(const RecurrentShape &shape, const RecurrentSchedule &s, unsigned p) {
  const recurrent_geometry g = geometryOf(shape, s);
  const double warps = double(g.warps()), tiles = double(g.own_tiles(p)),
               rest = double(g.tiles() - g.held()) / double(g.tiles());
  const double chain = isHalf(shape.element)
                           ? double(g.own_terms(p)) * (g.own_rows(p) == 1 ? 17.0 : 33.0)
                           : double(g.own_terms(p)) * double(2 * s.rows);
  const double arithmetic = tiles * warps * (isHalf(shape.element) ? 6.0 : double(s.rows));
  const double loads =
      double(g.own_terms(p)) * warps * (isHalf(shape.element) ? 2.0 : 2.0 * double(s.rows)) +
      4 * rest * tiles * warps;
  const double sums =
      double(g.own_rows(p)) * warps * (isHalf(shape.element) ? 4.0 : 6.0 * double(s.rows)) +
      double(s.rows * g.units()) / 32 * double(g.gates(p) * g.splits(p));
  return std::max({chain, arithmetic, loads}) + sums;
}

/// What a step takes beside products: barriers, the cell, and states on their way.
double otherCycles(const RecurrentSchedule &s, unsigned products) {
  constexpr double kCell = 250, kBlock = 80, kCluster = 900;
  return kCell + products * (40 + (s.blocks > 1 ? kCluster : kBlock));
}

} // namespace

llvm::ArrayRef<Field<RecurrentSchedule>> RecurrentSchedule::fields() {
  using S = RecurrentSchedule;
  static const Field<S> kFields[] = {
      {"threads", &S::threads, oneOf(128, 256, 512)},
      {"blocks", &S::blocks, oneOf(1, 2, 4, 8)},
      {"rows", &S::rows, between(1, recurrent_geometry::most_rows)},
      {"splits", &S::splits, oneOf(1, 2, 4, 8, 16)},
      {"splits1", &S::splits1, oneOf(1, 2, 4, 8, 16), 1},
  };
  return kFields;
}

recurrent_geometry geometryOf(const RecurrentShape &shape, const RecurrentSchedule &s) {
  return {shape.hidden, s.rows,   shape.gates[0], shape.gates[1], bitWidth(shape.element) / 8,
          s.threads,    s.blocks, s.splits,       s.splits1};
}

Result<> fits(const TargetLevel &level, const RecurrentShape &shape, const RecurrentSchedule &s) {
  const ScheduleText text = printSchedule("recurrent", s);
  const recurrent_geometry g = geometryOf(shape, s);
  if (s.blocks > 1 && level.sm < 90)
    return impossible(text, "clusters of blocks exist from sm_90 on");
  if (g.warps() % s.splits != 0 || g.warps() % s.splits1 != 0)
    return impossible(text, "splits are at most the warps of a block");
  if (shape.products == 1 && s.splits1 != 1)
    return impossible(text, "there is one product, and no splits1");
  if (g.tiles() > kMostTiles)
    return impossible(text, std::to_string(g.tiles()) + " tiles of weights where a warp takes " +
                                std::to_string(kMostTiles));
  if (s.rows * g.units() > kMostItems * s.threads)
    return impossible(text, "more rows and units than threads have room for");
  int64_t sums = 0;
  for (unsigned p = 0; p < shape.products; ++p)
    sums = std::max<int64_t>(sums, g.own_rows(p) * (isHalf(shape.element) ? 4 : 2 * s.rows));
  if (sums > kMostSums)
    return impossible(text, "more rows of weights than a warp has registers for");
  return fitsShared(level, text, g.shared_bytes());
}

double stepMicroseconds(const TargetLevel &level, const RecurrentShape &shape,
                        const RecurrentSchedule &s) {
  double cycles = otherCycles(s, shape.products);
  for (unsigned p = 0; p < shape.products; ++p)
    cycles += productCycles(shape, s, p);
  const double sms = std::max(1u, level.multiprocessors);
  return cycles / kClock * std::ceil(double(clustersOf(shape, s) * s.blocks) / sms);
}

std::vector<RecurrentSchedule> recurrentSchedules(const TargetLevel &level,
                                                  const RecurrentShape &shape) {
  std::vector<std::pair<double, RecurrentSchedule>> found;
  const int64_t most =
      std::min<int64_t>(recurrent_geometry::most_rows, std::max<int64_t>(1, shape.rows));
  const int64_t clusters = ceilDiv(std::max<int64_t>(1, shape.rows), most);
  llvm::SmallVector<int64_t, 4> rows{most};
  for (int64_t n :
       {ceilDiv(std::max<int64_t>(1, shape.rows), clusters), ceilDiv(most, 2), int64_t(1)})
    if (!llvm::is_contained(rows, n))
      rows.push_back(n);
  for (int64_t threads : {512, 256, 128})
    for (int64_t blocks : {1, 2, 4, 8})
      for (int64_t r : rows) {
        llvm::Optional<RecurrentSchedule> best;
        double least = 0;
        for (int64_t a = 1; a <= threads / 32; a *= 2)
          for (int64_t b = 1; b <= (shape.products > 1 ? threads / 32 : 1); b *= 2) {
            const RecurrentSchedule s{threads, blocks, r, a, b};
            if (!fits(level, shape, s))
              continue;
            const double price = stepMicroseconds(level, shape, s);
            if (!best || price < least)
              best = s, least = price;
          }
        if (best)
          found.push_back({least, *best});
      }
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<RecurrentSchedule> out;
  out.reserve(found.size());
  for (const auto &[price, s] : found)
    out.push_back(s);
  return out;
}

bool runsRecurrent(const TargetLevel &level, const RecurrentShape &shape) {
  if (level.sm < 80 || (!isHalf(shape.element) && shape.element != Element::F32))
    return false;
  const std::vector<RecurrentSchedule> all = recurrentSchedules(level, shape);
  return llvm::any_of(all, [&](const RecurrentSchedule &s) {
    return clustersOf(shape, s) * s.blocks <= kMostBlocks;
  });
}

} // namespace tenon::cuda

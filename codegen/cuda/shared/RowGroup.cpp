// Implements the schedules of kernels that go along rows.
#include "codegen/cuda/shared/RowGroup.h"

#include "codegen/core/Work.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {

namespace {
constexpr int64_t kWarp = 32, kMostThreads = 1024;
constexpr int64_t kHeldBytes = 128;   // of a row that one thread keeps in registers
constexpr int64_t kHeldElements = 32; // the same, as each takes instructions of its own
constexpr int64_t kMostBlocks = 64;   // whose statistics a block joins

int64_t powerOfTwo(int64_t atLeast) { return int64_t(llvm::PowerOf2Ceil(uint64_t(atLeast))); }

unsigned bitsRead(const RowProblem &p) {
  unsigned bits = 8;
  for (const Access &a : p.in.form.anchorInputs[0].inputs)
    bits = std::max(bits, bitWidth(a.source->type().element()));
  return bits;
}

/// The strides of all that is read and written, along the dimensions of rows.
std::vector<Strides> operandStrides(const RowProblem &p) {
  const GroupForm &form = p.in.form;
  std::vector<Strides> operands = bodyStrides(form);
  for (const Access &a : form.anchorInputs[0].inputs)
    operands.push_back(stridesOf(a, unsigned(form.body.space.size())));
  for (Strides &s : operands)
    s = p.nest(s);
  return operands;
}

/// Elements of a run: 16 bytes of what is read or written where rows are contiguous in all of it,
/// and no run crosses a boundary inside a row.
int64_t runLength(const RowProblem &p) {
  for (const Strides &s : operandStrides(p))
    if (!s.strides.back().isConstant(1) && !s.strides.back().isConstant(0))
      return 1;
  unsigned bits = bitsRead(p);
  for (const OutputForm &o : p.in.form.outputs)
    bits = std::max(bits, bitWidth(o.type.element()));
  int64_t length = std::max<int64_t>(1, 128 / bits);
  if (p.nest.reducedExtents().size() == 1)
    return std::min(length, powerOfTwo(p.nest.rowLength()));
  const Dim inner = p.nest.extents.back();
  while (length > 1 && (!inner.isConstant() || inner.constant() % length))
    length /= 2;
  return length;
}

/// With as many runs held as a thread's share of a row has, where they find room.
RowSchedule holding(const RowProblem &p, RowSchedule s) {
  const int64_t held = ceilDiv(ceilDiv(p.nest.rowLength(), s.vector), s.lanes * s.blocks);
  const bool fits =
      held * s.vector <= kHeldElements && held * s.vector * bitsRead(p) / 8 <= kHeldBytes;
  s.held = fits ? held : 0;
  return s;
}

} // namespace

int64_t rowsOf(const RowProblem &p) {
  const int64_t all = p.in.form.anchor->result()->type().upperElements();
  return std::max<int64_t>(1, all / p.nest.rowLength());
}

bool areNeighbours(const RowProblem &p) {
  const GroupForm &form = p.in.form;
  const Strides y = p.nest(stridesOf(form.outputs[0], unsigned(form.body.space.size())));
  return !y.strides.back().isConstant(1) && y.strides[p.nest.kept - 1].isConstant(1);
}

bool areRunsWhole(const RowProblem &p, int64_t vector, const StepWriter &out) {
  return areRunsWhole(out, p.in.form, p.nest, unsigned(p.nest.extents.size()) - 1,
                      p.nest.extents.back(), vector);
}

llvm::ArrayRef<Field<RowSchedule>> RowSchedule::fields() {
  static const Field<RowSchedule> kFields[] = {
      {"threads", &RowSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024), 256},
      {"lanes", &RowSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)},
      {"across", &RowSchedule::across, oneOf(0, 1)},
      {"vector", &RowSchedule::vector, VectorSchedule::allowed(), 1},
      {"held", &RowSchedule::held, between(0, kHeldElements), 0},
      {"blocks", &RowSchedule::blocks, between(1, kMostBlocks), 1},
      {"cluster", &RowSchedule::cluster, oneOf(0, 1), 0},
  };
  return kFields;
}

void rows::candidates(const RowProblem &p, std::vector<RowSchedule> &out) {
  const bool across = areNeighbours(p);
  const int64_t vector = runLength(p), runs = ceilDiv(p.nest.rowLength(), vector);
  const int64_t rows = rowsOf(p), sms = std::max(1u, p.in.level.multiprocessors);
  auto add = [&](int64_t threads, int64_t lanes, int64_t blocks, bool cluster) {
    const RowSchedule s =
        holding(p, {threads, lanes, across, vector, 0, blocks, blocks > 1 && cluster});
    if (llvm::none_of(out, [&](const RowSchedule &o) { return printedOf(o) == printedOf(s); }))
      out.push_back(s);
  };
  // A warp a row, as long as its lanes have a few runs each; neighbouring rows share lines of
  // memory, so fewer lanes do there.
  const int64_t few = powerOfTwo(ceilDiv(runs, 4)), most = std::min(powerOfTwo(runs), kMostThreads);
  if (across) {
    for (int64_t lanes : {std::min(few, kWarp), std::min<int64_t>(few, 8)})
      add(256, lanes, 1, false);
    add(256, std::min<int64_t>(most, 128), 1, false);
  } else {
    for (int64_t lanes : {std::min(few, kWarp), std::min(most, kWarp), std::min(few, kMostThreads)})
      add(std::max<int64_t>(128, lanes), lanes, 1, false);
    for (int64_t lanes : {64, 128, 256, 512, 1024})
      if (lanes <= most)
        add(std::max<int64_t>(128, lanes), lanes, 1, false);
  }
  // Several blocks a row while there are fewer of them than multiprocessors have room for.
  const int64_t together = across ? 8 : 1; // rows of a block
  for (int64_t threads : {256, 512, 1024}) {
    const int64_t lanes = threads / together;
    for (int64_t blocks = 2; blocks <= kMostBlocks; blocks *= 2) {
      const bool cluster = p.in.level.sm >= 90 && blocks <= kMostOfCluster;
      if (ceilDiv(rows, together) * blocks > 4 * sms || runs < lanes * blocks)
        break;
      if (cluster)
        add(threads, lanes, blocks, true);
      if (!cluster || blocks == kMostOfCluster)
        add(threads, lanes, blocks, false);
    }
  }
}

Result<> rows::legal(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel) {
  const ScheduleText text = printSchedule(kernel.name, s);
  if (s.lanes > s.threads)
    return impossible(text, "lanes are at most threads");
  const Dim inner = p.nest.extents.back();
  if (p.nest.reducedExtents().size() > 1 && s.vector > 1 &&
      (!inner.isConstant() || inner.constant() % s.vector))
    return impossible(text, "vector divides the last of several extents of a row");
  if (s.held * s.vector > kHeldElements)
    return impossible(text, "held times vector is at most " + std::to_string(kHeldElements));
  if (s.held && s.held * s.lanes * s.vector * s.blocks < p.nest.rowLength())
    return impossible(text, "held times lanes times vector times blocks is 0, or at least a row, " +
                                std::to_string(p.nest.rowLength()));
  if (s.cluster && (p.in.level.sm < 90 || s.blocks < 2 || s.blocks > kMostOfCluster))
    return impossible(text, "a cluster, from sm_90 on, has 2 to " + std::to_string(kMostOfCluster) +
                                " blocks");
  const int64_t joined = s.blocks > 1 ? powerOfTwo(s.blocks) + 1 : 0;
  const int64_t slot = int64_t(llvm::alignTo(uint64_t(kernel.partBytes), 16));
  return fitsShared(p.in.level, text, 16 + (s.threads / s.lanes) * joined * slot + s.threads * 8);
}

double rows::microseconds(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel,
                          const RowCosts &c) {
  const TargetLevel &level = p.in.level;
  const double sms = std::max(1u, level.multiprocessors);
  const int64_t perThread = ceilDiv(ceilDiv(p.nest.rowLength(), s.vector), s.lanes * s.blocks);
  const double blocks = double(ceilDiv(rowsOf(p), s.threads / s.lanes) * s.blocks);
  const double registers = 40 + double(s.held * s.vector * bitsRead(p)) / 32;
  const double room =
      std::max(1.0, std::floor(std::min(2048.0, 65536.0 / registers) / double(s.threads)));
  const double waves = std::ceil(blocks / (sms * room));
  const double used = std::min(1.0, blocks / sms), onOne = blocks / (sms * used);
  const double passes = s.held ? 1 : kernel.passes;
  // Rows that are no whole runs are read element by element.
  const bool ragged = s.vector > 1 && p.nest.rowLength() % s.vector != 0;
  const double fetches = ragged   ? passes * double(perThread)
                         : s.held ? 1
                                  : passes * std::ceil(double(perThread) / 4);
  const double chain = passes * double(perThread * s.vector) * c.chain;
  const double issued = onOne * double(s.threads) / 32 * double(perThread) * passes *
                        (c.run + c.element * double(s.vector)) * 1e-3;
  const double kilobytes = double(workOf(*p.in.form.group).bytes) / 1e3;
  const double moved =
      std::max(kilobytes / (level.bandwidthGBs * c.memory) * (s.held ? 1 : 1.5),
               kilobytes / (sms * used * c.port) * (passes > 1 ? (passes + 1) / 2 : 1));
  // What lies between a row's pieces comes with them, to be read again by others.
  const double piece = double(p.nest.extents.back().upper() * bitsRead(p)) / 8;
  const double pieces = p.nest.reducedExtents().size() > 1 && !s.across ? c.piece * 32 / piece : 0;
  const double joining = s.blocks == 1 ? 0 : s.cluster ? c.cluster : c.launch;
  return level.launchMicroseconds + joining + waves * (c.block + c.fetch * fetches + chain) +
         std::max(issued, moved * (1 + pieces));
}

int64_t rows::scratch(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel) {
  return s.blocks > 1 && !s.cluster ? rowsOf(p) * s.blocks * kernel.partBytes : 0;
}

void rows::emit(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel,
                llvm::StringRef flag, bool value, const std::string &argument, StepWriter &out) {
  const GroupForm &form = p.in.form;
  const RowNest &nest = p.nest;
  StepWriter::Config cfg(out, "config");
  cfg.extents("kept", nest.keptExtents()).extents("reduced", nest.reducedExtents());
  cfg.flag(flag, value).number("threads", s.threads).number("lanes", s.lanes);
  cfg.number("vector", s.vector).number("held", s.held).flag("across", s.across);
  cfg.number("blocks", s.blocks).flag("whole", areRunsWhole(p, s.vector, out));
  if (isLarge(form))
    cfg.flag("large", true);
  const std::string config = cfg.finish();
  const std::string body = declareOperands(out, form, form.anchorInputs[0], nest, nest.placeOf);
  std::vector<std::string> arguments = {config};
  if (!argument.empty())
    arguments.push_back(argument);
  arguments.insert(arguments.end(), {"x", "outs", "ins", body});
  std::string called = kernel.name.str();
  if (s.blocks > 1 && !s.cluster) {
    launchParts(out, called, {config, "x"});
    called += "_joined";
    arguments.push_back("parts");
  }
  launch(out, called, arguments);
}

} // namespace tenon::cuda

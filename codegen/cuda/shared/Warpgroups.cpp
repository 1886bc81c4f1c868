// Implements the reading of groups for the copy engine, and the packing of their weights.
#include "codegen/cuda/shared/Warpgroups.h"

#include "codegen/core/Work.h"
#include "codegen/memory/Alignment.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {
namespace {

/// 0: channels of groups make no rows.
int64_t tileK(const WarpgroupKind &kind, const Contraction &c) {
  const int64_t most = 128 / kind.bytes;
  if (!c.isConv)
    return most;
  for (int64_t k : {most, most / 2, most / 4})
    if (c.conv.groups > 1 ? c.conv.channels % k == 0 : c.conv.channels > k / 2)
      return k;
  return c.conv.groups > 1 ? 0 : most / 4;
}

/// Whether a tensor map describes these strides: `along` is contiguous, the others are multiples of
/// 16 bytes. Strides of extents of one element do not count.
bool hasMap(const WarpgroupKind &kind, const Strides &s, llvm::ArrayRef<Dim> extents,
            unsigned along) {
  for (unsigned d = 0; d < extents.size(); ++d) {
    const Dim stride = s.strides[d];
    if (d == along ? !stride.isConstant(1)
                   : !extents[d].isConstant(1) &&
                         !(stride.isConstant() && stride.constant() * kind.bytes % 16 == 0))
      return false;
  }
  return true;
}

/// Whether `operand` starts at a multiple of 16 bytes.
bool startsAligned(const GroupQuery &in, const Value *argument, Dim offset) {
  return in.alignment &&
         in.alignment->isKnown(in.form.group->operand(argument->index()), offset, 16);
}

/// The limits of maps that read columns of pixels: corners and distances of taps in 8 bits, in 5 of
/// volumes; steps of up to 8.
bool fitsColumns(const ConvProblem &p) {
  const int64_t half = p.isVolume() ? 16 : 128;
  auto fits = [half](Dim in, Dim out, int64_t kernel, int64_t stride, int64_t dilation,
                     int64_t pad) {
    if (!in.isConstant() || !out.isConstant())
      return false;
    const int64_t upper = (out.constant() - 1) * stride + 1 - in.constant() - pad;
    return pad <= half && upper >= -half && upper < half && stride <= 8 &&
           (kernel - 1) * dilation < 2 * half;
  };
  if (p.isVolume() && !fits(p.inDepth, p.outDepth, p.kernelD, p.strideD, p.dilationD, p.padFront))
    return false;
  return fits(p.inHeight, p.outHeight, p.kernelH, p.strideH, p.dilationH, p.padTop) &&
         fits(p.inWidth, p.outWidth, p.kernelW, p.strideW, p.dilationW, p.padLeft);
}

/// The constant matrix that A is, which may be packed as B would be; else null.
const Value *matrixOnLeft(const GroupForm &form) {
  const Value *v = constantOperand(form, 0);
  const Access *x = v ? &form.anchorInputs[0].inputs[0] : nullptr;
  const Type t = v ? x->source->type() : Type();
  if (!v || x->type != t || t.rank() < 2)
    return nullptr;
  for (unsigned d = 0; d < t.rank(); ++d)
    if (d + 2 < t.rank() ? !t.dim(d).isConstant(1)
                         : x->dims[d].dim != int(d) && !t.dim(d).isConstant(1))
      return nullptr;
  return x->source;
}

Result<> checkA(const WarpgroupKind &kind, const GroupQuery &in, const Contraction &c) {
  const ScalarProgram &program = in.form.anchorInputs[0];
  const Access &x = program.inputs[c.mainInput];
  const auto rank = unsigned(program.space.size());
  const Strides s = stridesOf(x, rank);
  const unsigned k = c.isConv ? 1 : rank - (c.transA ? 2 : 1);
  // Of a product in 16 bits either dimension may be the contiguous one.
  const unsigned m = rank - (c.transA ? 1 : 2);
  const bool either = !c.isConv && !c.hasPrologue && kind.bytes == 2;
  if (!hasMap(kind, s, program.space, k) && !(either && hasMap(kind, s, program.space, m)) &&
      !(either && matrixOnLeft(in.form)))
    return Refusal{
        c.isConv ? "an input without contiguous channels or with rows that no tensor map takes"
                 : "a first operand whose rows no tensor map takes",
        ""};
  if (!startsAligned(in, x.source, s.offset))
    return Refusal{"an input that need not start at a multiple of 16 bytes", ""};
  return Accepted{};
}

Result<> checkB(const WarpgroupKind &kind, const GroupQuery &in, const Contraction &c) {
  if (c.isPacked)
    return Accepted{};
  const ScalarProgram &program = in.form.anchorInputs[1];
  const auto rank = unsigned(program.space.size());
  const Strides s = stridesOf(program.inputs[0], rank);
  const unsigned k = rank - (c.transB ? 1 : 2), n = rank - (c.transB ? 2 : 1);
  if (!hasMap(kind, s, program.space, k) && !(kind.bytes == 2 && hasMap(kind, s, program.space, n)))
    return Refusal{"a second operand whose rows no tensor map takes", ""};
  if (!startsAligned(in, program.inputs[0].source, s.offset))
    return Refusal{"a second operand that need not start at a multiple of 16 bytes", ""};
  return Accepted{};
}

bool isKMajorB(const GroupQuery &in, const Contraction &c) {
  if (c.isPacked)
    return true;
  const ScalarProgram &program = in.form.anchorInputs[1];
  const auto rank = unsigned(program.space.size());
  return stridesOf(program.inputs[0], rank).strides[rank - (c.transB ? 1 : 2)].isConstant(1);
}

/// Whether the element types are those of the kind.
Result<> checkTypes(const WarpgroupKind &kind, const GroupQuery &in, const Contraction &c) {
  if (kind.multiplicand == Multiplicand::Float8)
    return multipliesFloat8(in, c);
  if (kind.multiplicand == Multiplicand::Byte) {
    if (auto bytes = multipliesBytes(in, c); !bytes)
      return bytes;
    if (c.xZero != 0)
      return Refusal{"a zero point of the input: the copy engine pads with zeros", ""};
    return Accepted{};
  }
  if (kind.bytes == 4) {
    if (c.a != Element::F32 || c.b != Element::F32)
      return Refusal{"operands that are not both f32", ""};
    if (!c.isPacked && kind.storedParts == 1)
      return Refusal{
          "a second operand that is no constant: it would be cut off to tf32, not rounded", ""};
    return Accepted{};
  }
  if (c.a != c.b || (c.b != Element::F16 && c.b != Element::BF16))
    return Refusal{"operands that are not both fp16 or both bf16", ""};
  return Accepted{};
}

} // namespace

int64_t WarpgroupProblem::steps() const {
  const int64_t taps = c.isConv ? c.conv.taps() : 1;
  return taps * ceilDiv(c.depth() / taps, tileK);
}

int64_t WarpgroupProblem::tiles(int64_t m, int64_t n) const {
  return c.slices() * ceilDiv(c.rows(), m) * ceilDiv(c.columns(), n);
}

double WarpgroupProblem::moving() const {
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  if (c.isPacked)
    e.bytes += double((kind.storedParts - 1) * c.slices() * c.depth() * c.columns() * kind.bytes);
  e.launches = 0;
  return microseconds(in.level, e);
}

bool isForWarpgroups(const WarpgroupKind &kind, const GroupQuery &in) {
  return hasWgmma(in.level) && multipliedAs(in.form) == kind.precision &&
         multiplicandOf(in.form) == kind.multiplicand;
}

Result<WarpgroupProblem> readWarpgroups(const WarpgroupKind &kind, const GroupQuery &in) {
  if (multipliedAs(in.form) != kind.precision)
    return Refusal{"a contraction that is not to multiply so", ""};
  if (auto wgmma = wantsWgmma(in.level); !wgmma)
    return std::move(wgmma).refusal();
  auto c = readContraction(in);
  if (!c)
    return std::move(c).refusal();
  if (Result<> types = checkTypes(kind, in, *c); !types)
    return std::move(types).refusal();
  if (c->hasPrologue && !c->onFragments)
    return Refusal{
        "an input that is computed on the way in where it is padded, or from long vectors", ""};
  const int64_t k = tileK(kind, *c);
  if (k == 0)
    return Refusal{"groups of " + std::to_string(c->conv.channels) + " channels, no multiple of " +
                       std::to_string(32 / kind.bytes),
                   ""};
  if (c->isConv && !fitsColumns(c->conv))
    return Refusal{"a window beyond the limits of tensor maps, or extents known at run time", ""};
  if (Result<> a = checkA(kind, in, *c); !a)
    return std::move(a).refusal();
  if (Result<> b = checkB(kind, in, *c); !b)
    return std::move(b).refusal();
  return WarpgroupProblem{in, *c, kind, k, isKMajorB(in, *c)};
}

double rankOf(const WarpgroupProblem &p, double microseconds) {
  const bool scaled = p.kind.bytes != 4 && p.c.rows() >= kScaledRows;
  return (scaled ? kContractionScale : 1) * microseconds;
}

void packForWarpgroups(const WarpgroupProblem &p, llvm::SmallVectorImpl<Packing> &out) {
  packRows(p.in.form, p.c, {/*columnsFirst=*/true, 16 / p.kind.bytes, p.kind.stored}, out);
  const Value *left = p.c.isConv ? nullptr : matrixOnLeft(p.in.form);
  if (!left)
    return;
  // Rows along K, too, where they do not lie as the copy engine takes them.
  const Type w = left->type();
  const int rank = int(w.rank()), k = rank - (p.c.transA ? 2 : 1), m = rank - (p.c.transA ? 1 : 2);
  if (addressing(w).strides[p.c.transA ? k : m].constant() * p.kind.bytes % 16 == 0)
    return;
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (int d = 0; d + 2 < rank; ++d)
    axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({m, 0, false, Dim(), 0});
  const auto pitch = int64_t(llvm::alignTo(uint64_t(p.c.depth()), uint64_t(16 / p.kind.bytes)));
  axes.push_back({k, 0, false, w.context().dim(pitch), 0});
  out.push_back({left->index(), Layout::get(w.context(), axes)});
}

} // namespace tenon::cuda

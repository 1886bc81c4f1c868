// Implements what the tactics for sums of 8-bit integers share.
#include "codegen/cpu/shared/ByteContraction.h"

#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Prologue.h"
#include "codegen/cpu/shared/Window.h"
#include "codegen/forms/AnchorForms.h"
#include "codegen/memory/Packing.h"

namespace tenon::cpu {
ConvProblem turned(ConvProblem p) {
  std::swap(p.inHeight, p.inWidth);
  std::swap(p.outHeight, p.outWidth);
  std::swap(p.kernelH, p.kernelW);
  std::swap(p.strideH, p.strideW);
  std::swap(p.dilationH, p.dilationW);
  std::swap(p.padTop, p.padLeft);
  return p;
}

/// Where the dimensions of a matrix with others before it stand: (…, m, n) → (…, n, …, m).
static llvm::SmallVector<int, 6> matrixPlaces(unsigned rank) {
  constexpr int kPlaces[] = {0, 2, 3, 1};
  return {std::end(kPlaces) - rank, std::end(kPlaces)};
}

Strides ByteContraction::plane(const Strides &s) const {
  Strides r;
  r.offset = s.offset;
  if (matrix) {
    r.strides.assign(4, s.offset.node()->context->dim(0));
    const auto to = matrixPlaces(unsigned(s.strides.size()));
    for (size_t d = 0; d < to.size(); ++d)
      r.strides[size_t(to[d])] = s.strides[d];
    return r;
  }
  r = inPlane(s, conv);
  if (upright)
    std::swap(r.strides[2], r.strides[3]);
  return r;
}

llvm::SmallVector<int, 6> ByteContraction::places() const {
  if (matrix)
    return matrixPlaces(rank);
  auto p = planePlaces(conv);
  if (upright)
    std::swap(p[p.size() - 2], p[p.size() - 1]);
  return p;
}

namespace {

Result<ByteContraction> byteContraction(const Operation &op) {
  ByteContraction q;
  if (op.is(Op::MatMul)) {
    const Type a = op.operand(0)->type(), b = op.operand(1)->type();
    const unsigned rank = a.rank();
    if (rank < 2 || rank > 4 || b.rank() != 2 || !b.hasStaticShape())
      return Refusal{"a product of other than matrices with one", ""};
    q.matrix = true;
    q.rank = rank;
    q.transA = op.boolAttr("trans_a");
    q.transB = op.boolAttr("trans_b");
    ConvProblem &p = q.conv;
    const Dim one = a.context().dim(1);
    p.batch = rank > 3 ? a.dim(rank - 4) : one;
    p.inHeight = p.outHeight = rank > 2 ? a.dim(rank - 3) : one;
    p.inWidth = p.outWidth = a.dim(rank - (q.transA ? 1 : 2));
    p.channels = b.dim(q.transB ? 1 : 0).constant();
    p.filters = b.dim(q.transB ? 0 : 1).constant();
    return q;
  }
  auto p = convProblem(op);
  if (!p)
    return std::move(p).refusal();
  q.conv = *p;
  q.upright = p->spatialRank == 2 && p->kernelW == 1 && p->inWidth.isConstant(1) &&
              p->padLeft == 0 && !p->outHeight.isConstant(1);
  if (q.upright)
    q.conv = turned(q.conv);
  return q;
}

const Tensor &valuesOf(const Value *constant) {
  return **constant->def()->find("value")->get<Literal>();
}

/// The zero point of x; None where it is known only at run time.
llvm::Optional<int64_t> zeroPoint(const GroupForm &form) {
  if (form.anchorInputs.size() < 3)
    return 0;
  if (Value *v = constantOperand(form, 2))
    return valuesOf(v).intAt(0);
  return llvm::None;
}

const Tensor *weightZeros(const GroupForm &form) {
  if (form.anchorInputs.size() < 4)
    return nullptr;
  const Tensor &zeros = valuesOf(constantOperand(form, 3));
  for (int64_t i = 0; i < zeros.size(); ++i)
    if (zeros.intAt(i) != 0)
      return &zeros;
  return nullptr;
}

} // namespace

Result<ByteProblem> byteProblem(const GroupQuery &in) {
  const GroupForm &f = in.form;
  if (!f.anchor || !f.anchor->isAny(Op::Conv, Op::MatMul))
    return Refusal{"no contraction", ""};
  if (auto operands = matchInt8Operands(f, /*weightZeros=*/true); !operands)
    return std::move(operands).refusal();
  if (bitWidth(f.anchor->operand(0)->type().element()) != 8)
    return Refusal{"operands of 16 bits", ""};
  if (f.anchor->operand(1)->type().element() != Element::I8)
    return Refusal{"unsigned weights", ""};
  auto q = byteContraction(*f.anchor);
  if (!q)
    return std::move(q).refusal();
  const ScalarProgram &program = f.anchorInputs[0];
  Strides x = stridesOf(program.inputs[0], unsigned(program.space.size()));
  if (q->transA)
    std::swap(x.strides[x.strides.size() - 2], x.strides.back());
  return ByteProblem{in, *q, zeroPoint(f), weightZeros(f), q->plane(x)};
}

Result<ByteProblem> plainByteProblem(const GroupQuery &in) {
  auto p = byteProblem(in);
  if (p && p->weightZeros)
    return Refusal{"weights with a zero point", ""};
  if (p && !p->zero)
    return Refusal{"a zero point known only at run time", ""};
  return p;
}

Result<> hasOneGroup(const ByteProblem &p) {
  if (p.conv().groups != 1)
    return Refusal{"several groups", ""};
  return Accepted{};
}

Result<> isDepthwise(const ByteProblem &p) {
  if (!p.q.isDepthwise())
    return Refusal{"not depthwise with one filter a channel", ""};
  return Accepted{};
}

Result<> readsAlongLine(const ByteProblem &p) {
  const GroupForm &f = p.in.form;
  const unsigned rank = f.anchor->result()->type().rank();
  const bool oneRow = p.conv().outHeight.isConstant(1);
  const auto isLine = [&](const Strides &s) {
    return oneRow || mergesPlane(p.q.plane(s), p.conv().outWidth);
  };
  if (f.body.usesIndex() ||
      !llvm::all_of(f.outputs, [&](const OutputForm &o) { return isLine(stridesOf(o, rank)); }) ||
      !llvm::all_of(f.body.inputs,
                    [&](const Access &a) { return !a.bounded && isLine(stridesOf(a, rank)); }))
    return Refusal{"height and width of a result are not one dimension in memory", ""};
  return Accepted{};
}

const Tensor &ByteProblem::weights() const { return valuesOf(constantOperand(in.form, 1)); }

bool ByteProblem::readsInPlace() const {
  return q.conv.kernelH == 1 && q.conv.kernelW == 1 &&
         (q.conv.channels == 1 || x.strides[1].isConstant(1));
}

llvm::ArrayRef<Field<FieldSchedule>> FieldSchedule::fields() {
  static const Field<FieldSchedule> kFields[] = {weightBitsField<FieldSchedule>()};
  return kFields;
}

bool fitsBits(const ByteProblem &p, int64_t bits) {
  if (bits == 8)
    return true;
  if (p.depth() > INT32_MAX / (255 * 128))
    return false;
  const Tensor &w = p.weights();
  const int64_t half = int64_t(1) << (bits - 1);
  return withInts(w, [&](const auto &weights) {
    for (int64_t i = 0; i < w.size(); ++i)
      if (weights[i] < -half || weights[i] >= half)
        return false;
    return true;
  });
}

int64_t fewestBits(const ByteProblem &p, int64_t lanes) {
  int64_t best = 8, smallest = p.depth();
  if (!p.in.packWeights)
    return best;
  for (int64_t bits : {4, 2}) {
    const int64_t bytes = WeightFields{bits, lanes}.rowBytes(p.depth());
    if (bytes < smallest && fitsBits(p, bits)) {
      best = bits;
      smallest = bytes;
    }
  }
  return best;
}

bool joinsFilters(const ByteProblem &p) {
  const Tensor &w = p.weights();
  const bool isSigned = p.in.form.anchor->operand(0)->type().element() == Element::I8;
  const int64_t low = (isSigned ? -128 : 0) - *p.zero, high = low + 255;
  const int64_t filters = p.conv().filters, depth = w.size() / filters;
  // Filters are the last dimension of a matrix that is not transposed, else the first.
  const bool last = p.q.matrix && !p.q.transB;
  return withInts(w, [&](const auto &weights) {
    for (int64_t k = 0; k < filters; ++k) {
      int64_t least = 0, most = 0;
      for (int64_t i = 0; i < depth; ++i) {
        const int64_t weight = weights[last ? i * filters + k : k * depth + i];
        if (weight == -128)
          return false;
        least += std::min(weight * low, weight * high);
        most += std::max(weight * low, weight * high);
      }
      if (least <= -(1 << 23) || most >= 1 << 23)
        return false;
    }
    return true;
  });
}

std::string storedWeights(int64_t bits, int64_t lanes) {
  return bits < 8 ? WeightFields{bits, lanes}.word() : "";
}

void packFilters(const ByteProblem &p, std::string stored, llvm::SmallVectorImpl<Packing> &out) {
  const ByteContraction &q = p.q;
  const Value *source = p.weightsOperand();
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  auto axis = [&](int d) { axes.push_back({d, 0, false, Dim(), 0}); };
  if (q.matrix) {
    axis(q.transB ? 0 : 1);
    axis(q.transB ? 1 : 0);
  } else {
    axis(0);
    for (unsigned d = 2; d < w.rank(); ++d)
      axis(int(d));
    axis(1);
  }
  out.push_back({source->index(), Layout::get(w.context(), axes), std::move(stored)});
}

void writeExtents(StepWriter::Config &cfg, const ByteContraction &q, bool depthwise) {
  const ConvProblem &p = q.conv;
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (depthwise)
    cfg.extent("channels", p.groups);
  else
    cfg.extent("filters", p.filters).extent("channels", p.channels);
  writeWindow(cfg, p);
}

void writeOperands(StepWriter &out, const ByteProblem &p) {
  const GroupForm &form = p.in.form;
  auto plane = [&](const Strides &strides) { return p.q.plane(strides); };
  const Dim zero = p.x.offset.node()->context->dim(0);
  SourceWriter &c = out.code();
  c.line("const auto x = " + out.view(form.anchorInputs[0].inputs[0].source, p.x) + ";");
  c.line("const auto *w = " + out.pointer(p.weightsOperand(), zero) + ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + inputsIn(out, form.body, plane, p.q.places()) + ";");
}

double instructionTime(const TargetLevel &level, double instructions) {
  return instructions / (level.peakGflops * 1e3 / 2); // the peak is that of fused multiply-adds
}

} // namespace tenon::cpu

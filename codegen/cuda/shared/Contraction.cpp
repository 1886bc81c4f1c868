// Implements what the tactics of contractions share.
#include "codegen/cuda/shared/Contraction.h"

#include "codegen/core/Work.h"

#include "runtime/cuda/tile/geometry.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {

Dim strideFromLast(const Strides &s, unsigned dim) {
  return dim == 0 || dim > s.strides.size() ? s.offset.node()->context->dim(0)
                                            : s.strides[s.strides.size() - dim];
}

int64_t Contraction::rows() const {
  return isConv ? conv.batch.upper() * (conv.isVolume() ? conv.outDepth.upper() : 1) *
                      conv.outHeight.upper() * conv.outWidth.upper()
                : m.upper();
}
int64_t Contraction::columns() const { return isConv ? conv.filters : n.upper(); }
int64_t Contraction::depth() const { return isConv ? conv.channels * conv.taps() : k.upper(); }
int64_t Contraction::slices() const {
  return isConv ? conv.groups : batch0.upper() * batch1.upper();
}

namespace {

/// Finds the one input that is read along all of A; the others vary along `kDim` at most.
Result<> readPrologue(const ScalarProgram &p, int kDim, Contraction &c) {
  unsigned whole = 0;
  for (unsigned i = 0; i < p.inputs.size(); ++i) {
    bool alongK = true;
    for (const AccessDim &d : p.inputs[i].dims)
      alongK &= d.dim == -1 || d.dim == kDim;
    if (p.inputs[i].bounded)
      return Refusal{"a padded input", ""};
    if (!alongK) {
      c.mainInput = i;
      ++whole;
    }
  }
  if (p.inputs.empty() || whole > 1 || p.usesIndex())
    return Refusal{"an input is computed from several tensors or none", ""};
  c.hasPrologue = !p.isPlainRead();
  c.a = p.inputs[c.mainInput].source->type().element();
  return Accepted{};
}

Result<> readConv(const Operation &op, Contraction &c) {
  auto p = convProblem(op, 3);
  if (!p)
    return std::move(p).refusal();
  c.isConv = true;
  c.conv = *p;
  return Accepted{};
}

/// Whether every element of A is one of the input's: nothing is padded.
bool readsWithin(const Contraction &c) {
  if (!c.isConv)
    return true;
  const ConvProblem &p = c.conv;
  auto within = [](Dim in, Dim out, int64_t stride) {
    return in == out ? stride == 1
                     : in.isConstant() && out.isConstant() &&
                           (out.constant() - 1) * stride < in.constant();
  };
  return p.taps() == 1 && p.padFront == 0 && p.padTop == 0 && p.padLeft == 0 &&
         within(p.inHeight, p.outHeight, p.strideH) && within(p.inWidth, p.outWidth, p.strideW) &&
         (!p.isVolume() || within(p.inDepth, p.outDepth, p.strideD));
}

/// Kernels may apply the prologue to what they multiply where nothing is padded, and what it reads
/// beside A fits into shared memory beside the tiles.
void readFragments(const ScalarProgram &program, Contraction &c) {
  constexpr int64_t kMostBytes = 16 * 1024;
  if (!c.hasPrologue)
    return;
  const int64_t channels = (c.isConv ? c.conv.groups : 1) * c.depth();
  int64_t bytes = 0;
  for (unsigned i = 0; i < program.inputs.size(); ++i)
    if (i != c.mainInput) {
      const int64_t each = bitWidth(program.inputs[i].source->type().element());
      bytes += (channels + 128) * each / 8;
      c.stagedBytes += (channels + 127) / 64 * 64 * each / 8;
    }
  c.onFragments = readsWithin(c) && bytes <= kMostBytes;
  if (!c.onFragments)
    c.stagedBytes = 0;
}

/// Everything with rows: A, what is written, and what the body reads.
std::vector<Strides> rowOperands(const GroupForm &form, const Contraction &c) {
  std::vector<Strides> all = bodyStrides(form);
  const ScalarProgram &a = form.anchorInputs[0];
  all.push_back(stridesOf(a.inputs[c.mainInput], unsigned(a.space.size())));
  return all;
}

/// The prologue has been read. Batches that share B and follow each other in memory as rows do are
/// rows: tiles need not end with each of them.
Result<> readMatMul(const GroupForm &form, Contraction &c) {
  const Operation &op = *form.anchor;
  const Type y = op.result()->type(), a = op.operand(0)->type(), b = op.operand(1)->type();
  const Dim one = y.context().dim(1);
  c.transA = op.boolAttr("trans_a");
  c.transB = op.boolAttr("trans_b");
  c.m = y.dim(y.rank() - 2);
  c.n = y.dim(y.rank() - 1);
  c.k = a.dim(a.rank() - (c.transA ? 2 : 1));
  bool merges = !c.transA;
  for (unsigned d = 0; d + 2 < b.rank(); ++d)
    merges &= b.dim(d).isConstant(1);
  const std::vector<Strides> operands = rowOperands(form, c);
  llvm::SmallVector<unsigned, 4> batches; // counted from the last, inner ones first
  for (unsigned d = 3; d <= y.rank(); ++d) {
    const Dim extent = y.dim(y.rank() - d);
    if (extent.isConstant(1))
      continue;
    for (const Strides &s : operands)
      merges = merges &&
               (c.m.isConstant(1) || strideFromLast(s, d) == strideFromLast(s, c.rowDim) * c.m);
    if (!merges) {
      batches.push_back(d);
      continue;
    }
    if (c.m.isConstant(1))
      c.rowDim = d;
    c.m = c.m * extent;
  }
  if (batches.size() > 2)
    return Refusal{"more than two batch dimensions", ""};
  c.batch1Dim = batches.empty() ? 0 : batches[0];
  c.batch0Dim = batches.size() < 2 ? 0 : batches[1];
  c.batch1 = c.batch1Dim ? y.dim(y.rank() - c.batch1Dim) : one;
  c.batch0 = c.batch0Dim ? y.dim(y.rank() - c.batch0Dim) : one;
  return Accepted{};
}

} // namespace

Result<int64_t> readZeroPoint(const GroupForm &form) {
  const unsigned count = form.anchor->numOperands();
  if (count > 3)
    return Refusal{"a zero point of the weights", ""};
  if (count < 3)
    return 0;
  Value *v = constantOperand(form, 2);
  const Literal zero = v ? constantValue(v) : nullptr;
  if (!zero || zero->size() != 1)
    return Refusal{"a zero point that is known at run time, or several", ""};
  return zero->intAt(0);
}

double movedBytes(const GroupQuery &in) { return double(workOf(*in.form.group).bytes); }

Result<Contraction> readContraction(const GroupQuery &in) {
  const GroupForm &f = in.form;
  if (!f.anchor || !f.anchor->isAny(Op::Conv, Op::MatMul))
    return Refusal{"no conv or matmul", ""};
  const Operation &op = *f.anchor;
  if (auto plain = isWithoutScales(op); !plain)
    return std::move(plain).refusal();
  const auto xZero = readZeroPoint(f);
  if (!xZero)
    return xZero.refusal();
  Contraction c;
  c.xZero = *xZero;
  const int kDim =
      op.is(Op::Conv) ? 1 : int(op.operand(0)->type().rank()) - (op.boolAttr("trans_a") ? 2 : 1);
  auto read = readPrologue(f.anchorInputs[0], kDim, c)
                  .andThen([&] { return op.is(Op::Conv) ? readConv(op, c) : readMatMul(f, c); })
                  .andThen([&] { return isPlainBody(f.body); })
                  .andThen([&] { return fitsInt(f); });
  if (!read)
    return std::move(read).refusal();
  if (!f.anchorInputs[1].isPlainRead())
    return Refusal{"the second operand is computed in the group", ""};
  readFragments(f.anchorInputs[0], c);
  const Access &b = f.anchorInputs[1].inputs[0];
  Value *operand = f.group->operand(b.source->index());
  const bool constant = operand->def() && operand->def()->is(Op::Constant);
  c.b = b.source->type().element();
  // Packing orders the constant's own dimensions: it must be read as it is.
  bool whole = b.type.rank() == b.source->type().rank() && b.type.hasStaticShape();
  for (unsigned d = 0; d < b.dims.size() && whole; ++d)
    whole = (b.dims[d].dim == int(d) && b.dims[d].step == 1 &&
             (!b.dims[d].offset || b.dims[d].offset.isConstant(0))) ||
            b.type.dim(d).isConstant(1);
  if (!c.isConv)
    for (unsigned d = 0; d + 2 < b.type.rank(); ++d)
      whole &= b.type.dim(d).isConstant(1);
  c.isPacked = constant && whole;
  if (c.isConv && !c.isPacked)
    return Refusal{"weights known only at run time", ""};
  return c;
}

Result<> readsBeside(const GroupForm &form, const GroupForm &beside) {
  for (const Access &a : form.body.inputs)
    if (a.source->def() == beside.anchor)
      for (size_t d = 0; d < a.dims.size(); ++d)
        if (!a.type.dim(unsigned(d)).isConstant(1) &&
            (a.dims[d].dim != int(d) || a.dims[d].step != 1 ||
             (a.dims[d].offset && !a.dims[d].offset.isConstant(0))))
          return Refusal{"sums of two products that are read at different places", ""};
  return Accepted{};
}

ScalarProgram bodyOfSums(const GroupForm &form) {
  ScalarProgram body = form.body;
  unsigned sum = 0;
  for (const GroupForm &beside : form.beside) {
    ++sum;
    for (size_t i = body.inputs.size(); i-- > 0;) {
      if (body.inputs[i].source->def() != beside.anchor)
        continue;
      body.inputs.erase(body.inputs.begin() + int64_t(i));
      for (ScalarNode &n : body.nodes)
        if (n.kind == ScalarNode::Input && n.index == i)
          n.kind = ScalarNode::Anchor, n.index = sum;
        else if (n.kind == ScalarNode::Input && n.index > i)
          --n.index;
    }
  }
  return body;
}

llvm::SmallVector<Element, 2> sumsOf(const GroupForm &form) {
  llvm::SmallVector<Element, 2> sums{form.anchor->result()->type().element()};
  for (const GroupForm &beside : form.beside)
    sums.push_back(beside.anchor->result()->type().element());
  return sums;
}

Result<> multipliesRows(const Contraction &c) {
  if (!c.isPacked || c.slices() != 1)
    return Refusal{"not one product with constant weights", ""};
  if (c.isConv && !(c.conv.isPointwise() && !c.conv.isVolume() && c.conv.outHeight.isConstant(1) &&
                    c.conv.outWidth.isConstant(1)))
    return Refusal{"a convolution of more than one point", ""};
  return Accepted{};
}

Dim rowsOf(const Contraction &c) { return c.isConv ? c.conv.batch : c.m; }

Strides rowStrides(const Contraction &c, const Strides &s, bool transposed) {
  Strides r;
  r.offset = s.offset;
  if (c.isConv)
    r.strides = {s.strides[0], s.strides[1]};
  else
    r.strides = {strideFromLast(s, transposed ? 1 : c.rowDim),
                 strideFromLast(s, transposed ? 2 : 1)};
  return r;
}

bool loadsIntoF32(const Contraction &c) {
  return computeElement(c.a) == Element::F32 ||
         (c.hasPrologue && (isBool(c.a) || (isInteger(c.a) && bitWidth(c.a) <= 16)));
}

Result<> multipliesInF32(const GroupQuery &in, const Contraction &c) {
  auto computesInF32 = [](Element e) { return computeElement(e) == Element::F32; };
  if (!computesInF32(in.form.anchor->operand(0)->type().element()) || !computesInF32(c.b) ||
      !loadsIntoF32(c))
    return Refusal{"operands that are not computed in f32", ""};
  return Accepted{};
}

bool isMachineOf(const MmaGeneration &g, const TargetLevel &level) {
  return level.sm >= g.firstSm && level.sm < g.endSm;
}

Result<> isFor(const MmaGeneration &g, const TargetLevel &level) {
  if (!isMachineOf(g, level))
    return Refusal{"written for other machines than " + level.name.str(), ""};
  return Accepted{};
}

Result<> multipliesOn(const MmaGeneration &g, const GroupQuery &in, const Contraction &c) {
  if (auto machine = isFor(g, in.level); !machine)
    return machine;
  if (c.b == Element::BF16 && !g.bf16)
    return Refusal{"the Tensor Cores of " + in.level.name.str() + " multiply fp16, not bf16", ""};
  if (in.form.anchor->operand(0)->type().element() != c.b ||
      (c.b != Element::F16 && c.b != Element::BF16))
    return Refusal{
        g.bf16 ? "operands that are not both fp16 or both bf16" : "operands that are not fp16", ""};
  if (!loadsIntoF32(c) || (c.a != c.b && !c.hasPrologue))
    return Refusal{"an operand that is stored as " + name(c.a).str(), ""};
  return Accepted{};
}

Result<> multipliesBytes(const GroupQuery &in, const Contraction &c) {
  auto isByte = [](Element e) { return e == Element::I8 || e == Element::U8; };
  if (!isByte(in.form.anchor->operand(0)->type().element()) || !isByte(c.b))
    return Refusal{"operands that are not bytes", ""};
  if (c.b != Element::I8)
    return Refusal{"unsigned weights", ""};
  if (c.hasPrologue || !isByte(c.a))
    return Refusal{"bytes that are computed in the group", ""};
  if (!c.isPacked)
    return Refusal{"weights known only at run time", ""};
  return Accepted{};
}

Result<> multipliesBytesOn(const MmaGeneration &g, const GroupQuery &in, const Contraction &c) {
  return isFor(g, in.level).andThen([&] { return multipliesBytes(in, c); });
}

Multiplicand multiplicandOf(const GroupForm &form) {
  if (!form.anchor || !form.anchor->isAny(Op::Conv, Op::MatMul))
    return Multiplicand::Float;
  const Element e = form.anchor->operand(0)->type().element();
  return !isFloat(e)            ? Multiplicand::Byte
         : e == Element::F8E4M3 ? Multiplicand::Float8
                                : Multiplicand::Float;
}

Result<> multipliesFloat8(const GroupQuery &in, const Contraction &c) {
  if (in.form.anchor->operand(0)->type().element() != Element::F8E4M3 || c.b != Element::F8E4M3)
    return Refusal{"operands that are not both f8e4m3", ""};
  if (c.hasPrologue || c.a != Element::F8E4M3)
    return Refusal{"floats of 8 bits that are computed in the group", ""};
  if (!c.isPacked)
    return Refusal{"weights known only at run time", ""};
  return Accepted{};
}

bool hasWgmma(const TargetLevel &level) { return level.sm == 90 && level.archSpecific; }

Result<> wantsWgmma(const TargetLevel &level) {
  if (hasWgmma(level))
    return Accepted{};
  return Refusal{"its kernel is for sm_90a alone, whose instructions (wgmma) other GPUs lack", ""};
}

llvm::StringRef multipliedAs(const GroupForm &form) {
  return form.anchor && form.anchor->isAny(Op::Conv, Op::MatMul)
             ? form.anchor->wordAttr("precision")
             : llvm::StringRef();
}

llvm::Optional<std::string> worthTensorCores(const GroupForm &form) {
  if (!form.anchor || !form.anchor->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul) ||
      form.isChain()) // a row of each image, by itself
    return llvm::None;
  const Operation &op = *form.anchor;
  const Type a = op.operand(0)->type(), b = op.operand(1)->type(), y = op.result()->type();
  const llvm::StringRef multiplied = multipliedAs(form);
  const bool bytes =
      (!isFloat(a.element()) && bitWidth(a.element()) == 8) || a.element() == Element::F8E4M3;
  if (a.element() != Element::F16 && a.element() != Element::BF16 && !bytes && multiplied.empty())
    return llvm::None;
  int64_t rows, channels;
  if (op.is(Op::MatMul)) {
    rows = y.dim(y.rank() - 2).upper();
    channels = a.dim(a.rank() - (op.boolAttr("trans_a") ? 2 : 1)).upper();
  } else {
    rows = y.upperElements() / std::max<int64_t>(1, y.dim(1).upper());
    channels = op.is(Op::Conv) ? b.dim(1).upper()
                               : b.dim(0).upper() / std::max<int64_t>(1, op.intAttr("groups", 1));
  }
  if (rows <= 1 || channels < 16)
    return llvm::None;
  return (multiplied.empty() ? name(a.element()) : multiplied).str() + " with " +
         std::to_string(channels) + (op.is(Op::MatMul) ? " elements along k" : " channels a group");
}

bool packsIn(const Contraction &c, int64_t tileN) {
  return !c.isConv || c.conv.groups == 1 || c.conv.filters % tileN == 0;
}

bool packsInRows(const Contraction &c) { return c.isPacked && !packsIn(c, 16); }

namespace {

/// Rows along K, of `pitch` elements where it is given.
Layout rowLayout(Type w, const Contraction &c, bool columnsFirst, Dim pitch) {
  const int rank = int(w.rank()), n = c.isConv ? 0 : rank - (c.transB ? 2 : 1),
            k = c.isConv ? 1 : rank - (c.transB ? 1 : 2);
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (int d = 0; d < rank; ++d)
    if (d != n && d != k)
      axes.push_back({d, 0, false, Dim(), 0});
  axes.insert(columnsFirst ? axes.begin() : axes.end(), {n, 0, false, Dim(), 0});
  axes.push_back({k, 0, false, pitch, 0});
  return Layout::get(w.context(), axes);
}

} // namespace

void packRows(const GroupForm &form, const Contraction &c, const RowPacking &rows,
              llvm::SmallVectorImpl<Packing> &out) {
  if (!c.isPacked)
    return;
  const Value *source = form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int64_t depth = c.depth() / (c.isConv ? c.conv.taps() : 1),
                pitch = int64_t(llvm::alignTo(uint64_t(depth), uint64_t(rows.multiple)));
  out.push_back(
      {source->index(),
       rowLayout(w, c, rows.columnsFirst, pitch == depth ? Dim() : w.context().dim(pitch)),
       rows.stored.str()});
}

void packPaddedRows(const ContractionProblem &p, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const auto pitch = int64_t(llvm::alignTo(uint64_t(p.c.depth()), 128 / bitWidth(p.c.b)));
  out.push_back(
      {source->index(), rowLayout(w, p.c, /*columnsFirst=*/false, w.context().dim(pitch))});
}

void packContractionTiles(const ContractionProblem &p, int64_t tileN,
                          llvm::SmallVectorImpl<Packing> &out) {
  const Contraction &c = p.c;
  if (!c.isPacked)
    return;
  const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int rank = int(w.rank()), n = c.isConv ? 0 : rank - (c.transB ? 2 : 1);
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({n, tileN, false, Dim(), 0});
  if (c.isConv) {
    for (int d = 2; d < rank; ++d)
      axes.push_back({d, 0, false, Dim(), 0});
    axes.push_back({1, 0, false, Dim(), 0});
  } else {
    for (int d = 0; d < rank; ++d)
      if (d != n)
        axes.push_back({d, 0, false, Dim(), 0});
  }
  axes.push_back({n, tileN, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

void packDepthwiseFilters(const GroupForm &form, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<int, 4> order;
  for (unsigned d = 2; d < w.rank(); ++d)
    order.push_back(int(d));
  order.append({1, 0});
  out.push_back({source->index(), Layout::permuted(w.context(), order)});
}

int64_t tileCount(const Contraction &c, const ContractionTiles &t) {
  return c.slices() * ceilDiv(c.rows(), t.tileM) * ceilDiv(c.columns(), t.tileN);
}

KeyValues SplitContraction::computed(const Problem &p, const SplitTiles &s) {
  return {{"least_shared", leastShared(p.in.level, tileCount(p.c, s) * s.splits)}};
}
int64_t SplitContraction::scratch(const Problem &p, const SplitTiles &s) {
  return split_partial_bytes(tileCount(p.c, s), s.splits, s.tileM, s.tileN);
}
int64_t SplitContraction::zeroed(const Problem &p, const SplitTiles &s) {
  return split_counter_bytes(tileCount(p.c, s), s.splits);
}

int64_t leastShared(const TargetLevel &level, int64_t blocks) {
  return blocks <= int64_t(level.multiprocessors) ? int64_t(level.sharedBytes) / 2 + 1024 : 0;
}

llvm::SmallVector<int64_t, 4> splitsFor(const Contraction &c, const TargetLevel &level,
                                        const ContractionTiles &t) {
  const int64_t tiles = tileCount(c, t), steps = ceilDiv(c.depth(), t.tileK);
  llvm::SmallVector<int64_t, 4> splits{1};
  for (int64_t s : {2, 4, 8, 16})
    if (tiles * s <= 2 * int64_t(level.multiprocessors) && steps >= 4 * s)
      splits.push_back(s);
  return splits;
}

Result<> isOfChannels(const ScalarProgram &body) {
  if (auto plain = isPlainBody(body); !plain)
    return plain;
  for (const Access &a : body.inputs) {
    const Strides s = stridesOf(a, unsigned(body.space.size()));
    for (unsigned d = 0; d < s.strides.size(); ++d)
      if (d != 1 && !body.space[d].isConstant(1) && !s.strides[d].isConstant(0))
        return Refusal{"something between them that depends on the position in the image", ""};
  }
  return Accepted{};
}

} // namespace tenon::cuda

// Implements what the tactics of contractions share.
#include "codegen/cuda/Contraction.h"
#include "codegen/core/Reasons.h"

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
bool readPrologue(const ScalarProgram &p, int kDim, Contraction &c, std::string &why) {
  unsigned whole = 0;
  for (unsigned i = 0; i < p.inputs.size(); ++i) {
    bool alongK = true;
    for (const AccessDim &d : p.inputs[i].dims)
      alongK &= d.dim == -1 || d.dim == kDim;
    if (p.inputs[i].bounded) {
      why = "a padded input";
      return false;
    }
    if (!alongK) {
      c.mainInput = i;
      ++whole;
    }
  }
  if (p.inputs.empty() || whole > 1 || p.usesIndex()) {
    why = "an input is computed from several tensors or none";
    return false;
  }
  c.hasPrologue = !p.isPlainRead();
  c.a = p.inputs[c.mainInput].source->type().element();
  return true;
}

bool readConv(const Operation &op, Contraction &c, std::string &why) {
  auto p = convProblem(op, why, 3);
  if (!p)
    return false;
  c.isConv = true;
  c.conv = *p;
  return true;
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

/// Whether kernels may apply the prologue to what they multiply: nothing is padded, and what it
/// reads beside A fits into shared memory beside the tiles.
bool mayBeOnFragments(const ScalarProgram &program, const Contraction &c) {
  constexpr int64_t kMostBytes = 16 * 1024;
  int64_t bytes = 0;
  for (unsigned i = 0; i < program.inputs.size(); ++i)
    if (i != c.mainInput)
      bytes += ((c.isConv ? c.conv.groups : 1) * c.depth() + 128) *
               int64_t(bitWidth(program.inputs[i].source->type().element())) / 8;
  return readsWithin(c) && bytes <= kMostBytes;
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
bool readMatMul(const GroupForm &form, Contraction &c, std::string &why) {
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
  if (batches.size() > 2) {
    why = "more than two batch dimensions";
    return false;
  }
  c.batch1Dim = batches.empty() ? 0 : batches[0];
  c.batch0Dim = batches.size() < 2 ? 0 : batches[1];
  c.batch1 = c.batch1Dim ? y.dim(y.rank() - c.batch1Dim) : one;
  c.batch0 = c.batch0Dim ? y.dim(y.rank() - c.batch0Dim) : one;
  return true;
}

} // namespace

bool readZeroPoint(const GroupForm &form, int64_t &xZero, std::string &why) {
  xZero = 0;
  const unsigned count = form.anchor->numOperands();
  if (count > 3) {
    why = "a zero point of the weights";
    return false;
  }
  if (count < 3)
    return true;
  Value *v = constantOperand(form, 2);
  Literal zero = v ? *v->def()->find("value")->get<Literal>() : nullptr;
  if (!zero || zero->size() != 1) {
    why = "a zero point that is known at run time, or several";
    return false;
  }
  xZero = zero->intAt(0);
  return true;
}

llvm::Optional<Contraction> readContraction(const TacticInput &in, std::string &why) {
  const GroupForm &f = in.form;
  Contraction c;
  if (!f.anchor || !f.anchor->isAny(Op::Conv, Op::MatMul)) {
    why = "no conv or matmul";
    return llvm::None;
  }
  const Operation &op = *f.anchor;
  if (!isWithoutScales(op, why) || !readZeroPoint(f, c.xZero, why))
    return llvm::None;
  const int kDim =
      op.is(Op::Conv) ? 1 : int(op.operand(0)->type().rank()) - (op.boolAttr("trans_a") ? 2 : 1);
  if (!readPrologue(f.anchorInputs[0], kDim, c, why) ||
      !(op.is(Op::Conv) ? readConv(op, c, why) : readMatMul(f, c, why)) ||
      !isPlainBody(f.body, why) || !fitsInt(f, why))
    return llvm::None;
  if (!f.anchorInputs[1].isPlainRead()) {
    why = "the second operand is computed in the group";
    return llvm::None;
  }
  c.onFragments = c.hasPrologue && mayBeOnFragments(f.anchorInputs[0], c);
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
  if (c.isConv && !c.isPacked) {
    why = "weights known only at run time";
    return llvm::None;
  }
  return c;
}

bool multipliesRows(const Contraction &c, std::string &why) {
  if (!c.isPacked || c.slices() != 1) {
    why = "not one product with constant weights";
    return false;
  }
  if (c.isConv && !(c.conv.isPointwise() && !c.conv.isVolume() && c.conv.outHeight.isConstant(1) &&
                    c.conv.outWidth.isConstant(1))) {
    why = "a convolution of more than one point";
    return false;
  }
  return true;
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

bool multipliesInF32(const TacticInput &in, const Contraction &c, std::string &why) {
  auto computesInF32 = [](Element e) { return computeElement(e) == Element::F32; };
  why = "operands that are not computed in f32";
  return computesInF32(in.form.anchor->operand(0)->type().element()) && computesInF32(c.b) &&
         loadsIntoF32(c);
}

bool isMachineOf(const MmaGeneration &g, const TargetLevel &level) {
  return level.sm >= g.firstSm && level.sm < g.endSm;
}

bool multipliesOn(const MmaGeneration &g, const TacticInput &in, const Contraction &c,
                  std::string &why) {
  if (!isMachineOf(g, in.level)) {
    why = "written for other machines than " + in.level.name.str();
    return false;
  }
  if (c.b == Element::BF16 && !g.bf16) {
    why = "the Tensor Cores of " + in.level.name.str() + " multiply fp16, not bf16";
    return false;
  }
  if (in.form.anchor->operand(0)->type().element() != c.b ||
      (c.b != Element::F16 && c.b != Element::BF16)) {
    why = g.bf16 ? "operands that are not both fp16 or both bf16" : "operands that are not fp16";
    return false;
  }
  if (!loadsIntoF32(c) || (c.a != c.b && !c.hasPrologue)) {
    why = "an operand that is stored as " + name(c.a).str();
    return false;
  }
  return true;
}

bool multipliesBytes(const TacticInput &in, const Contraction &c, std::string &why) {
  auto isByte = [](Element e) { return e == Element::I8 || e == Element::U8; };
  if (!isByte(in.form.anchor->operand(0)->type().element()) || !isByte(c.b))
    why = "operands that are not bytes";
  else if (c.b != Element::I8)
    why = "unsigned weights";
  else if (c.hasPrologue || !isByte(c.a))
    why = "bytes that are computed in the group";
  else if (!c.isPacked)
    why = "weights known only at run time";
  else
    return true;
  return false;
}

bool multipliesBytesOn(const MmaGeneration &g, const TacticInput &in, const Contraction &c,
                       std::string &why) {
  if (!isMachineOf(g, in.level)) {
    why = "written for other machines than " + in.level.name.str();
    return false;
  }
  return multipliesBytes(in, c, why);
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
  const bool bytes = !isFloat(a.element()) && bitWidth(a.element()) == 8;
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

void packContractionRows(const TacticInput &in, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  if (!c.isPacked)
    return;
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  if (c.isConv) {
    out.push_back({source->index(), Layout::channelsLast(w.context(), w.rank())});
    return;
  }
  const int rank = int(w.rank()), k = rank - (c.transB ? 1 : 2);
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (int d = 0; d < rank; ++d)
    if (d != k)
      axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({k, 0, false, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

void packContractionTiles(const TacticInput &in, int64_t tileN,
                          llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  if (!c.isPacked)
    return;
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
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

void packContraction(const TacticInput &in, const Schedule &s,
                     llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  if (packsInRows(*readContraction(in, why)))
    packContractionRows(in, out);
  else
    packContractionTiles(in, *s.get("tile_n"), out);
}

void packPaddedRows(const TacticInput &in, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int rank = int(w.rank()), n = c.isConv ? 0 : rank - (c.transB ? 2 : 1),
            k = c.isConv ? 1 : rank - (c.transB ? 1 : 2);
  const auto pitch = int64_t(llvm::alignTo(uint64_t(c.depth()), 128 / bitWidth(c.b)));
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (int d = 0; d < rank; ++d)
    if (d != n && d != k)
      axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({n, 0, false, Dim(), 0});
  axes.push_back({k, 0, false, w.context().dim(pitch), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

int64_t tileCount(const Contraction &c, const Schedule &s) {
  return c.slices() * int64_t(llvm::divideCeil(c.rows(), *s.get("tile_m"))) *
         int64_t(llvm::divideCeil(c.columns(), *s.get("tile_n")));
}
bool hasWgmma(const TargetLevel &level) { return level.sm == 90 && level.archSpecific; }
int64_t splitPartialBytes(const TacticInput &in, const Schedule &s) {
  std::string why;
  const int64_t splits = *s.get("splits");
  return splits == 1 ? 0
                     : tileCount(*readContraction(in, why), s) * splits * *s.get("tile_m") *
                           *s.get("tile_n") * 4;
}
int64_t splitCounterBytes(const TacticInput &in, const Schedule &s) {
  std::string why;
  return *s.get("splits") == 1 ? 0 : tileCount(*readContraction(in, why), s) * 4;
}

int64_t leastShared(const TargetLevel &level, int64_t blocks) {
  return blocks <= int64_t(level.multiprocessors) ? int64_t(level.sharedBytes) / 2 + 1024 : 0;
}

llvm::SmallVector<int64_t, 4> splitsFor(const Contraction &c, const TargetLevel &level,
                                        const ContractionTiles &t) {
  const int64_t tiles = c.slices() * int64_t(llvm::divideCeil(c.rows(), t.tileM)) *
                        int64_t(llvm::divideCeil(c.columns(), t.tileN));
  const int64_t steps = int64_t(llvm::divideCeil(c.depth(), t.tileK));
  llvm::SmallVector<int64_t, 4> splits{1};
  for (int64_t s : {2, 4, 8, 16})
    if (tiles * s <= 2 * int64_t(level.multiprocessors) && steps >= 4 * s)
      splits.push_back(s);
  return splits;
}

bool isOfChannels(const ScalarProgram &body, std::string &why) {
  if (!isPlainBody(body, why))
    return false;
  for (const Access &a : body.inputs) {
    const Strides s = stridesOf(a, unsigned(body.space.size()));
    for (unsigned d = 0; d < s.strides.size(); ++d)
      if (d != 1 && !body.space[d].isConstant(1) && !s.strides[d].isConstant(0)) {
        why = "something between them that depends on the position in the image";
        return false;
      }
  }
  return true;
}

} // namespace tenon::cuda

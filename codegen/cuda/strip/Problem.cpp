// Implements the reading of groups for strip.
#include "codegen/cuda/strip/Problem.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kMostRows = 16, kBlock = 32;

Strides matrix(const Strides &s, unsigned rows, unsigned columns) {
  Strides r;
  r.offset = s.offset;
  r.strides = {strideFromLast(s, rows), strideFromLast(s, columns)};
  return r;
}

Refusal tooManyRows() { return {"more than " + std::to_string(kMostRows) + " rows", ""}; }

Result<StripProduct> readHalves(const GroupQuery &in) {
  auto c = readContraction(in);
  if (!c)
    return std::move(c).refusal();
  auto fits = multipliesRows(*c).andThen([&] { return multipliesOn(kMmaSm80, in, *c); });
  if (!fits)
    return std::move(fits).refusal();
  StripProduct p;
  p.count = rowsOf(*c);
  if (p.count.upper() > kMostRows || p.count.upper() < 1)
    return tooManyRows();
  p.multiplied = p.weights = c->b;
  p.rows = p.count.upper(), p.n = c->columns(), p.k = c->depth();
  p.contraction = *std::move(c);
  return p;
}

/// The dimension that rows step along, counted from the last: the only one before it that is not 1.
llvm::Optional<unsigned> rowDimOf(Type y) {
  llvm::Optional<unsigned> found;
  for (unsigned d = 0; d + 1 < y.rank(); ++d)
    if (!y.dim(d).isConstant(1)) {
      if (found)
        return llvm::None;
      found = y.rank() - d;
    }
  return found ? found : llvm::Optional<unsigned>(2);
}

Result<StripProduct> readIntegers(const GroupQuery &in) {
  if (auto product = matchNarrowProduct(in); !product)
    return std::move(product).refusal();
  const Operation &op = *in.form.anchor;
  const Type y = op.result()->type(), x = op.operand(0)->type(), w = op.operand(1)->type();
  StripProduct p;
  p.multiplied = x.element(), p.weights = w.element();
  p.n = w.dim(0).constant(), p.k = w.dim(1).constant(), p.block = op.intAttr("block");
  if (op.numOperands() > 3)
    return Refusal{"weights with zero points", ""};
  if (p.multiplied != Element::F16 && p.multiplied != Element::BF16)
    return Refusal{"rows that are not fp16 or bf16", ""};
  const bool isByte = p.weights == Element::I8 || p.weights == Element::F8E4M3;
  if (p.weights != Element::I4 && !(isByte && p.multiplied == Element::F16))
    return Refusal{"weights that are not of 4 bits (fp16: or 8) around 0", ""};
  p.scale = op.operand(2)->type().element();
  if (!p.scalesOutputs()) {
    if (p.block % kBlock != 0 || p.block / kBlock > 8 ||
        !llvm::isPowerOf2_64(uint64_t(p.block / kBlock)))
      return Refusal{"scales for other blocks than 32, 64, 128 or 256 elements, or (8 bits) all",
                     ""};
    if (p.scale != p.multiplied)
      return Refusal{"scales of blocks that are not of the rows' type", ""};
  }
  const auto row = rowDimOf(y);
  if (!row || op.boolAttr("trans_a"))
    return Refusal{"rows that step along several dimensions", ""};
  p.rowDim = *row;
  p.count = y.rank() < *row ? y.context().dim(1) : y.dim(y.rank() - *row);
  p.rows = p.count.upper();
  if (p.rows < 1 || p.rows > kMostRows)
    return tooManyRows();
  if (in.form.anchorInputs[0].usesIndex())
    return Refusal{"an operand computed from its index", ""};
  auto body = isUnbounded(in.form.anchorInputs[0])
                  .andThen([&] { return isPlainBody(in.form.body); })
                  .andThen([&] { return fitsInt(in.form); });
  if (!body)
    return std::move(body).refusal();
  return p;
}

/// Rows that the kernel can normalise: the operand's last dimension, all of it.
Result<> isRowNorm(const GroupForm &norm, const StripProduct &p) {
  const Operation &op = *norm.anchor;
  const Type x = op.operand(0)->type();
  const auto axes = op.intsAttr("axes");
  if (!op.is(Op::Normalize) || axes.size() != 1 || axes[0] != int64_t(x.rank()) - 1 ||
      op.result()->type().element() != Element::F32)
    return Refusal{"no normalisation of rows in fp32", ""};
  const ScalarProgram &made = p.form->anchorInputs[0];
  if (!made.isPlainRead() || made.inputs[0].source->argumentOf() ||
      made.nodes[made.outputs[0]].element != p.multiplied ||
      p.form->anchor->operand(0)->type().shape() != x.shape() ||
      p.form->anchor->boolAttr("trans_a") || !p.form->anchor->is(Op::MatMul))
    return Refusal{"a product of something else than the normalised rows", ""};
  return isUnbounded(norm.anchorInputs[0])
      .andThen([&] { return isPlainBody(norm.body); })
      .andThen([&] { return fitsInt(norm); });
}

} // namespace

Strides StripProduct::ofX(const Strides &s) const {
  return contraction ? rowStrides(*contraction, s, contraction->transA) : matrix(s, rowDim, 1);
}
Strides StripProduct::ofY(const Strides &s) const {
  return contraction ? rowStrides(*contraction, s) : matrix(s, rowDim, 1);
}

void StripProduct::pack(llvm::SmallVectorImpl<Packing> &out) const {
  const Value *source = form->anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  if (!contraction) {
    out.push_back({source->index(), Layout(), kStrips.str()});
    if (!scalesOutputs())
      out.push_back({form->anchorInputs[2].inputs[0].source->index(), Layout(),
                     StripScales{bits(), block / kBlock}.word()});
    return;
  }
  // Outputs first.
  const int rank = int(w.rank());
  const int first =
      contraction->isConv || contraction->transB ? contraction->isConv ? 0 : rank - 2 : rank - 1;
  llvm::SmallVector<LayoutAxis, 6> axes{{first, 0, false, Dim(), 0}};
  for (int d = 0; d < rank; ++d)
    if (d != first)
      axes.push_back({d, 0, false, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes), kStrips.str()});
}

Result<StripProduct> readStripProduct(const GroupQuery &in, const GroupForm &form) {
  if (auto machine = isFor(kMmaSm80, in.level); !machine)
    return std::move(machine).refusal();
  if (!form.anchor || !form.anchor->isAny(Op::Conv, Op::MatMul))
    return Refusal{"no conv or matmul", ""};
  const GroupQuery query{form, in.level, in.alignment};
  auto product = form.anchor->has("block") ? readIntegers(query) : readHalves(query);
  if (product) {
    product->form = &form;
    if (product->n < 1 || product->k < 1)
      return Refusal{"an empty product", ""};
  }
  return product;
}

Result<StripProblem> readStrip(const GroupQuery &in) {
  const GroupForm &form = in.form;
  auto product = readStripProduct(in, form);
  if (!product)
    return std::move(product).refusal();
  StripProblem p{in, *std::move(product), {}, nullptr};
  for (const GroupForm &other : form.beside) {
    auto beside = readStripProduct(in, other);
    if (!beside)
      return std::move(beside).refusal();
    if (beside->weights != p.product.weights || beside->block != p.product.block ||
        beside->scale != p.product.scale || beside->count != p.product.count ||
        beside->n != p.product.n || beside->k != p.product.k ||
        beside->multiplied != p.product.multiplied ||
        form.anchor->operand(0) != other.anchor->operand(0))
      return Refusal{"two products of different kinds", ""};
    if (auto read = readsBeside(form, other); !read)
      return std::move(read).refusal();
    p.beside.push_back(*std::move(beside));
  }
  if (p.beside.size() > 1 || form.before.size() > 1)
    return Refusal{"more than two products, or more than a norm before them", ""};
  if (!form.before.empty()) {
    p.norm = &form.before[0];
    if (!p.norm->anchor)
      return Refusal{"no norm before the product", ""};
    if (auto norm = isRowNorm(*p.norm, p.product); !norm)
      return std::move(norm).refusal();
  } else if (form.isChain() && !form.anchorInputs[0].isPlainRead()) {
    return Refusal{"two products of something that is computed", ""};
  }
  return p;
}

} // namespace tenon::cuda

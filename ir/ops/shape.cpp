// Ops about extents, and ops whose result extents depend on data.
//
//   shape_of (x)            the extents of x as i64[rank], on the host
//   nonzero (x) {symbol}    indices of the elements other than 0, i64[rank, S] in row-major order.
//                           S is a symbol born here, bounded by the number of elements; buffers
//                           have room for the bound and the actual S is known after the run
//   topk (x) {k, axis, largest, sorted}  the k largest (or smallest) elements along axis and their
//                           indices (i64); equal elements keep the lower index first, NaN counts as
//                           largest. Results are always ordered, `sorted` only says it is needed
//   non_max_suppression (boxes, scores) {k, iou_threshold, score_threshold, center}  for each batch
//                           entry and class the indices (i64) of at most k boxes, best score first,
//                           ties by index, then -1: a box is taken when its score exceeds
//                           score_threshold and its intersection over union with every box taken
//                           before is at most iou_threshold. Boxes are two opposite corners, or
//                           center and size. Computed in f32
//   unique (x) {sorted}     of the rows of [m, n], what is equal forms a class: i64 [3, m] with, by
//                           row, the class of each row of x, the first row of each class, and the
//                           number of its rows; −1 and 0 behind the last class. Classes are
//                           ordered by value, element by element, or by their first rows. NaN is
//                           equal to NaN and larger than any number
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferShapeOf(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  Context &c = t.context();
  results.push_back(
      Type::tensor(c, Element::I64, {c.dim(int64_t(t.rank()))}, Layout(), Space::Host));
  return true;
}

bool inferNonZero(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  if (t.rank() == 0)
    return fail(error, "x: expected rank 1 or more, found 0");
  if (!isFloat(t.element()) && !isInteger(t.element()) && !isBool(t.element()))
    return fail(error, "x: expected numbers or booleans, found " + toString(t));
  llvm::StringRef symbol = op.stringAttr("symbol");
  if (symbol.empty())
    return fail(error, "attribute symbol: expected a name");
  Context &c = t.context();
  Dim found = c.symbol(symbol);
  if (t.upperElements() < found.upper())
    found = c.symbol(symbol, 0, t.upperElements());
  results.push_back(Type::tensor(c, Element::I64, {c.dim(int64_t(t.rank())), found}));
  return true;
}

bool inferTopK(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  if (!isFloat(t.element()) && !isInteger(t.element()))
    return fail(error, "x: expected a numeric tensor, found " + toString(t));
  const int64_t axis = op.intAttr("axis");
  if (!checkAxis(axis, t.rank(), "axis", error))
    return false;
  const Dims &k = op.dimsAttr("k");
  if (k.size() != 1)
    return fail(error, "attribute k: expected one extent, found " + llvm::Twine(k.size()));
  Dim extent = t.dim(unsigned(axis));
  if (k[0].upper() < 0 || k[0].lower() > extent.upper())
    return fail(error, "attribute k: expected 0 to " + text(extent) + ", found " + text(k[0]));
  llvm::SmallVector<Dim, 6> shape(t.shape().begin(), t.shape().end());
  shape[size_t(axis)] = k[0];
  results.push_back(Type::tensor(t.context(), t.element(), shape));
  results.push_back(Type::tensor(t.context(), Element::I64, shape));
  return true;
}

bool inferNonMaxSuppression(const Operation &op, llvm::SmallVectorImpl<Type> &results,
                            std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, 3, error) || !checkTensor(op, 1, 3, error))
    return false;
  Type boxes = op.operand(0)->type(), scores = op.operand(1)->type();
  if (boxes.element() != Element::F32 || scores.element() != Element::F32)
    return fail(error, "expected f32 boxes and scores, found " + toString(boxes) + " and " +
                           toString(scores));
  if (!boxes.dim(2).isConstant(4) || boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(2))
    return fail(error, "expected boxes [batch, n, 4] and scores [batch, classes, n], found " +
                           toString(boxes) + " and " + toString(scores));
  const Dims &k = op.dimsAttr("k");
  if (k.size() != 1 || k[0].lower() < 0 || k[0].lower() > boxes.dim(1).upper())
    return fail(error, "attribute k: expected one extent up to " + text(boxes.dim(1)));
  results.push_back(
      Type::tensor(boxes.context(), Element::I64, {scores.dim(0), scores.dim(1), k[0]}));
  return true;
}

bool inferUnique(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, 2, error))
    return false;
  Type t = op.operand(0)->type();
  if (!isFloat(t.element()) && !isInteger(t.element()) && !isBool(t.element()) &&
      t.element() != Element::String)
    return fail(error, "x: expected numbers, booleans or text, found " + toString(t));
  results.push_back(Type::tensor(t.context(), Element::I64, {t.context().dim(3), t.dim(0)}));
  return true;
}

const llvm::StringRef kX[] = {"x"};
const llvm::StringRef kBoxes[] = {"boxes", "scores"};
const AttrInfo kNonZero[] = {
    {"symbol", AttrKind::String, true, "name of the number of elements found"}};
const AttrInfo kTopK[] = {
    {"k", AttrKind::Dims, true, "number of elements taken (one extent)"},
    {"axis", AttrKind::Int, true, "dimension that is searched"},
    {"largest", AttrKind::Bool, false, "largest or smallest first (default true)"},
    {"sorted", AttrKind::Bool, false, "the order of results matters (default true)"},
};
const AttrInfo kUnique[] = {
    {"sorted", AttrKind::Bool, false,
     "classes in order of value, not of appearance (default true)"},
};
const AttrInfo kNonMaxSuppression[] = {
    {"k", AttrKind::Dims, true, "most boxes taken of each class (one extent)"},
    {"iou_threshold", AttrKind::Float, true, "largest overlap with a better box"},
    {"score_threshold", AttrKind::Float, false, "scores have to exceed it (default: any does)"},
    {"center", AttrKind::Bool, false, "boxes are center and size, not corners (default false)"},
};

} // namespace

llvm::ArrayRef<OpRow> shapeOps() {
  static const OpRow kRows[] = {
      {Op::ShapeOf,
       {"shape_of", "The extents of a tensor.", kX, kNoAttributes, 1, 0, OpTrait::None,
        inferShapeOf, nullptr, evaluateShapeOf}},
      {Op::NonZero,
       {"nonzero", "Indices of the elements other than zero.", kX, kNonZero, 1, 0, OpTrait::None,
        inferNonZero, nullptr, evaluateNonZero}},
      {Op::TopK,
       {"topk", "The largest elements along one dimension, with indices.", kX, kTopK, 2, 0,
        OpTrait::None, inferTopK, nullptr, evaluateTopK}},
      {Op::NonMaxSuppression,
       {"non_max_suppression", "The best boxes that overlap little, by class.", kBoxes,
        kNonMaxSuppression, 1, 0, OpTrait::None, inferNonMaxSuppression, nullptr,
        evaluateNonMaxSuppression}},
      {Op::Unique,
       {"unique", "Classes of equal rows.", kX, kUnique, 1, 0, OpTrait::None, inferUnique, nullptr,
        evaluateUnique}},
  };
  return kRows;
}

} // namespace tenon

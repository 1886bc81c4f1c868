// Imports contractions: convolutions, matrix products and Einsum. A bias is a map behind them.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Window.h"

#include "llvm/ADT/StringExtras.h"

namespace tenon::frontend {

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

Value *addAlong(Builder &b, Value *v, Value *bias, int64_t axis) {
  if (!v || !bias)
    return v;
  return pointwise(b, {v, bias}, {identityMap(v->type().rank()), along(axis)}, v->type().shape(),
                   [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Add, a[0], a[1]); });
}

bool checkBias(Node &n, unsigned i, Dim channels) {
  if (!n.has(i) || (n.rank(i) == 1 && n.type(i).dim(0) == channels))
    return true;
  n.error("operand " + n.inputName(i) + ": expected one bias per output channel [" +
          text({channels}, ", ") + "], found " + toString(n.type(i)));
  return false;
}

Value *convolve(Node &n, llvm::ArrayRef<Value *> operands, unsigned weight) {
  if (!n.checkRank(0, 3, 10) || !n.checkRank(weight, n.rank(0), n.rank(0)))
    return nullptr;
  auto kernel = readKernel(n, weight);
  if (!kernel)
    return nullptr;
  auto w = readWindow(n, 0, *kernel);
  if (!w)
    return nullptr;
  llvm::SmallVector<Value *, 4> all(operands.begin(), operands.end());
  if (w->isOpen() && weight != 1) { // padding is the zero point's
    n.error("auto_pad of a convolution with zero points needs pads that do not depend on an "
            "extent, found " +
            toString(n.type(0)) + "; keep the extent a multiple of the stride with --bind H=h*" +
            std::to_string(w->strides[0]));
    return nullptr;
  }
  all[0] = withOpenPads(n.b, all[0], *w, 0);
  return n.b.value(Op::Conv, all,
                   {{"strides", w->strides},
                    {"dilations", w->dilations},
                    {"pads", w->pads},
                    {"groups", n.intAttr("group", 1)}});
}

void importConv(Node &n) {
  Value *y = convolve(n, {n.input(0), n.input(1)}, 1);
  if (y && checkBias(n, 2, y->type().dim(1)))
    n.set(0, addAlong(n.b, y, n.input(2), 1));
}

void importConvTranspose(Node &n) {
  if (!n.checkRank(0, 3, 10) || !n.checkRank(1, n.rank(0), n.rank(0)))
    return;
  const size_t spatial = n.rank(0) - 2;
  auto kernel = readKernel(n, 1);
  auto strides = readSpatial(n, "strides", spatial, 1, 1);
  auto dilations = readSpatial(n, "dilations", spatial, 1, 1);
  auto pads = readSpatial(n, "pads", 2 * spatial, INT32_MIN, 0);
  auto extra = readSpatial(n, "output_padding", spatial, 0, 0);
  if (!kernel || !strides || !dilations || !pads || !extra)
    return;
  const std::string rule = n.stringAttr("auto_pad", "NOTSET");
  const bool same = rule == "SAME_UPPER" || rule == "SAME_LOWER";
  if (!same && rule != "NOTSET" && rule != "VALID" && !rule.empty()) {
    n.error("attribute auto_pad: found '" + rule + "'");
    return;
  }
  if (rule == "VALID")
    pads->assign(2 * spatial, 0);
  if (n.hasAttr("output_shape") || same) {
    // The pads are what makes the result have the wanted extents.
    Ints shape = n.intsAttr("output_shape");
    if (shape.size() == spatial + 2)
      shape.erase(shape.begin(), shape.begin() + 2);
    if (n.hasAttr("output_shape") && shape.size() != spatial) {
      n.error("attribute output_shape: expected " + std::to_string(spatial) + " extents, found " +
              std::to_string(shape.size()));
      return;
    }
    for (size_t i = 0; i < spatial; ++i) {
      const Dim in = n.type(0).dim(unsigned(i) + 2);
      const int64_t span = ((*kernel)[i] - 1) * (*dilations)[i] + 1, stride = (*strides)[i];
      const Dim wanted = n.hasAttr("output_shape") ? n.dim(shape[i]) : in * stride;
      if (wanted.lower() < 0 || wanted.upper() > INT32_MAX || in.upper() > INT32_MAX) {
        n.error("attribute output_shape: expected extents of 0 to 2^31 - 1, found " +
                text({wanted}, ""));
        return;
      }
      const Dim all = (in - 1) * stride + (*extra)[i] + span - wanted;
      if (!all.isConstant()) {
        n.error("attribute output_shape: the padding that makes extent " + text({in}, "") + " " +
                std::to_string(shape[i]) +
                " is known only at run time: give the symbol a value "
                "with --bind");
        return;
      }
      int64_t total = all.constant();
      if (total < 0) { // a larger result: zeros at the end
        (*extra)[i] -= total;
        total = 0;
      }
      const int64_t small = total / 2, large = total - small;
      (*pads)[i] = rule == "SAME_UPPER" ? small : large;
      (*pads)[i + spatial] = rule == "SAME_UPPER" ? large : small;
    }
  }
  // Negative pads lengthen the result by zeros, which only the end can do without a pad op.
  Ints before(spatial, 0);
  bool grows = false;
  for (size_t i = 0; i < 2 * spatial; ++i)
    if ((*pads)[i] < 0) {
      if (i >= spatial)
        (*extra)[i - spatial] -= (*pads)[i];
      else
        before[i] = -(*pads)[i], grows = true;
      (*pads)[i] = 0;
    }
  Value *y = n.b.value(Op::ConvTranspose, {n.input(0), n.input(1)},
                       {{"strides", *strides},
                        {"dilations", *dilations},
                        {"pads", *pads},
                        {"output_padding", *extra},
                        {"groups", n.intAttr("group", 1)}});
  if (y && grows) {
    Dims low(2, n.dim(0)), high(spatial + 2, n.dim(0));
    for (int64_t p : before)
      low.push_back(n.dim(p));
    y = n.b.value(Op::Pad, {y}, {{"low", low}, {"high", high}, {"mode", Word{"constant"}}});
  }
  if (y && checkBias(n, 2, y->type().dim(1)))
    n.set(0, addAlong(n.b, y, n.input(2), 1));
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

Value *matmul(Builder &b, Value *x, Value *y, llvm::ArrayRef<Value *> zeros,
              NamedAttributes attributes) {
  if (!x || !y)
    return nullptr;
  // NumPy: a vector is a row on the left and a column on the right, and its dimension goes again.
  Context &c = b.context();
  const bool row = x->type().rank() == 1, column = y->type().rank() == 1;
  if (x->type().rank() == 0 || y->type().rank() == 0) {
    b.diagnostics().error(
        "a matrix product expects operands of rank 1 or more; reshape what has rank 0: found " +
        toString(x->type()) + " and " + toString(y->type()));
    return nullptr;
  }
  if (row)
    x = b.reshape(x, {c.dim(1), x->type().dim(0)});
  if (column)
    y = b.reshape(y, {y->type().dim(0), c.dim(1)});
  llvm::SmallVector<Value *, 4> operands{x, y};
  operands.append(zeros.begin(), zeros.end());
  Value *z = b.value(Op::MatMul, operands, std::move(attributes));
  if (!z || (!row && !column))
    return z;
  Shape shape(z->type().shape().begin(), z->type().shape().end());
  if (column)
    shape.pop_back();
  if (row)
    shape.erase(shape.end() - (column ? 1 : 2));
  return b.reshape(z, shape);
}

void importMatMul(Node &n) { n.set(0, matmul(n.b, n.input(0), n.input(1), {}, {})); }

void importGemm(Node &n) {
  if (!n.checkRank(0, 2, 2) || !n.checkRank(1, 2, 2))
    return;
  Value *y = n.b.value(
      Op::MatMul, {n.input(0), n.input(1)},
      {{"trans_a", n.boolAttr("transA", false)}, {"trans_b", n.boolAttr("transB", false)}});
  const double alpha = n.floatAttr("alpha", 1), beta = n.floatAttr("beta", 1);
  Value *c = beta == 0 ? nullptr : n.input(2);
  if (!y || (alpha == 1 && !c)) {
    n.set(0, y);
    return;
  }
  llvm::SmallVector<Value *, 2> operands{y};
  std::vector<IndexMap> maps{identityMap(2)};
  if (c) {
    Shape broadcast;
    if (c->type().rank() > 2 ||
        !broadcastShapes({y->type().shape(), c->type().shape()}, broadcast) ||
        llvm::ArrayRef<Dim>(broadcast) != y->type().shape()) {
      n.error("operand " + n.inputName(2) + ": expected a shape that broadcasts to " +
              toString(y->type()) + ", found " + toString(c->type()));
      return;
    }
    operands.push_back(c);
    maps.push_back(broadcastMap(c->type(), y->type().shape()));
  }
  n.set(0, pointwise(n.b, operands, maps, y->type().shape(),
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *v = alpha == 1 ? a[0] : s(Op::Mul, a[0], s.c(alpha));
                       if (a.size() == 1)
                         return v;
                       return s(Op::Add, v, beta == 1 ? a[1] : s(Op::Mul, a[1], s.c(beta)));
                     }));
}

void importFusedMatMul(Node &n) { // com.microsoft
  // The first dimension may stand before those of the batch.
  auto operand = [&](unsigned i, const char *batchLast) -> Value * {
    const int64_t rank = n.rank(i);
    if (rank < 3 || !n.boolAttr(batchLast, false))
      return n.input(i);
    Ints perm = allAxes(1, rank);
    perm.insert(perm.end() - 1, 0);
    return n.b.transpose(n.input(i), perm);
  };
  // Transposition means nothing for vectors.
  Value *y = matmul(n.b, operand(0, "transBatchA"), operand(1, "transBatchB"), {},
                    {{"trans_a", n.rank(0) > 1 && n.boolAttr("transA", false)},
                     {"trans_b", n.rank(1) > 1 && n.boolAttr("transB", false)}});
  const double alpha = n.floatAttr("alpha", 1);
  if (y && alpha != 1)
    y = pointwise(n.b, {y}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Mul, a[0], s.c(alpha));
    });
  n.set(0, y);
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

namespace {

/// Labels of one term; an ellipsis becomes the labels '0', '1', … counted from its right end.
bool expandTerm(Node &n, llvm::StringRef term, int64_t rank, int64_t &ellipsis, std::string &out) {
  llvm::StringRef rest = term.drop_while(llvm::isAlpha);
  rest.consume_front("...");
  if (!llvm::all_of(rest, llvm::isAlpha)) {
    n.error("attribute equation: expected letters and at most one ellipsis in a term, found '" +
            term.str() + "'");
    return false;
  }
  const size_t dots = term.find("...");
  const int64_t letters = int64_t(term.size()) - (dots == llvm::StringRef::npos ? 0 : 3);
  if (dots != llvm::StringRef::npos) {
    const int64_t covered = rank < 0 ? ellipsis : rank - letters;
    if (covered < 0 || covered > 10) {
      n.error("attribute equation: term '" + term.str() + "' does not fit rank " +
              std::to_string(rank) + ": expected a letter for each dimension");
      return false;
    }
    ellipsis = std::max(ellipsis, covered);
    std::string labels;
    for (int64_t i = covered; i-- > 0;)
      labels += char('0' + i);
    out = term.take_front(dots).str() + labels + term.drop_front(dots + 3).str();
  } else {
    out = term.str();
    if (rank >= 0 && letters != rank) {
      n.error("attribute equation: term '" + term.str() + "' does not fit rank " +
              std::to_string(rank) + ": expected a letter for each dimension");
      return false;
    }
  }
  return true;
}

/// The elements of `x` with equal indices at dimensions i and j, as dimension i.
Value *diagonal(Builder &b, Value *x, size_t i, size_t j) {
  Type t = x->type();
  if (!t.hasStaticShape() || t.dim(unsigned(i)) != t.dim(unsigned(j)))
    return nullptr;
  llvm::SmallVector<int64_t, 6> strides(t.rank(), 1);
  for (size_t d = t.rank(); d-- > 1;)
    strides[d - 1] = strides[d] * t.dim(unsigned(d)).constant();
  Shape space;
  llvm::SmallVector<int64_t, 6> weights;
  for (size_t d = 0; d < t.rank(); ++d)
    if (d != j) {
      space.push_back(t.dim(unsigned(d)));
      weights.push_back(strides[d] + (d == i ? strides[j] : 0));
    }
  Value *linear = generate(b, Element::I64, space, [&](Scalars &s, llvm::ArrayRef<Value *>) {
    Value *at = s.c(0);
    for (unsigned d = 0; d < weights.size(); ++d)
      at = s(Op::Add, at, s(Op::Mul, s.index(d), s.b.scalarInt(Element::I64, weights[d])));
    return at;
  });
  return gatherLinear(b, x, linear);
}

/// An Einsum: the labels of its operands' dimensions, and the space that they span.
class Einsum {
public:
  explicit Einsum(Node &n) : n_(n), equation_(n.stringAttr("equation", "")) {
    llvm::erase_value(equation_, ' ');
  }

  void import() {
    if (readOperands() && readResult() && readExtents())
      n_.set(0, isProduct() ? product() : sumOfProducts());
  }

private:
  /// The operands with each label once: one that is written twice takes the diagonal.
  bool readOperands() {
    llvm::SmallVector<llvm::StringRef, 4> terms;
    llvm::StringRef(equation_).split("->").first.split(terms, ',');
    if (terms.size() != n_.numInputs())
      return fail("attribute equation: expected " + std::to_string(n_.numInputs()) +
                  " terms, found '" + equation_ + "'");
    labels_.resize(terms.size());
    for (size_t i = 0; i < terms.size(); ++i) {
      if (!n_.has(unsigned(i)))
        return fail("operand " + std::to_string(i) +
                    " is missing: expected it in this operator; write it");
      std::string &labels = labels_[i];
      if (!expandTerm(n_, terms[i], n_.rank(unsigned(i)), ellipsis_, labels))
        return false;
      written_ += labels;
      Value *v = n_.input(unsigned(i));
      for (size_t a = 0; a < labels.size(); ++a)
        for (size_t c = labels.find(labels[a], a + 1); c != std::string::npos;
             c = labels.find(labels[a], a + 1)) {
          v = diagonal(n_.b, v, a, c);
          if (!v)
            return fail("a repeated label needs equal, known extents, found " +
                        toString(n_.type(unsigned(i))));
          labels.erase(c, 1);
        }
      operands_.push_back(v);
    }
    return true;
  }

  /// The labels of the result, and with those that are summed the space.
  bool readResult() {
    const llvm::StringRef equation(equation_);
    if (equation.contains("->")) {
      if (!expandTerm(n_, equation.split("->").second, -1, ellipsis_, result_))
        return false;
    } else { // the ellipsis, then every label that is written once, sorted
      for (int64_t i = ellipsis_; i-- > 0;)
        result_ += char('0' + i);
      llvm::sort(written_);
      for (char c : written_)
        if (llvm::isAlpha(c) && llvm::count(written_, c) == 1)
          result_ += c;
    }
    space_ = result_;
    for (const std::string &labels : labels_)
      for (char c : labels)
        if (!has(space_, c))
          space_ += c;
    return true;
  }

  bool readExtents() {
    extents_.resize(space_.size());
    for (size_t i = 0; i < labels_.size(); ++i)
      for (size_t d = 0; d < labels_[i].size(); ++d) {
        Dim &extent = extents_[space_.find(labels_[i][d])];
        const Dim found = operands_[i]->type().dim(unsigned(d));
        if (!extent || extent.isConstant(1))
          extent = found;
        else if (extent != found && !found.isConstant(1))
          return fail(std::string("attribute equation: label '") + labels_[i][d] +
                      "' has extents " + text({extent, found}, " and "));
      }
    for (size_t d = 0; d < space_.size(); ++d)
      if (!extents_[d] || llvm::count(result_, space_[d]) > 1)
        return fail("attribute equation: the result of '" + equation_ +
                    "' names a label that no operand has, or one twice");
    return true;
  }

  /// Two operands whose every label is in the result or in both are a matrix product.
  bool isProduct() const {
    const Element e = n_.element(0); // narrower integers have products of other types
    if (operands_.size() != 2 || (!isFloat(e) && bitWidth(e) < 32))
      return false;
    for (size_t i = 0; i < 2; ++i)
      for (size_t d = 0; d < labels_[i].size(); ++d) {
        const char c = labels_[i][d];
        if (operands_[i]->type().dim(unsigned(d)) != extent(c) ||
            (!has(result_, c) && !has(labels_[1 - i], c)))
          return false;
      }
    return true;
  }

  /// Labels in both operands and in the result are batch dimensions.
  Value *product() {
    std::string batch, rows, summed, columns;
    for (char c : labels_[0])
      (has(labels_[1], c) ? (has(result_, c) ? batch : summed) : rows) += c;
    for (char c : labels_[1])
      if (!has(labels_[0], c))
        columns += c;
    Value *y =
        n_.b.value(Op::MatMul, {matrix(0, batch, rows, summed), matrix(1, batch, summed, columns)});
    if (!y)
      return nullptr;
    const std::string order = batch + rows + columns;
    Shape shape;
    Ints perm;
    for (char c : order)
      shape.push_back(extent(c));
    for (char c : result_)
      perm.push_back(int64_t(order.find(c)));
    return n_.b.transpose(n_.b.reshape(y, shape), perm);
  }

  /// Operand `i` as [batch…, rows, columns], several labels in one dimension.
  Value *matrix(size_t i, const std::string &batch, const std::string &rows,
                const std::string &columns) {
    Ints perm;
    Shape shape;
    for (char c : batch + rows + columns)
      perm.push_back(int64_t(labels_[i].find(c)));
    for (char c : batch)
      shape.push_back(extent(c));
    for (const std::string *part : {&rows, &columns}) {
      Dim size = n_.dim(1);
      for (char c : *part)
        size = size * extent(c);
      shape.push_back(size);
    }
    Value *v = n_.b.transpose(operands_[i], perm);
    return v ? n_.b.reshape(v, shape) : nullptr;
  }

  /// Products over the whole space, and the sum along what is not in the result.
  Value *sumOfProducts() {
    std::vector<IndexMap> maps;
    for (size_t i = 0; i < operands_.size(); ++i) {
      IndexMap map;
      for (size_t d = 0; d < labels_[i].size(); ++d)
        map.push_back(operands_[i]->type().dim(unsigned(d)) == extent(labels_[i][d])
                          ? int64_t(space_.find(labels_[i][d]))
                          : -1);
      maps.push_back(map);
    }
    Value *product =
        pointwise(n_.b, operands_, maps, extents_, [](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *v = a[0];
          for (Value *x : a.drop_front())
            v = s(Op::Mul, v, x);
          return v;
        });
    const Ints summed = allAxes(int64_t(result_.size()), int64_t(space_.size()));
    return summed.empty() ? product : sum(n_.b, product, summed);
  }

  static bool has(const std::string &labels, char c) { return labels.find(c) != std::string::npos; }
  Dim extent(char c) const { return extents_[space_.find(c)]; }
  bool fail(const std::string &message) {
    n_.error(message);
    return false;
  }

  Node &n_;
  std::string equation_;
  int64_t ellipsis_ = 0;            // dimensions that it stands for
  std::vector<std::string> labels_; // of each operand
  std::string written_;             // labels as often as operands write them
  std::string result_;
  std::string space_; // the result's labels, then the summed ones as they appear
  Shape extents_;     // of the space
  llvm::SmallVector<Value *, 4> operands_;
};

} // namespace

void importEinsum(Node &n) { Einsum(n).import(); }

} // namespace tenon::frontend

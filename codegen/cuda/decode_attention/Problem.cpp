// Implements the reading of groups for decode_attention.
#include "codegen/cuda/decode_attention/Problem.h"

#include "ir/Views.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kLargestHead = 256, kMostQueries = 16, kRun = 8;

/// Strides over `from` as those over `to`, of which each dimension of `from` is a run (or none,
/// where it has one element), an extent of the run one dimension.
llvm::Optional<Strides> split(const Strides &s, llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to) {
  Strides r;
  r.offset = s.offset;
  if (to.empty())
    return llvm::None;
  r.strides.assign(to.size(), to[0].node()->context->dim(0));
  size_t j = to.size();
  for (size_t i = from.size(); i-- > 0;) {
    if (from[i].isConstant(1))
      continue;
    if (!from[i].isConstant()) {
      while (j > 0 && to[j - 1].isConstant(1))
        --j;
      if (j == 0 || to[--j] != from[i])
        return llvm::None;
      r.strides[j] = s.strides[i];
      continue;
    }
    int64_t inner = 1;
    while (inner < from[i].constant()) {
      if (j == 0 || !to[--j].isConstant() || to[j].constant() < 1)
        return llvm::None;
      if (!to[j].isConstant(1))
        r.strides[j] = s.strides[i] * inner;
      inner *= to[j].constant();
    }
    if (inner != from[i].constant())
      return llvm::None;
  }
  while (j > 0)
    if (!to[--j].isConstant(1))
      return llvm::None;
  return r;
}

/// The shape of an attention's operand with so many rows and columns.
llvm::SmallVector<Dim, 6> shapeOf(Type operand, Dim rows, Dim columns) {
  llvm::SmallVector<Dim, 6> shape(operand.shape().begin(), operand.shape().end());
  shape[shape.size() - 2] = rows;
  shape[shape.size() - 1] = columns;
  return shape;
}

/// Whether a program can be computed over the dimensions of an attention's operand of that shape.
Result<> isColumns(const ScalarProgram &p, llvm::ArrayRef<Dim> shape, Element element) {
  if (p.usesIndex() || p.nodes[p.outputs[0]].element != element)
    return Refusal{"an operand computed from its index, or of other elements", ""};
  if (!p.space.back().isConstant() || p.space.back() != shape.back())
    return Refusal{"columns that are no piece of a row", ""};
  for (const Access &a : p.inputs) {
    if (!a.source->argumentOf() || a.bounded)
      return Refusal{"columns of something that is padded or joined", ""};
    if (!split(stridesOf(a, unsigned(p.space.size())), p.space, shape))
      return Refusal{"columns over dimensions that are not those of the heads", ""};
  }
  return Accepted{};
}

/// Whether a program reads one tensor's elements and perhaps widens them to f32.
bool isWidenedRead(const ScalarProgram &p) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1 || p.inputs[0].bounded)
    return false;
  const ScalarNode &n = p.nodes[p.outputs[0]];
  return n.kind == ScalarNode::Input || (n.op && n.op->is(Op::Cast) && n.element == Element::F32 &&
                                         p.nodes[n.operands[0]].kind == ScalarNode::Input &&
                                         bitWidth(p.nodes[n.operands[0]].element) == 16);
}

/// Reads what the norm of `columns` normalises, wherever `columns.program` reads its result.
Result<> readNormed(const GroupForm &form, ComputedColumns &columns, JoinedColumns &joined) {
  ScalarProgram &p = columns.program;
  const int last = int(p.space.size()) - 1;
  for (unsigned i = 0; i < p.inputs.size(); ++i) {
    const GroupForm *norm = form.makerOf(p.inputs[i].source);
    if (!norm)
      continue;
    const Operation &op = *norm->anchor;
    const Type normed = op.result()->type();
    Access read = p.inputs[i];
    const ScalarProgram &x = norm->anchorInputs[0];
    const Ints lastAxis{int64_t(normed.rank()) - 1};
    if (!op.is(Op::Normalize) || op.intsAttr("axes") != lastAxis ||
        normed.element() != Element::F32 || !isWidenedRead(x) || read.bounded ||
        read.type != normed)
      return Refusal{"something else than normalised rows before the heads' columns", ""};
    for (size_t d = 0; d < read.dims.size(); ++d)
      if ((read.dims[d].dim == last) != (d + 1 == read.dims.size()) || read.dims[d].step != 1)
        return Refusal{"normalised rows that are not those of the heads", ""};
    p.inputs[i] = composed(read, x.inputs[0]);
    columns.normed.push_back(i);
    read.dims.back().offset = Dim();
    const Access row = composed(read, x.inputs[0]);
    if (!joined.norm) {
      joined.norm = norm;
      joined.rows.space = p.space;
      joined.rows.space.back() = normed.shape().back();
      joined.rows.inputs.push_back(row);
    } else if (joined.norm != norm || !(joined.rows.inputs[0] == row)) {
      return Refusal{"columns of rows that several norms make", ""};
    }
  }
  return Accepted{};
}

/// The pieces of `p`, an operand of `rows` rows that is read like `operand`.
Result<JoinedColumns> readColumns(const GroupForm &form, const ScalarProgram &p, Type operand,
                                  Dim rows) {
  JoinedColumns r;
  const JoinForm *join = p.isPlainRead() ? form.joinOf(p.inputs[0].source) : nullptr;
  if (!join) {
    r.pieces.push_back({p, {}});
  } else {
    if (join->concat->intAttr("axis") != int64_t(join->concat->result()->type().rank()) - 1)
      return Refusal{"heads that are joined along something else than columns", ""};
    for (const ScalarProgram &piece : join->pieces)
      r.pieces.push_back({piece, {}});
  }
  for (ComputedColumns &piece : r.pieces) {
    const Dim width = piece.program.space.back();
    if (auto normed = readNormed(form, piece, r); !normed)
      return std::move(normed).refusal();
    if (auto fits = isColumns(piece.program, shapeOf(operand, rows, width), operand.element());
        !fits)
      return std::move(fits).refusal();
    if (&piece != &r.pieces.back() && width.constant() % kRun != 0)
      return Refusal{"columns that change within a run", ""};
  }
  if (r.norm && r.rows.space.back() != operand.shape().back())
    return Refusal{"norms of more or less than a head", ""};
  if (r.norm && !split(stridesOf(r.rows.inputs[0], unsigned(r.rows.space.size())), r.rows.space,
                       shapeOf(operand, rows, r.rows.space.back())))
    return Refusal{"normalised rows that are not those of the heads", ""};
  return r;
}

Dim rowsOf(const ScalarProgram &p) { return p.space[p.space.size() - 2]; }

/// Where rows of a cache that the group makes lie, over the shape of an operand of attention with
/// so many; none where that is no view of it.
llvm::Optional<Strides> stridesOfRows(Type made, Type operand) {
  const Addressing to = addressing(made);
  Strides own;
  own.offset = to.offset;
  own.strides.assign(to.strides.begin(), to.strides.end());
  return split(own, made.shape(),
               shapeOf(operand, made.dim(made.rank() - 2), operand.shape().back()));
}

/// Operand `i` of the attention, which is old rows and new ones.
Result<AppendedRows> readRows(const GroupForm &form, unsigned i) {
  const ScalarProgram &p = form.anchorInputs[i];
  const JoinForm *join = p.isPlainRead() ? form.joinOf(p.inputs[0].source) : nullptr;
  const Type operand = form.anchor->operand(i)->type();
  if (!join || join->pieces.size() != 2 ||
      join->concat->intAttr("axis") != int64_t(join->concat->result()->type().rank()) - 2)
    return Refusal{"no old rows with new ones behind them", ""};
  AppendedRows r;
  r.old = &join->pieces[0];
  const ScalarProgram &added = join->pieces[1];
  const Dim count = rowsOf(added), columns = operand.shape().back();
  if (!r.old->isPlainRead() || !r.old->inputs[0].source->argumentOf())
    return Refusal{"old rows that are computed", ""};
  if (count.upper() > kMostQueries)
    return Refusal{"more than " + std::to_string(kMostQueries) + " new rows", ""};
  const auto strides = split(stridesOf(r.old->inputs[0], unsigned(r.old->space.size())),
                             r.old->space, shapeOf(operand, rowsOf(*r.old), columns));
  if (!strides || !strides->strides.back().isConstant(1))
    return Refusal{"old rows that are not contiguous", ""};
  auto read = readColumns(form, added, operand, count);
  if (!read)
    return std::move(read).refusal();
  r.added = *std::move(read);
  const auto results = form.group->region().terminator()->operands();
  for (unsigned k = 1; k < results.size(); ++k) {
    const bool whole = results[k] == join->concat->result();
    if (!whole && results[k] != join->concat->operand(1))
      continue;
    r.result = k;
    r.moves = whole;
  }
  if (r.result == 0)
    return Refusal{"a cache that nobody reads", ""};
  const auto written = stridesOfRows(form.group->result(r.result)->type(), operand);
  if (!written || !written->strides.back().isConstant(1))
    return Refusal{"a cache that is not contiguous", ""};
  return r;
}

Result<> readChain(DecodeAttentionProblem &p) {
  const GroupForm &form = p.in.form;
  const Type q = form.anchor->operand(0)->type();
  auto queries = readColumns(form, form.anchorInputs[0], q, q.shape()[q.rank() - 2]);
  auto keys = readRows(form, 1), values = readRows(form, 2);
  if (!queries)
    return std::move(queries).refusal();
  if (!keys)
    return std::move(keys).refusal();
  if (!values)
    return std::move(values).refusal();
  if (keys->moves != values->moves)
    return Refusal{"keys or values that move, and others that stay", ""};
  p.queries = *std::move(queries);
  p.keys = *std::move(keys);
  p.values = *std::move(values);
  return Accepted{};
}

bool isOfMaps(const Operation *op) {
  return op && op->is(Op::Group) && llvm::all_of(op->region(), [](const Operation &inner) {
           return inner.isTerminator() || isAbsorbable(inner);
         });
}

/// What makes `v`, through views that keep the order of elements.
class PieceFinder {
public:
  PieceFinder(llvm::SmallVectorImpl<Operation *> &pieces, bool withNorms)
      : pieces_(pieces), withNorms_(withNorms) {}
  bool hasNorms() const { return hasNorms_; }

  Value *through(Value *v) {
    while (v->def() && v->def()->is(Op::Reshape) && isView(*v->def())) {
      add(v->def());
      v = v->def()->operand(0);
    }
    return v;
  }
  /// A concat along the dimension so far from the last; null: it is none.
  Operation *concat(Value *v, unsigned fromLast) {
    if (!joinsAlong(v->def(), fromLast))
      return nullptr;
    add(v->def());
    return v->def();
  }
  void maker(Value *v) {
    if (!isOfMaps(v->def()))
      return;
    add(v->def());
    if (withNorms_)
      for (Value *operand : v->def()->operands())
        norm(operand);
  }
  void columns(Value *v) {
    v = through(v);
    // A copy to where the cache lies.
    if (Value *copied = copiedBy(v->def()); copied && joinsAlong(copied->def(), 1)) {
      add(v->def());
      v = copied;
    }
    if (Operation *join = concat(v, 1))
      for (Value *piece : join->operands())
        maker(piece);
    else
      maker(v);
  }

private:
  /// The group that normalises what `v` is a view of, with the views on the way.
  void norm(Value *v) {
    llvm::SmallVector<Operation *, 4> views;
    while (v->def() && v->def()->isAny(Op::Reshape, Op::Slice, Op::Transpose) &&
           isView(*v->def())) {
      views.push_back(v->def());
      v = v->def()->operand(0);
    }
    Operation *const group = v->def();
    if (!group || !group->is(Op::Group) || group->numResults() != 1 ||
        !group->region().front().is(Op::Normalize) ||
        !llvm::all_of(llvm::drop_begin(group->region()), [](const Operation &inner) {
          return inner.isTerminator() || isAbsorbable(inner);
        }))
      return;
    hasNorms_ = true;
    for (Operation *view : views)
      add(view);
    add(group);
  }
  static bool joinsAlong(const Operation *op, unsigned fromLast) {
    return op && op->is(Op::Concat) &&
           op->intAttr("axis") == int64_t(op->result()->type().rank()) - int64_t(fromLast);
  }
  /// What a group copies, element by element; null: it does something else.
  static Value *copiedBy(const Operation *group) {
    if (!isOfMaps(group) || group->numOperands() != 1)
      return nullptr;
    const Operation &map = group->region().front();
    const bool copies = map.is(Op::Map) && map.numOperands() == 1 &&
                        map.result()->type().shape() == group->operand(0)->type().shape() &&
                        map.region().terminator()->operand(0) == map.region().argument(0) &&
                        map.result() == group->region().terminator()->operand(0);
    return copies ? group->operand(0) : nullptr;
  }
  void add(Operation *op) {
    if (!llvm::is_contained(pieces_, op))
      pieces_.push_back(op);
  }
  llvm::SmallVectorImpl<Operation *> &pieces_;
  bool withNorms_, hasNorms_ = false;
};

bool findUpdate(Operation &last, PieceFinder &finder) {
  const Operation *attention = nullptr;
  for (const Operation &op : last.region())
    if (op.is(Op::Attention))
      attention = &op;
    else if (!op.isTerminator())
      return false;
  if (!attention)
    return false;
  for (unsigned i = 0; i < 3; ++i) {
    Value *const inner = attention->operand(i);
    if (!inner->argumentOf())
      return false;
    Value *const v = last.operand(inner->index());
    if (i == 0) {
      finder.columns(v);
      continue;
    }
    Operation *const join = finder.concat(finder.through(v), 2);
    if (!join || join->numOperands() != 2)
      return false;
    finder.maker(join->operand(0)); // a copy; none where the cache stays
    finder.columns(join->operand(1));
  }
  return true;
}

} // namespace

bool findCacheUpdate(Operation &last, llvm::SmallVectorImpl<Operation *> &pieces) {
  PieceFinder finder(pieces, false);
  return findUpdate(last, finder);
}
bool findNormedCacheUpdate(Operation &last, llvm::SmallVectorImpl<Operation *> &pieces) {
  PieceFinder finder(pieces, true);
  return findUpdate(last, finder) && finder.hasNorms();
}

double DecodeAttentionProblem::tiles(int64_t queries) const {
  return f.heads() / double(group) *
         double(ceilDiv(group * queries, decode_attention_geometry::rows));
}

void DecodeAttentionProblem::writeOperands(StepWriter &out) const {
  const unsigned at = unsigned(batch().size());
  const auto grouped = [&](Strides s) {
    if (group == 1) // one of it
      s.strides.insert(s.strides.begin() + at, f.context().dim(0));
    return s;
  };
  if (!in.form.isChain()) {
    f.writeViews(out, grouped);
    out.code().line("const cuda::no_appended_rows rows{};");
    return;
  }
  const GroupForm &form = in.form;
  SourceWriter &code = out.code();
  const auto over = [&](const ScalarProgram &p, Type operand, Dim rows) {
    return [&, shape = shapeOf(operand, rows, p.space.back())](const Strides &s) {
      return grouped(f.aligned(*split(s, p.space, shape), shape));
    };
  };
  const auto piece = [&](const ScalarProgram &p, Type operand, Dim rows,
                         const std::string &suffix) {
    llvm::SmallVector<int, 6> places(p.space.size(), 0);
    return operandView(out, p, over(p, operand, rows), places, suffix);
  };
  const auto normedPiece = [&](const ComputedColumns &columns, Type operand, Dim rows,
                               const std::string &suffix) {
    const ScalarProgram &p = columns.program;
    const auto change = over(p, operand, rows);
    std::string ins;
    for (unsigned i = 0; i < p.inputs.size(); ++i) {
      const Access &a = p.inputs[i];
      const std::string view = out.view(a.source, change(stridesOf(a, unsigned(p.space.size()))));
      ins +=
          (i ? ", " : "") +
          (llvm::is_contained(columns.normed, i) ? "cuda::make_normed_view(" + view + ")" : view);
    }
    return "cuda::make_computed_view<" + cppElement(computeElement(operand.element())).str() +
           ", " + std::to_string(rankThrough(p, change)) + ">(pack(" + ins + "), " +
           out.body(p, {}, suffix) + ")";
  };
  const auto columns = [&](const JoinedColumns &of, Type operand, Dim rows,
                           const std::string &name) {
    std::string text;
    for (size_t i = of.pieces.size(); i-- > 0;) {
      const ComputedColumns &p = of.pieces[i];
      const std::string suffix = name + std::to_string(i);
      const std::string own = p.normed.empty() ? piece(p.program, operand, rows, suffix)
                                               : normedPiece(p, operand, rows, suffix);
      text = text.empty() ? own
                          : "cuda::make_joined_columns<" +
                                std::to_string(p.program.space.back().constant()) + ">(" + own +
                                ", " + text + ")";
    }
    if (!of.norm)
      return text;
    const Operation &norm = *of.norm->anchor;
    const Access &row = of.rows.inputs[0];
    const std::string x = out.view(
        row.source, over(of.rows, operand, rows)(stridesOf(row, unsigned(of.rows.space.size()))));
    return "cuda::make_normed_columns<" + std::to_string(of.rows.space.back().constant()) + ", " +
           (norm.boolAttr("centered") ? "true" : "false") + ">(" + x + ", " +
           cppScalar(Element::F32, norm.floatAttr("epsilon")) + ", " + text + ")";
  };
  const Type q = form.anchor->operand(0)->type(), k = form.anchor->operand(1)->type(),
             v = form.anchor->operand(2)->type();
  const auto present = [&](const AppendedRows &of, Type operand) {
    const Type made = form.group->result(of.result)->type();
    const auto shape = shapeOf(operand, made.dim(made.rank() - 2), operand.shape().back());
    return out.resultView(of.result, grouped(f.aligned(*stridesOfRows(made, operand), shape)));
  };
  out.include("cuda/base/computed.cuh");
  code.line("const auto q = " + columns(queries, q, q.shape()[q.rank() - 2], "query") + ";");
  code.line("const auto k = " + piece(*keys.old, k, rowsOf(*keys.old), "key") + ";");
  code.line("const auto v = " + piece(*values.old, v, rowsOf(*values.old), "value") + ";");
  code.line("const auto new_k = " +
            columns(keys.added, k, rowsOf(keys.added.pieces[0].program), "new_key") + ";");
  code.line("const auto new_v = " +
            columns(values.added, v, rowsOf(values.added.pieces[0].program), "new_value") + ";");
  const auto isInput = [&](const AppendedRows &of) {
    return form.group->operand(of.old->inputs[0].source->index())->argumentOf() != nullptr;
  };
  const Dim newRows = rowsOf(keys.added.pieces[0].program);
  const auto word = [](bool b) { return std::string(b ? "true" : "false"); };
  const auto isRead = [&](const ScalarProgram &p) {
    const unsigned rank = unsigned(p.space.size());
    return areReadInWholeRuns(
        out, p.inputs, rank, [](const Strides &s) { return s; }, rank - 1, p.space.back(), 8);
  };
  const auto isWhole = [&](const JoinedColumns &of) {
    return (!of.norm || isRead(of.rows)) &&
           llvm::all_of(of.pieces, [&](const ComputedColumns &p) { return isRead(p.program); });
  };
  const bool areWhole = isWhole(queries) && isWhole(keys.added) && isWhole(values.added) &&
                        isRead(*keys.old) && isRead(*values.old);
  code.line("const auto rows = cuda::make_appended_rows<" + word(keys.moves) + ", " +
            word(isInput(keys) && isInput(values)) + ", " + word(areWhole) + ", " +
            std::to_string(newRows.upper()) + ">(" + single(out, rowsOf(*keys.old)) +
            ", new_k, new_v, " + present(keys, k) + ", " + present(values, v) + ");");
  f.writeRest(out, grouped);
}

Result<DecodeAttentionProblem> readDecodeAttention(const GroupQuery &in) {
  const bool isChain = in.form.isChain();
  return matchAttention(in, kLargestHead, isChain ? 3 : 0, {.order = true})
      .andThen([&]() -> Result<DecodeAttentionProblem> {
        if (!isMachineOf(kMmaSm80, in.level))
          return Refusal{"Tensor Cores before sm_80", ""};
        const Element e = in.form.anchor->operand(0)->type().element();
        if (e != Element::F16 && e != Element::BF16)
          return Refusal{"elements of " + name(e).str(), ""};
        DecodeAttentionProblem p(in, AttentionForm(in.form, !isChain));
        if (p.f.queries().upper() > kMostQueries)
          return Refusal{"more than " + std::to_string(kMostQueries) + " queries", ""};
        const llvm::ArrayRef<Dim> leading = p.f.leading();
        const auto isShared = [&](unsigned i) {
          return p.f.view(i).strides[leading.size() - 1].isConstant(0);
        };
        if (!leading.empty() && leading.back().isConstant() && !leading.back().isConstant(1) &&
            isShared(1) && isShared(2))
          p.group = leading.back().constant();
        if (isChain)
          if (auto chain = readChain(p); !chain)
            return std::move(chain).refusal();
        return p;
      });
}

} // namespace tenon::cuda

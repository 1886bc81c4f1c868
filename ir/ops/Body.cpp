// Implements the evaluation of bodies over tiles.
#include "ir/ops/Body.h"

#include "ir/Interpreter.h"

#include <cmath>

namespace tenon {

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

void Lanes::fill(double real, int64_t integer, int64_t n) {
  if (isFloat(element))
    std::fill_n(reals.begin(), n, real);
  else
    std::fill_n(integers.begin(), n, integer);
}

namespace {
template <class T, class Out>
void gather(const Tensor &t, const int64_t *offsets, int64_t base, int64_t n, Out *out) {
  const T *in = reinterpret_cast<const T *>(t.bytes().data()) + base;
  for (int64_t i = 0; i < n; ++i)
    out[i] = Out(in[offsets[i]]);
}
} // namespace

void Lanes::load(const Tensor &t, const int64_t *offsets, int64_t base, int64_t n) {
  switch (t.element()) {
  case Element::F32: return gather<float>(t, offsets, base, n, reals.data());
  case Element::F64: return gather<double>(t, offsets, base, n, reals.data());
  case Element::Bool:
  case Element::U8: return gather<uint8_t>(t, offsets, base, n, integers.data());
  case Element::I8: return gather<int8_t>(t, offsets, base, n, integers.data());
  case Element::I32: return gather<int32_t>(t, offsets, base, n, integers.data());
  case Element::I64: return gather<int64_t>(t, offsets, base, n, integers.data());
  case Element::F16:
  case Element::BF16: { // converted side by side
    Tensor codes(t.element(), {n});
    gather<uint16_t>(t, offsets, base, n, codes.mutableAs<uint16_t>());
    return codes.toDoubles(0, n, reals.data());
  }
  default: break;
  }
  for (int64_t i = 0; i < n; ++i)
    if (isFloat(element))
      reals[size_t(i)] = t.at(base + offsets[i]);
    else
      integers[size_t(i)] = t.intAt(base + offsets[i]);
}

void Lanes::loadRun(const Tensor &t, int64_t begin, int64_t n) {
  if (isFloat(element))
    t.toDoubles(begin, n, reals.data());
  else
    t.toInts(begin, n, integers.data());
}

void Lanes::store(Tensor &t, int64_t begin, int64_t n) const {
  if (isFloat(element))
    t.fromDoubles(begin, n, reals.data());
  else
    t.fromInts(begin, n, integers.data());
}

//===----------------------------------------------------------------------===//
// BodyProgram
//===----------------------------------------------------------------------===//

BodyProgram::BodyProgram(Region &body, bool exact, bool wide) {
  auto newSlot = [&](Value *v) {
    slotOf_[v] = unsigned(slots_.size());
    const Element e = v->type().element();
    slots_.push_back(wide ? wideElement(e) : e);
    return slotOf_[v];
  };
  for (Value *a : body.arguments())
    newSlot(a);
  for (Operation &op : body) {
    if (op.isTerminator()) {
      for (Value *v : op.operands())
        yields_.push_back(slotOf_.lookup(v));
      break;
    }
    const unsigned slot = newSlot(op.result());
    const Element e = op.result()->type().element();
    if (op.is(Op::Const)) {
      const Attribute &value = *op.find("value");
      Constant c{slot, 0, 0};
      if (const double *d = value.get<double>())
        c.real = *d, c.integer = truncateToInt(e, *d);
      else if (const int64_t *i = value.get<int64_t>())
        c.real = double(*i), c.integer = wrapScalar(e, *i);
      else if (const bool *b = value.get<bool>())
        c.real = *b, c.integer = *b;
      c.real = roundScalar(e, c.real);
      constants_.push_back(c);
      continue;
    }
    const Attribute *table = op.find("table");
    Step step{op.kind(),
              scalarInfo(op.kind()),
              slot,
              {0, 0, 0},
              !op.is(Op::Cast) || op.boolAttr("rounds"),
              Element(),
              wide && !op.boolAttr("rounds") ? slots_[slot] : e,
              op.intAttr("dim"),
              table ? table->get<Ints>() : nullptr};
    for (unsigned i = 0; i < op.numOperands() && i < 3; ++i)
      step.operands[i] = slotOf_.lookup(op.operand(i));
    if (op.is(Op::Cast)) // wide operands are numbers of no narrower type
      step.from = slots_[step.operands[0]];
    steps_.push_back(step);
  }
  if (exact)
    for (Step &step : steps_)
      if (step.kind != Op::Cast && llvm::is_contained(yields_, step.result) &&
          isFloat(slots_[step.result]))
        step.rounds = false;
}

//===----------------------------------------------------------------------===//
// BodyTile
//===----------------------------------------------------------------------===//

BodyTile::BodyTile(const BodyProgram &program) : program_(program) {
  for (Element e : program.slots_)
    lanes_.emplace_back(e);
  for (const BodyProgram::Constant &c : program.constants_)
    lanes_[c.slot].fill(c.real, c.integer, kTile);
  for (auto &s : scratch_)
    s.resize(size_t(kTile));
  out_.resize(size_t(kTile));
}

/// The lanes of a slot as doubles, converted where they are integers.
const double *BodyTile::reals(unsigned slot, unsigned scratch, int64_t n) {
  const Lanes &l = lanes_[slot];
  if (isFloat(l.element))
    return l.reals.data();
  const int64_t *in = l.integers.data();
  double *out = scratch_[scratch].data();
  if (l.element == Element::U64)
    std::copy_n(reinterpret_cast<const uint64_t *>(in), n, out);
  else
    std::copy_n(in, n, out);
  return out;
}

namespace {
/// `v`, of the type a body computes in, as a number of the type `e`.
double narrowed(Element e, double v) {
  return e == Element::F32 || e == Element::F64
             ? roundScalar(e, v)
             : decodeFloat(e, encodeFloat(e, roundScalar(Element::F32, v)));
}
} // namespace

void BodyTile::cast(const BodyProgram::Step &step, int64_t n) {
  const Lanes &from = lanes_[step.operands[0]];
  Lanes &to = lanes_[step.result];
  const Element e = step.to;
  auto real = [&](size_t i) {
    return step.rounds ? narrowed(step.from, from.reals[i]) : from.reals[i];
  };
  // Floats of 16 bits may stay wider until they are stored, those of fewer never do.
  const bool stays = !step.rounds && bitWidth(e) == 16;
  for (size_t i = 0; i < size_t(n); ++i) {
    if (!isFloat(e)) {
      if (!isFloat(from.element))
        to.integers[i] = wrapScalar(e, from.integers[i]);
      else if (isBool(e))
        to.integers[i] = real(i) != 0;
      else
        to.integers[i] = truncateToInt(e, real(i));
      continue;
    }
    const double v =
        isFloat(from.element) ? real(i) : integerToReal(from.element, from.integers[i]);
    to.reals[i] = stays ? roundScalar(Element::F32, v) : narrowed(e, v);
  }
}

void BodyTile::lookUp(const Ints &table, const Lanes &from, Lanes &to, int64_t n) {
  for (size_t i = 0; i < size_t(n); ++i)
    to.integers[i] = table[uint8_t(from.integers[i])];
}

void BodyTile::compute(const BodyProgram::Step &step, int64_t n) {
  const ScalarInfo &info = *step.info;
  Lanes &to = lanes_[step.result];
  // Select follows its values, the others their first operand; quantize always starts from floats.
  const unsigned leading = info.signature == ScalarSignature::Select ? 1 : 0;
  const bool real = isFloat(lanes_[step.operands[leading]].element) ||
                    info.signature == ScalarSignature::Dequantize;
  if (!real) {
    const int64_t *x[3] = {};
    for (int i = 0; i < info.arity; ++i)
      x[i] = lanes_[step.operands[i]].integers.data();
    int64_t *out = to.integers.data();
    info.integers(lanes_[step.operands[leading]].element)(x[0], x[1], x[2], out, size_t(n));
    if (bitWidth(to.element) < 64)
      for (int64_t i = 0; i < n; ++i)
        out[i] = wrapScalar(to.element, out[i]);
    return;
  }
  const double *x[3] = {};
  for (int i = 0; i < info.arity; ++i)
    x[i] = reals(step.operands[i], unsigned(i), n);
  if (!isFloat(to.element)) { // comparisons, tests, quantize: saturates
    info.onFloats(x[0], x[1], x[2], out_.data(), size_t(n));
    for (int64_t i = 0; i < n; ++i)
      to.integers[size_t(i)] = truncateToInt(to.element, out_[size_t(i)]);
    return;
  }
  double *out = to.reals.data();
  if (info.signature == ScalarSignature::Quantize) { // to a narrow float: no rounding to integers
    for (int64_t i = 0; i < n; ++i) {
      // Quantize has three operands. NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
      const float q = float(x[0][i]) / float(x[1][i]);
      out[i] = decodeFloat(
          to.element,
          encodeFloat(to.element, q + x[2][i])); // NOLINT(clang-analyzer-core.NullDereference)
    }
    return;
  }
  info.onFloats(x[0], x[1], x[2], out, size_t(n));
  if (step.rounds && to.element != Element::F64)
    for (int64_t i = 0; i < n; ++i)
      out[i] = double(float(out[i]));
}

void BodyTile::run(int64_t n, IndexSource index) {
  for (const BodyProgram::Step &step : program_.steps_) {
    if (step.kind == Op::Index)
      index(step.dim, lanes_[step.result].integers.data(), n);
    else if (step.kind == Op::Lookup)
      lookUp(*step.table, lanes_[step.operands[0]], lanes_[step.result], n);
    else if (step.kind == Op::Cast)
      cast(step, n);
    else
      compute(step, n);
  }
}

} // namespace tenon

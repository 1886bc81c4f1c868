// Implements scalar functions as operators over whole tensors. Integers that operators do not take
// are computed in wider ones; both wrap.
#include "exporter/Body.h"

#include "ir/Extents.h"
#include "ir/Scalar.h"
#include "ir/ops/Ops.h"

namespace tenon::exporter {
namespace {

/// In what ONNX's arithmetic is done: runtimes have it of few types.
Element arithmeticElement(Element e) {
  if (isFloat(e))
    return bitWidth(e) >= 16 && e != Element::BF16 ? e : Element::F32;
  if (isBool(e))
    return Element::I32;
  return e == Element::I32 || (bitWidth(e) < 32) ? Element::I32 : Element::I64;
}

/// The operator that computes the same, where there is one.
const char *operatorOf(Op op) {
  switch (op) {
  case Op::Add: return "Add";
  case Op::Sub: return "Sub";
  case Op::Mul: return "Mul";
  case Op::Div: return "Div";
  case Op::Pow: return "Pow";
  case Op::Min: return "Min";
  case Op::Max: return "Max";
  case Op::Neg: return "Neg";
  case Op::Abs: return "Abs";
  case Op::Sign: return "Sign";
  case Op::Relu: return "Relu";
  case Op::Exp: return "Exp";
  case Op::Log: return "Log";
  case Op::Sqrt: return "Sqrt";
  case Op::Reciprocal: return "Reciprocal";
  case Op::Sin: return "Sin";
  case Op::Cos: return "Cos";
  case Op::Tan: return "Tan";
  case Op::Asin: return "Asin";
  case Op::Acos: return "Acos";
  case Op::Atan: return "Atan";
  case Op::Sinh: return "Sinh";
  case Op::Cosh: return "Cosh";
  case Op::Tanh: return "Tanh";
  case Op::Asinh: return "Asinh";
  case Op::Acosh: return "Acosh";
  case Op::Atanh: return "Atanh";
  case Op::Erf: return "Erf";
  case Op::Sigmoid: return "Sigmoid";
  case Op::Floor: return "Floor";
  case Op::Ceil: return "Ceil";
  case Op::Round: return "Round";
  case Op::IsNaN: return "IsNaN";
  case Op::IsInf: return "IsInf";
  case Op::Equal: return "Equal";
  case Op::Less: return "Less";
  case Op::LessEqual: return "LessOrEqual";
  case Op::Greater: return "Greater";
  case Op::GreaterEqual: return "GreaterOrEqual";
  case Op::LogicalAnd: return "And";
  case Op::LogicalOr: return "Or";
  case Op::LogicalXor: return "Xor";
  case Op::LogicalNot: return "Not";
  case Op::BitAnd: return "BitwiseAnd";
  case Op::BitOr: return "BitwiseOr";
  case Op::BitXor: return "BitwiseXor";
  case Op::BitNot: return "BitwiseNot";
  default: return nullptr;
  }
}

/// Extents of a constant's tensor as an index map reads it, if it reads them in order.
llvm::Optional<Extents> spreadShape(const Tensor &t, const IndexMap &map, unsigned space) {
  Extents shape;
  int64_t before = -1;
  for (size_t i = 0; i < map.size(); ++i)
    if (map[i] >= 0) {
      if (map[i] <= before)
        return llvm::None;
      if (before >= 0)
        shape.append(size_t(map[i] - before - 1), 1);
      before = map[i];
      shape.push_back(t.shape()[i]);
    }
  if (before >= 0)
    shape.append(size_t(space - 1 - before), 1);
  return shape;
}

} // namespace

Space spaceOf(const Operation &op) {
  Space space;
  std::string error;
  iterationSpace(op, space, error);
  assert(error.empty() && "the module is verified");
  return space;
}

Spread BodyWriter::constant(Tensor t) {
  Spread s;
  s.element = t.element();
  s.follows.assign(space_.size(), false);
  s.constant = std::move(t);
  return s;
}

Spread BodyWriter::whole(std::string name, Element e) const {
  Spread s;
  s.name = std::move(name);
  s.element = e;
  s.rank = unsigned(space_.size());
  s.follows.assign(space_.size(), true);
  return s;
}

Spread BodyWriter::read(Value *operand, const IndexMap &map) {
  const auto rank = unsigned(space_.size());
  Spread s;
  s.element = operand->type().element();
  s.follows.assign(rank, false);
  s.operand = operand;
  s.map = map;
  for (int64_t to = 0; to < int64_t(rank); ++to)
    for (size_t d = 0; d < map.size(); ++d)
      if (map[d] == to) {
        if (s.follows[size_t(to)])
          return w_.refuse("a diagonal, which operand " + llvm::Twine(operand->hint()) +
                           " is read along"),
                 s;
        s.follows[size_t(to)] = true;
      }
  for (unsigned d = 0; d < rank && !s.rank; ++d)
    if (s.follows[d])
      s.rank = rank - d;
  return s;
}

std::string BodyWriter::named(const Spread &s) {
  if (s.constant)
    return w_.constant(*s.constant);
  if (!s.operand)
    return s.name;
  std::string &known = placed_[{s.operand, s.map}];
  if (known.empty())
    known = placed(s);
  return known;
}

/// An operand with the dimensions of the space that its map names, in order, and others of
/// extent 1.
std::string BodyWriter::placed(const Spread &s) {
  const auto rank = unsigned(space_.size());
  const IndexMap &map = s.map;
  Ints perm, ones; // mapped dimensions in order, then those of extent 1
  for (int64_t to = 0; to < int64_t(rank); ++to)
    for (size_t d = 0; d < map.size(); ++d)
      if (map[d] == to)
        perm.push_back(int64_t(d));
  const size_t mapped = perm.size();
  for (size_t d = 0; d < map.size(); ++d)
    if (map[d] < 0)
      perm.push_back(int64_t(d));
  if (const Literal t = constantValue(s.operand))
    if (const auto shape = spreadShape(*t, map, rank))
      return llvm::makeArrayRef(*shape) == t->shape()
                 ? w_.name(s.operand)
                 : w_.constant(t->reshaped(*shape), s.operand->hint());
  std::string x = w_.name(s.operand);
  const bool sorted = std::is_sorted(perm.begin(), perm.begin() + int64_t(mapped));
  // In order, and the dimensions of extent 1 where the space wants them: often nothing to do.
  bool inPlace = sorted && map.size() == s.rank;
  for (size_t d = 0; d < map.size() && inPlace; ++d)
    inPlace = map[d] < 0 ? !s.follows[rank - s.rank + d] : map[d] == int64_t(rank - s.rank + d);
  if (inPlace)
    return x;
  if (!sorted)
    x = w_.transpose(x, perm);
  for (size_t d = 0; d < map.size(); ++d)
    if (sorted ? map[d] < 0 : d >= mapped)
      ones.push_back(int64_t(d));
  if (!ones.empty())
    x = w_.node("Squeeze", {x, w_.integers(ones)});
  Ints absent;
  for (unsigned d = rank - s.rank; d < rank; ++d)
    if (!s.follows[d])
      absent.push_back(int64_t(d - (rank - s.rank)));
  return absent.empty() ? x : w_.node("Unsqueeze", {x, w_.integers(absent)});
}

std::string BodyWriter::filled(const Spread &s) {
  const std::string name = named(s);
  bool complete = s.rank == space_.size();
  for (size_t d = 0; d < space_.size(); ++d)
    complete &= s.follows[d] || space_[d].isConstant(1);
  return complete ? name : w_.node("Expand", {name, w_.shape(space_)});
}

Spread BodyWriter::apply(llvm::StringRef type, llvm::ArrayRef<Spread> operands, Element result,
                         const Attributes &attributes) {
  Spread s;
  s.element = result;
  s.follows.assign(space_.size(), false);
  Names inputs;
  for (const Spread &o : operands) {
    inputs.push_back(named(o));
    s.rank = std::max(s.rank, o.rank);
    for (size_t d = 0; d < space_.size(); ++d)
      s.follows[d] |= o.follows[d];
  }
  s.name = w_.node(type, inputs, attributes);
  return s;
}

Spread BodyWriter::as(const Spread &s, Element e) {
  if (s.element == e)
    return s;
  if (s.constant) {
    Tensor t(e, s.constant->shape());
    for (int64_t i = 0; i < t.size(); ++i)
      if (isFloat(e) || isFloat(s.element))
        t.set(i, s.constant->at(i));
      else
        t.setInt(i, s.constant->intAt(i));
    Spread c = s;
    c.constant = t;
    c.element = e;
    return c;
  }
  return apply("Cast", {s}, e, {{"to", int64_t(onnxCode(storedAs(e)))}});
}

Spread BodyWriter::of(Value *v) {
  if (auto it = known_.find(v); it != known_.end())
    return it->second;
  Spread s = lower(*v->def());
  known_[v] = s;
  return s;
}

Spread BodyWriter::index(int64_t dim) {
  if (auto it = indices_.find(dim); it != indices_.end())
    return it->second;
  return indices_[dim] = positions(dim);
}

Spread BodyWriter::positions(int64_t dim) {
  const auto at = size_t(dim);
  Spread s;
  s.element = Element::I64;
  s.rank = unsigned(space_.size() - at);
  s.follows.assign(space_.size(), false);
  s.follows[at] = true;
  s.name = w_.range(space_[at]);
  if (s.rank > 1) {
    Ints behind;
    for (int64_t d = 1; d < int64_t(s.rank); ++d)
      behind.push_back(d);
    s.name = w_.node("Unsqueeze", {s.name, w_.integers(behind)});
  }
  return s;
}

Spread BodyWriter::lower(Operation &op) {
  switch (op.kind()) {
  case Op::Const: {
    Tensor t(op.result()->type().element(), {});
    const Attribute &value = *op.find("value");
    if (const auto *d = value.get<double>())
      t.set(0, *d);
    else if (const auto *i = value.get<int64_t>())
      t.setInt(0, *i);
    else
      t.setInt(0, *value.get<bool>());
    return constant(t);
  }
  case Op::Index: return index(op.intAttr("dim"));
  case Op::Cast: return convert(of(op.operand(0)), op.result()->type().element());
  case Op::Quantize: return quantize(op);
  case Op::Dequantize: return dequantize(op);
  case Op::Lookup: return lookup(op);
  case Op::Select: return select(of(op.operand(0)), of(op.operand(1)), of(op.operand(2)));
  case Op::ShiftLeft:
  case Op::ShiftRight:
  case Op::RoundShift:
  case Op::MulHigh: return shift(op);
  case Op::BitAnd:
  case Op::BitOr:
  case Op::BitXor:
  case Op::BitNot: return bits(op);
  case Op::Equal:
  case Op::NotEqual:
  case Op::Less:
  case Op::LessEqual:
  case Op::Greater:
  case Op::GreaterEqual: return compare(op);
  case Op::LogicalAnd:
  case Op::LogicalOr:
  case Op::LogicalXor:
    return apply(operatorOf(op.kind()), {of(op.operand(0)), of(op.operand(1))}, Element::Bool);
  case Op::LogicalNot: return apply("Not", {of(op.operand(0))}, Element::Bool);
  case Op::IsNaN:
  case Op::IsInf: {
    const Spread x = of(op.operand(0));
    return apply(operatorOf(op.kind()), {as(x, arithmeticElement(x.element))}, Element::Bool);
  }
  default: break;
  }
  if (op.is(Op::Add))
    if (Spread s = biased(op); !s.name.empty())
      return s;
  return arithmetic(op);
}

/// A convolution that waits for the bias that is added here.
Spread BodyWriter::biased(Operation &add) {
  for (unsigned i = 0; i < 2; ++i) {
    auto conv = known_.find(add.operand(i));
    auto bias = known_.find(add.operand(1 - i));
    if (conv == known_.end() || bias == known_.end())
      continue;
    Value *v = conv->second.operand;
    if (v && v->def() && v->def()->is(Op::Conv) && waitsForBias(*v->def()))
      return whole(exportConv(*v->def(), w_.name(bias->second.operand), w_), conv->second.element);
  }
  return {};
}

Spread BodyWriter::arithmetic(Operation &op) {
  const Element e = op.result()->type().element(), in = arithmeticElement(e);
  if (e == Element::U64 && !op.isAny(Op::Add, Op::Sub, Op::Mul))
    return w_.refuse(op.name() + " of u64"), Spread();
  llvm::SmallVector<Spread, 3> x;
  for (Value *v : op.operands())
    x.push_back(as(of(v), in));
  Spread s;
  switch (op.kind()) {
  case Op::Mod: s = isFloat(in) ? floorRemainder(x[0], x[1], in) : apply("Mod", x, in); break;
  case Op::FMod: s = apply("Mod", {x[0], x[1]}, in, {{"fmod", int64_t(1)}}); break;
  case Op::Fma: s = apply("Add", {apply("Mul", {x[0], x[1]}, in), x[2]}, in); break;
  case Op::Clamp:
    s = x[1].constant && x[2].constant ? apply("Clip", x, in)
                                       : apply("Min", {apply("Max", {x[0], x[1]}, in), x[2]}, in);
    break;
  case Op::Rsqrt: s = apply("Reciprocal", {apply("Sqrt", {x[0]}, in)}, in); break;
  case Op::Trunc:
    s = apply("Where",
              {apply("Less", {x[0], constant(in, 0)}, Element::Bool), apply("Ceil", {x[0]}, in),
               apply("Floor", {x[0]}, in)},
              in);
    break;
  default:
    if (const char *type = operatorOf(op.kind()))
      s = op.is(Op::Relu) && !isFloat(in) ? apply("Max", {x[0], constant(in, 0)}, in)
                                          : apply(type, x, in);
    else
      return w_.refuse("the scalar function " + op.name()), Spread();
  }
  return as(s, e);
}

Spread BodyWriter::compare(Operation &op) {
  Spread a = of(op.operand(0)), b = of(op.operand(1));
  const bool equality = op.isAny(Op::Equal, Op::NotEqual);
  if (a.element == Element::U64 && !equality)
    return w_.refuse(op.name() + " of u64"), Spread();
  if (!isBool(a.element) || !equality) {
    const Element in = arithmeticElement(a.element);
    a = as(a, in), b = as(b, in);
  }
  if (op.is(Op::NotEqual))
    return apply("Not", {apply("Equal", {a, b}, Element::Bool)}, Element::Bool);
  return apply(operatorOf(op.kind()), {a, b}, Element::Bool);
}

Spread BodyWriter::bits(Operation &op) {
  const Element e = op.result()->type().element(), in = arithmeticElement(e);
  llvm::SmallVector<Spread, 2> x;
  for (Value *v : op.operands())
    x.push_back(as(of(v), in));
  return as(apply(operatorOf(op.kind()), x, in), e);
}

/// The remainder of a division that rounds down, of floats: exact, and a itself by an infinity.
Spread BodyWriter::floorRemainder(const Spread &a, const Spread &b, Element e) {
  const Spread zero = constant(e, 0);
  const Spread rest = apply("Mod", {a, b}, e, {{"fmod", int64_t(1)}});
  auto negative = [&](const Spread &s) { return apply("Less", {s, zero}, Element::Bool); };
  const Spread other = apply("Xor", {negative(rest), negative(b)}, Element::Bool);
  const Spread some = apply("Not", {apply("Equal", {rest, zero}, Element::Bool)}, Element::Bool);
  return apply("Where",
               {apply("And", {other, some}, Element::Bool), apply("Add", {rest, b}, e), rest}, e);
}

/// 2 to the power of an exponent below 63, in i64.
Spread BodyWriter::power(const Spread &exponent) {
  if (exponent.constant) {
    Tensor t(Element::I64, {});
    t.setInt(0, int64_t(1) << std::clamp<int64_t>(exponent.constant->intAt(0), 0, 62));
    return constant(t);
  }
  Tensor one(Element::U64, {});
  one.setInt(0, 1);
  // An exponent below 0 stands for one above every width.
  const Element in = Element::I64;
  const Spread above = apply("Less", {exponent, constant(in, 0)}, Element::Bool),
               most = constant(in, 62);
  const Spread least = apply("Where", {above, most, apply("Min", {exponent, most}, in)}, in);
  return as(apply("BitShift", {constant(one), as(least, Element::U64)}, Element::U64,
                  {{"direction", std::string("LEFT")}}),
            Element::I64);
}

Spread BodyWriter::floorQuotient(const Spread &a, const Spread &b) {
  const Element e = Element::I64;
  return apply("Div", {apply("Sub", {a, apply("Mod", {a, b}, e)}, e), b}, e);
}

/// In i64: what 32 bits are shifted by stays exact, however far.
Spread BodyWriter::shift(Operation &op) {
  const Element e = op.result()->type().element(), in = Element::I64;
  const Spread a = as(of(op.operand(0)), in), b = as(of(op.operand(1)), in);
  if (op.is(Op::MulHigh)) {
    Tensor t(in, {});
    t.setInt(0, int64_t(1) << 32);
    return as(floorQuotient(apply("Mul", {a, b}, in), constant(t)), e);
  }
  const bool small = b.constant && b.constant->intAt(0) < 62;
  if (bitWidth(e) > 32 && !small)
    return w_.refuse(op.name() + " of " + name(e) + " by a number that is not known or above 61"),
           Spread();
  if (e == Element::U64 && !op.is(Op::ShiftLeft))
    return w_.refuse(op.name() + " of u64"), Spread();
  const Spread p = power(b);
  if (op.is(Op::ShiftLeft)) // what is shifted out of 32 bits has left them
    return as(apply("Mul", {a, p}, in), e);
  const Spread q = floorQuotient(a, p);
  if (op.is(Op::ShiftRight))
    return as(q, e);
  // Half to even: one more where the rest is more than half, or half of an odd quotient.
  const Spread rest = apply("Mod", {a, p}, in), twice = apply("Add", {rest, rest}, in);
  const Spread odd =
      apply("Equal", {apply("Mod", {q, constant(in, 2)}, in), constant(in, 1)}, Element::Bool);
  const Spread half = apply("And", {apply("Equal", {twice, p}, Element::Bool), odd}, Element::Bool);
  const Spread up = apply("Or", {apply("Greater", {twice, p}, Element::Bool), half}, Element::Bool);
  return as(apply("Add", {q, as(up, in)}, in), e);
}

Spread BodyWriter::select(const Spread &c, const Spread &a, const Spread &b) {
  const Element e = a.element;
  // Runtimes choose between few types.
  const Element in = e == Element::U8 || isFloat(e) ? e
                     : isBool(e)                    ? Element::U8
                                                    : arithmeticElement(e);
  return as(apply("Where", {c, as(a, in), as(b, in)}, in), e);
}

/// Floats outside of a narrow integer's range become its nearest number; of 32 bits and more, ONNX
/// does not say what they become.
Spread BodyWriter::convert(const Spread &x, Element to) {
  if (x.constant || !isFloat(x.element) || !isInteger(to) || bitWidth(to) > 16)
    return as(x, to);
  const Spread wide = as(x, Element::F32);
  return as(apply("Clip",
                  {wide, constant(Element::F32, double(minInt(to))),
                   constant(Element::F32, double(maxInt(to)))},
                  Element::F32),
            to);
}

bool BodyWriter::parameters(const Spread &x, const Spread &scale, const Spread &zero, Names &inputs,
                            Attributes &attributes) {
  if (x.constant || scale.element != Element::F32)
    return false;
  inputs = {named(x)};
  if (scale.constant) {
    inputs.push_back(w_.constant(*scale.constant));
    if (!zero.constant)
      return false;
    inputs.push_back(w_.constant(*zero.constant));
    return true;
  }
  // A list along one dimension.
  if (!scale.operand || scale.map.size() != 1 || scale.map[0] < 0)
    return false;
  const Dim n = scale.operand->type().dim(0);
  const int64_t axis = scale.map[0] - int64_t(space_.size() - x.rank);
  if (axis < 0 || !n.isConstant())
    return false;
  if (zero.constant) {
    Tensor t(zero.element, {n.constant()});
    for (int64_t i = 0; i < t.size(); ++i)
      if (isFloat(zero.element))
        t.set(i, zero.constant->at(0));
      else
        t.setInt(i, zero.constant->intAt(0));
    inputs.insert(inputs.end(), {w_.name(scale.operand), w_.constant(t)});
  } else if (zero.operand && zero.map == scale.map) {
    inputs.insert(inputs.end(), {w_.name(scale.operand), w_.name(zero.operand)});
  } else {
    return false;
  }
  attributes.push_back({"axis", axis});
  return true;
}

Spread BodyWriter::quantize(Operation &op) {
  const Spread x = as(of(op.operand(0)), Element::F32);
  const Spread scale = as(of(op.operand(1)), Element::F32), zero = of(op.operand(2));
  const Element e = zero.element;
  Names inputs;
  Attributes attributes;
  if (bitWidth(e) >= 4 && bitWidth(e) <= 16 && parameters(x, scale, zero, inputs, attributes)) {
    Spread s = x;
    s.operand = nullptr;
    s.element = e;
    s.name = w_.node("QuantizeLinear", inputs, attributes);
    return s;
  }
  if (!isInteger(e) || bitWidth(e) > 16)
    return w_.refuse("a quantisation to " + name(e) + " with this scale"), Spread();
  const Element f = Element::F32;
  const Spread units = apply(
      "Add", {apply("Round", {apply("Div", {x, scale}, f)}, f), as(as(zero, Element::I32), f)}, f);
  return convert(units, e);
}

Spread BodyWriter::dequantize(Operation &op) {
  const Spread q = of(op.operand(0)), scale = of(op.operand(1)), zero = of(op.operand(2));
  const Element e = op.result()->type().element();
  Names inputs;
  Attributes attributes;
  const bool unit = q.element == Element::I32 && zero.constant && zero.constant->intAt(0) == 0;
  if (((bitWidth(q.element) >= 4 && bitWidth(q.element) <= 16) || unit) &&
      parameters(q, scale, zero, inputs, attributes)) {
    Spread s = q;
    s.operand = nullptr;
    s.element = e;
    s.name = w_.node("DequantizeLinear", inputs, attributes);
    return s;
  }
  const bool integers = isInteger(q.element);
  const Element in =
      integers ? (bitWidth(q.element) > 16 ? Element::I64 : Element::I32) : Element::F32;
  if (q.element == Element::U64)
    return w_.refuse("a dequantisation of u64"), Spread();
  const Spread steps = apply("Sub", {as(q, in), as(zero, in)}, in);
  const Element f = arithmeticElement(e);
  return as(apply("Mul", {as(steps, f), as(scale, f)}, f), e);
}

Spread BodyWriter::lookup(Operation &op) {
  const Spread x = of(op.operand(0));
  const Element e = op.result()->type().element();
  Tensor table(e, {256});
  for (int64_t i = 0; i < 256; ++i)
    table.setInt(i, op.intsAttr("table")[size_t(i)]);
  // The patterns of 8 bits in order of their numbers.
  const Spread at = apply("Mod", {as(x, Element::I32), constant(Element::I32, 256)}, Element::I32);
  Spread s = at;
  s.operand = nullptr;
  s.constant = llvm::None;
  s.element = e;
  s.name = w_.node("Gather", {w_.constant(table), named(at)});
  return s;
}

bool exportMap(Operation &op, Writer &w) {
  BodyWriter body(w, spaceOf(op));
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Value *operand = op.operand(i);
    const IndexMap &map = op.intListsAttr("maps")[i];
    if (operand->def() && operand->def()->is(Op::Conv) && waitsForBias(*operand->def())) {
      Spread s;
      s.operand = operand;
      s.element = operand->type().element();
      body.set(op.region().argument(i), s);
    } else if (op.region().argument(i)->hasUses()) {
      body.set(op.region().argument(i), body.read(operand, map));
    }
    if (w.failed())
      return false;
  }
  Operation *end = op.region().terminator();
  Names made;
  for (Value *v : end->operands()) {
    std::string s = body.filled(body.of(v));
    if (w.failed())
      return false;
    made.push_back(s);
  }
  if (made.size() > 1)
    w.keep();
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

} // namespace tenon::exporter

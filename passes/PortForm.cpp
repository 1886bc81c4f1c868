// Implements changed inputs and outputs.
//
//   graph (%x: tensor<1x3x8x8xf32>)          graph (%x: tensor<1x8x8x3xf16>)
//     %y = conv %x, …                          %0 = map %x { cast } : tensor<1x8x8x3xf32>
//     return %y                          →     %1 = transpose %0 : tensor<1x3x8x8xf32>
//                                              %y = conv %1, …
//                                              …
//
// The cast comes first, as eliminate-transpose would have it.
#include "passes/PortForm.h"

#include "ir/Builder.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr llvm::StringLiteral kFact = "io.", kLast = ", channels last here";

/// The words for the orders of dimensions, by rank.
struct OrderWords {
  unsigned rank;
  llvm::StringLiteral first, last;
};
constexpr OrderWords kOrders[] = {{3, "ncw", "nwc"}, {4, "nchw", "nhwc"}, {5, "ncdhw", "ndhwc"}};

const OrderWords *ordersOf(unsigned rank) {
  for (const OrderWords &o : kOrders)
    if (o.rank == rank)
      return &o;
  return nullptr;
}

bool isOrder(llvm::StringRef word) {
  return llvm::any_of(kOrders,
                      [&](const OrderWords &o) { return word == o.first || word == o.last; });
}

/// Types as --precision spells them.
llvm::Optional<Element> elementOf(llvm::StringRef word) {
  if (word == "fp16" || word == "fp32")
    return word == "fp16" ? Element::F16 : Element::F32;
  return parseElement(word);
}

bool isPlain(Element e) { return isFloat(e) ? bitWidth(e) >= 16 : bitWidth(e) >= 8; }

/// Whether a value of one type may be handed over as another without a scale.
bool converts(Element from, Element to) {
  if (from == to)
    return true;
  if (!isPlain(from) || !isPlain(to) || from == Element::String || to == Element::String)
    return false;
  return isFloat(to) || !isFloat(from);
}

/// n, c, h, w → n, h, w, c and back.
Ints toLast(unsigned rank) {
  Ints perm = identityMap(rank);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}
Ints fromLast(unsigned rank) {
  Ints perm = identityMap(rank);
  std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return perm;
}

/// NaN counts as 0; what no integer of 64 bits holds saturates.
int64_t nearestInt(double v) {
  constexpr double kLimit = 9e18;
  return std::isnan(v) ? 0 : int64_t(std::nearbyint(std::min(std::max(v, -kLimit), kLimit)));
}

class Borders {
public:
  Borders(Graph &graph, Diagnostics &diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  bool apply(const PortRequest &request) {
    const auto input = indexIn(graph_.inputNames, request.name),
               output = indexIn(graph_.outputNames, request.name);
    if (!input && !output)
      return fail("--io: the model has no input or output '" + request.name + "'" +
                  near(request.name));
    if (portForm(graph_.module(), request.name))
      return fail("--io: '" + request.name +
                  "' has another form than the model's already; give it "
                  "where the .tn file is made");
    return (!input || change(request, *input, /*isInput=*/true)) &&
           (!output || change(request, *output, /*isInput=*/false));
  }

private:
  bool fail(std::string message) {
    diagnostics_.error(std::move(message));
    return false;
  }

  static llvm::Optional<unsigned> indexIn(llvm::ArrayRef<std::string> names,
                                          const std::string &name) {
    auto it = llvm::find(names, name);
    return it == names.end() ? llvm::Optional<unsigned>() : unsigned(it - names.begin());
  }

  /// The names that are most like it, or all of a few.
  std::string near(llvm::StringRef wanted) const {
    std::vector<std::pair<unsigned, std::string>> ranked;
    for (const auto *names : {&graph_.inputNames, &graph_.outputNames})
      for (const std::string &n : *names)
        ranked.push_back({wanted.edit_distance(n), n});
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](auto &a, auto &b) { return a.first < b.first; });
    std::string text;
    for (size_t i = 0; i < ranked.size() && i < 3; ++i)
      text += (i ? ", '" : "; there are '") + ranked[i].second + "'";
    return text + (ranked.size() > 3 ? " and others" : "");
  }

  bool change(const PortRequest &request, unsigned i, bool isInput) {
    const std::string what =
        std::string("--io: ") + (isInput ? "input '" : "output '") + request.name + "' ";
    for (const State &s : graph_.states)
      if ((isInput ? s.input : s.output) == i)
        return fail(what + "is carried from run to run, and not part of the interface");
    Value *v = isInput ? graph_.body().argument(i) : graph_.returnOp()->operand(i);
    if (!v->type().isTensor())
      return fail(what + "is no tensor");
    const Type own = v->type();
    const Element element = request.element.getValueOr(own.element());
    if (!(isInput ? converts(element, own.element()) : converts(own.element(), element)))
      return fail(what + "is " + name(own.element()).str() + " in the model and cannot be " +
                  name(element).str() +
                  (isFloat(own.element()) && !isFloat(element)
                       ? ": floats need a scale to become integers "
                         "(`tenon calibrate`, then --io quantized)"
                       : ""));
    bool last = false;
    if (!request.order.empty()) {
      const OrderWords *words = ordersOf(own.rank());
      if (!words || (request.order != words->first && request.order != words->last))
        return fail(what + "has " + std::to_string(own.rank()) + " dimensions; '" + request.order +
                    "' does not fit" +
                    (words ? ", '" + words->first.str() + "' or '" + words->last.str() + "' does"
                           : ": there is no such order of them"));
      last = request.order == words->last;
    }
    if (element == own.element() && !last)
      return true;
    isInput ? changeInput(v, element, last) : changeOutput(i, v, element, last);
    graph_.module().facts[(kFact + request.name).str()] =
        name(own.element()).str() + (last ? kLast.str() : "");
    return true;
  }

  void changeInput(Value *x, Element element, bool last) {
    const Type own = x->type();
    llvm::SmallVector<Dim, 6> shape(own.shape().begin(), own.shape().end());
    if (last)
      std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    Operation *user = x->hasUses() ? x->firstUse()->owner() : nullptr;
    x->setType(own.withShape(shape).withElement(element));
    if (!user)
      return;
    Builder b(&graph_.body().front(), diagnostics_);
    b.location = user->loc();
    std::vector<Use *> uses;
    for (Use *u : x->uses())
      uses.push_back(u);
    Value *y = element == own.element() ? x : b.cast(x, own.element());
    if (last)
      y = b.transpose(y, fromLast(own.rank()));
    for (Use *u : uses)
      u->owner()->setOperand(u->index(), y);
  }

  void changeOutput(unsigned i, Value *y, Element element, bool last) {
    Operation *end = graph_.returnOp();
    Builder b(end, diagnostics_);
    if (y->def())
      b.location = y->def()->loc();
    const Type own = y->type();
    if (element != own.element())
      y = b.cast(y, element);
    if (last)
      y = b.transpose(y, toLast(own.rank()));
    end->setOperand(i, y);
  }

  Graph &graph_;
  Diagnostics &diagnostics_;
};

} // namespace

bool parsePortRequest(llvm::StringRef name, llvm::StringRef text, PortRequest &out,
                      Diagnostics &diagnostics) {
  out = {name.str(), llvm::None, ""};
  llvm::SmallVector<llvm::StringRef, 2> words;
  text.split(words, ',');
  for (llvm::StringRef word : words) {
    if (auto e = elementOf(word); e && !out.element) {
      out.element = e;
    } else if (isOrder(word) && out.order.empty()) {
      out.order = word.str();
    } else {
      diagnostics.error("--io " + name.str() + "=" + text.str() + ": '" + word.str() +
                        "' is no type (f32, f16, bf16, u8, …) or order of dimensions "
                        "(nchw, nhwc; ncw, nwc; ncdhw, ndhwc), each of which may be given once");
      return false;
    }
  }
  return true;
}

bool applyPortRequests(Graph &graph, llvm::ArrayRef<PortRequest> requests,
                       Diagnostics &diagnostics) {
  Borders borders(graph, diagnostics);
  bool ok = true;
  for (const PortRequest &r : requests)
    ok = borders.apply(r) && ok;
  return ok;
}

llvm::Optional<PortForm> portForm(const Module &module, llvm::StringRef port) {
  auto fact = module.facts.find((kFact + port).str());
  if (fact == module.facts.end())
    return llvm::None;
  llvm::StringRef text = fact->second;
  PortForm form;
  form.channelsLast = text.consume_back(kLast);
  auto element = parseElement(text);
  if (!element)
    return llvm::None;
  form.element = *element;
  return form;
}

Tensor portTensor(const Tensor &own, const PortForm &form, Element element, int64_t *changed) {
  const unsigned rank = own.rank();
  llvm::SmallVector<int64_t, 6> shape(own.shape().begin(), own.shape().end());
  if (form.channelsLast && rank > 2)
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  Tensor out(element, shape);
  // [n, c, inner] → [n, inner, c]; one channel where the order stays.
  const bool moves = form.channelsLast && rank > 2;
  const int64_t channels = moves ? own.shape()[1] : 1, outer = moves ? own.shape()[0] : 1;
  const int64_t inner = own.size() / std::max<int64_t>(1, channels * outer);
  int64_t lost = 0;
  for (int64_t at = 0; at < own.size(); ++at) {
    const int64_t c = at / inner % channels, n = at / inner / channels;
    const int64_t to = (n * inner + at % inner) * channels + c;
    if (isFloat(element)) {
      const double v = own.at(at);
      out.set(to, v);
      continue;
    }
    int64_t v = isFloat(own.element()) ? nearestInt(own.at(at)) : own.intAt(at);
    if (!isBool(element))
      v = std::min(std::max(v, minInt(element)), maxInt(element));
    out.setInt(to, v);
    lost += isFloat(own.element()) ? double(v) != own.at(at) : v != own.intAt(at);
  }
  if (changed)
    *changed = lost;
  return out;
}

} // namespace tenon

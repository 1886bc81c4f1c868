// Evaluates operations on text.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Strided.h"

#include "ir/Regex.h"
#include "ir/TextNumbers.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace tenon {
namespace {

/// For each element of the broadcast `shape`, the element of a tensor of shape `from`.
std::vector<int64_t> broadcastPlaces(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> places{0};
  int64_t stride = 1;
  // From the last dimension outwards: a new dimension repeats what is there, shifted.
  for (size_t d = shape.size(); d-- > 0;) {
    const size_t missing = shape.size() - from.size();
    const int64_t extent = d >= missing ? from[d - missing] : 1;
    std::vector<int64_t> wider;
    for (int64_t i = 0; i < shape[d]; ++i)
      for (int64_t p : places)
        wider.push_back(p + (extent == 1 ? 0 : i * stride));
    places = std::move(wider);
    stride *= extent;
  }
  return places;
}

/// The pieces of `text` between an operation's delimiters; the rest stays whole after its limit.
std::vector<std::string> piecesOf(const Operation &op, llvm::StringRef text) {
  const llvm::StringRef delimiter = op.stringAttr("delimiter");
  const int64_t limit = op.intAttr("limit", -1);
  std::vector<std::string> list;
  if (delimiter.empty()) {
    for (text = text.ltrim(); !text.empty(); text = text.ltrim()) {
      const bool last = limit >= 0 && int64_t(list.size()) == limit;
      const llvm::StringRef piece = last ? text : text.take_until(llvm::isSpace);
      list.push_back(piece.str());
      text = text.drop_front(piece.size());
    }
    return list;
  }
  for (;;) {
    const size_t end =
        limit >= 0 && int64_t(list.size()) == limit ? llvm::StringRef::npos : text.find(delimiter);
    list.push_back(text.take_front(end).str());
    if (end == llvm::StringRef::npos)
      return list;
    text = text.drop_front(end + delimiter.size());
  }
}

} // namespace

bool evaluateTextMap(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const llvm::StringRef function = op.wordAttr("function");
  const Extents shape = frame.resultShape(op, 0);
  Tensor result(op.result()->type().element(), shape);
  const std::vector<int64_t> at = broadcastPlaces(frame.operands[0].shape(), shape);
  const Tensor &second = frame.operands.back();
  const std::vector<int64_t> atSecond = broadcastPlaces(second.shape(), shape);
  const Strings keys = op.has("keys") ? *op.find("keys")->get<Strings>() : Strings();
  Automaton pattern;
  if (function == "match") {
    std::string why;
    auto compiled = compileRegex(op.stringAttr("pattern"), why);
    if (!compiled)
      return fail(error, "attribute pattern: " + why);
    pattern = std::move(*compiled);
  }
  if (function == "digits") {
    for (int64_t i = 0; i < result.size(); ++i)
      result.setString(i, writtenNumber(frame.operands[0], at[size_t(i)]));
    frame.results.push_back(std::move(result));
    return true;
  }
  const std::vector<std::string> &x = frame.operands[0].stringValues();
  for (int64_t i = 0; i < result.size(); ++i) {
    const std::string &a = x[size_t(at[size_t(i)])];
    const std::string &b = second.stringValues()[size_t(atSecond[size_t(i)])];
    if (function == "concat")
      result.setString(i, a + b);
    else if (function == "lower")
      result.setString(i, llvm::StringRef(a).lower());
    else if (function == "upper")
      result.setString(i, llvm::StringRef(a).upper());
    else if (function == "equal")
      result.setInt(i, a == b);
    else if (function == "match")
      result.setInt(i, pattern.matches(a));
    else if (function == "count")
      result.setInt(i, int64_t(piecesOf(op, a).size()));
    else if (function == "number") {
      if (!readNumber(a, result, i))
        return fail(error, "'" + a + "' is no " + name(result.element()));
    } else {
      const auto found = llvm::find(keys, a);
      result.setInt(i, found == keys.end() ? -1 : found - keys.begin());
    }
  }
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateTextSplit(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  std::vector<std::vector<std::string>> all;
  size_t most = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    all.push_back(piecesOf(op, x.stringValues()[size_t(i)]));
    most = std::max(most, all.back().size());
  }
  Extents shape(x.shape().begin(), x.shape().end());
  shape.push_back(int64_t(most));
  Tensor result(Element::String, shape);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < all[i].size(); ++k)
      result.setString(int64_t(i * most + k), std::move(all[i][k]));
  if (frame.symbols)
    frame.symbols->insert_or_assign(op.stringAttr("symbol").str(), int64_t(most));
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon

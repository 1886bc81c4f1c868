// Implements the forms of options.
#include "compiler/OptionForms.h"

#include "compiler/Options.h"
#include "frontend/Extents.h"
#include "passes/AssignPrecision.h"

namespace tenon {

std::function<std::string(const std::string &)> keyValueForm(const char *example) {
  return [example](const std::string &text) {
    for (const auto &[key, value] : keyValues(text))
      if (key.empty() || value.empty())
        return "expected a form such as " + std::string(example) + ", found '" + text + "'";
    return std::string();
  };
}

std::string bindForm(const std::string &text) {
  if (std::string why = keyValueForm("N=1,seq=128 or NAME=@FILE.npy")(text); !why.empty())
    return why;
  for (const auto &[key, value] : keyValues(text)) {
    int64_t number;
    if (value[0] != '@' && llvm::StringRef(value).getAsInteger(10, number) &&
        !frontend::parseExtent(value))
      return key + ": expected an integer, a sum such as past+1, or @FILE, found '" + value + "'";
  }
  return "";
}

std::string stateForm(const std::string &text) {
  if (std::string why = keyValueForm("IN=OUT or IN=OUT:append@1")(text); !why.empty())
    return why;
  for (const auto &[key, value] : keyValues(text)) {
    const llvm::StringRef axis = llvm::StringRef(value).rsplit(":append@").second;
    int number;
    if (llvm::StringRef(value).contains(":append@") && axis.getAsInteger(10, number))
      return key + ": expected an axis after append@, found '" + axis.str() + "'";
  }
  return "";
}

std::string decoderForm(const std::string &text) {
  std::string why;
  decoderRequest(text, why);
  return why;
}

std::string dimensionRange(const std::string &text) {
  for (const auto &[key, value] : keyValues(text)) {
    auto [low, high] = llvm::StringRef(value).split("..");
    int64_t a, b;
    if (key.empty() || low.getAsInteger(10, a) || high.getAsInteger(10, b))
      return "expected a form such as N=1..32, found '" + text + "'";
    if (a < 0)
      return key + ": expected bounds of 0 or more, found '" + value + "'";
    if (b < a)
      return key + ": expected the lower bound first, found '" + value + "'; write " + key + "=" +
             high.str() + ".." + low.str();
  }
  return "";
}

std::string precisionForm(const std::string &text) {
  std::vector<PrecisionRule> rules;
  Diagnostics found;
  if (parsePrecision(text, rules, found))
    return "";
  llvm::StringRef message = found.list().front().message;
  message.consume_front("--precision: ");
  return message.str();
}

bool isPrecision(const std::string &text) { return precisionForm(text).empty(); }

std::string valueRangeForm(const std::string &text) {
  std::map<std::string, Interval> ranges;
  Diagnostics found;
  ModelOptions one;
  one.inputRange = {text};
  if (inputRanges(one, ranges, found))
    return "";
  llvm::StringRef message = found.list().front().message;
  message.consume_front("--input-range ");
  return message.str();
}

std::string identifierForm(const std::string &text) {
  const bool good =
      !text.empty() && !isdigit(static_cast<unsigned char>(text[0])) &&
      llvm::all_of(text, [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  return good ? "" : "'" + text + "' is not a C identifier";
}

std::string reportForm(const std::string &text) {
  for (const std::string &kind : listItems(text))
    if (kind != "fusion" && kind != "memory" && kind != "kernels" && kind != "passes")
      return "'" + kind + "' is not a report; there are fusion, memory, kernels, passes";
  return "";
}

} // namespace tenon

// Defines which forms the texts of options have: checks that refuse a word by a message
// and accept it by an empty one.
#pragma once

#include <functional>
#include <string>

namespace tenon {

/// NAME=VALUE[,…]; the message shows the example.
std::function<std::string(const std::string &)> keyValueForm(const char *example);
/// --bind: N=1, total=past+1 or NAME=@FILE[,…].
std::string bindForm(const std::string &text);
/// --state: IN=OUT or IN=OUT:append@1[,…].
std::string stateForm(const std::string &text);
/// --decoder: MAX[,prefill=128:512|none][,logits=last|all].
std::string decoderForm(const std::string &text);
/// --range: N=1..32[,…].
std::string dimensionRange(const std::string &text);
/// --precision: a precision, or one of nodes.
std::string precisionForm(const std::string &text);
bool isPrecision(const std::string &text);
/// --input-range: NAME=-1..1[,…].
std::string valueRangeForm(const std::string &text);
/// --prefix.
std::string identifierForm(const std::string &text);
/// --report: fusion,….
std::string reportForm(const std::string &text);

} // namespace tenon

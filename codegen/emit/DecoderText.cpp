// Implements the text of a decoder's functions.
#include "codegen/emit/DecoderText.h"

#include "ir/SumBounds.h"

namespace tenon {

void writeDecoderForm(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims) {
  const DecoderInfo &d = *info.decoder;
  const auto index = [&](Dim symbol) { return std::to_string(dims.indexOf(symbol.symbol())); };
  w.line("constexpr decoder_form<" + cppElement(d.token).str() + ", " + cppElement(d.logit).str() +
         ", " + (d.lastLogits ? "true" : "false") + ", " + std::to_string(info.inputs.size()) +
         "> the_decoder = {" + std::to_string(d.tokens) + ", " + index(d.length) + ", " +
         (d.count.isSymbol() ? index(d.count) : "-1") + ", " + std::to_string(d.count.upper()) +
         ", " + std::to_string(d.capacity) + ", " + std::to_string(d.vocabulary) + ", " +
         (d.shortens ? "true" : "false") + "};");
  w.line("static_assert(the_decoder.bytes() == " + std::to_string(decoderBytes(d)) +
         ", \"the header states another size\");");
  w.line("");
}

void writeDecoderFunctions(SourceWriter &w, const InterfaceInfo &info, const std::string &scope,
                           const std::string &tenon, const std::string &machine) {
  const std::string prefix = info.prefix, context = prefix + "_context *context";
  const std::string decoder = tenon + "decoder(" + scope + "the_decoder, " + machine + ")";
  w.function("int " + prefix + "_run_tokens(" + context +
                 ", const int *tokens, int count, const void *const *inputs, void *logits, "
                 "int rows)",
             "return " + decoder + ".run(tokens, count, inputs, logits, rows);");
  w.function("int " + prefix + "_run_generate(" + context + ", const " + prefix +
                 "_sampling *how, int count, const void *const *inputs, int *tokens, int *made)",
             "return " + decoder + ".generate(how, count, inputs, tokens, made);");
  w.function("int " + prefix + "_length(" + context + ", long *length)",
             "return " + decoder + ".length(length);");
  w.function("int " + prefix + "_set_length(" + context + ", long length)",
             "return " + decoder + ".set_length(length);");
}

int64_t decoderBytes(const DecoderInfo &d) {
  constexpr int64_t kState = 64; // decoder_state::room
  const int64_t piece = d.count.upper();
  const int64_t tokens = (piece * bitWidth(d.token) / 8 + 63) / 64 * 64;
  return kState + tokens + d.vocabulary * bitWidth(d.logit) / 8 * (d.lastLogits ? 1 : piece);
}

std::vector<std::string> sumMembers(const Module &module, const DimSpelling &dims) {
  std::vector<Dim> asked; // of what callers give: no run asks for the others
  for (Dim d : dims.symbols())
    if (llvm::any_of(module.graph().body().arguments(), [&](const Value *a) {
          return a->type().isTensor() && llvm::is_contained(a->type().shape(), d);
        }))
      asked.push_back(d);
  std::vector<std::string> rows;
  for (const SumBound &s : sumsOf(asked))
    rows.push_back(std::to_string(dims.indexOf(s.first.symbol())) + ", " +
                   std::to_string(dims.indexOf(s.second.symbol())) + ", " +
                   std::to_string(s.upper));
  return rows;
}

} // namespace tenon

// Defines the shared readings of groups for tactics that are not written as a struct yet
// (codegen/core/TacticOf.h): with a reason in place of a Refusal. It goes with the last of them.
#pragma once

#include "codegen/AnchorForms.h"
#include "codegen/AttentionForm.h"
#include "codegen/ResizeForm.h"

namespace tenon {

inline bool holds(const Result<> &result, std::string &why) {
  if (!result)
    why = result.refusal().reason;
  return bool(result);
}
template <class T> llvm::Optional<T> valueOf(Result<T> result, std::string &why) {
  if (result)
    return *std::move(result);
  why = result.refusal().reason;
  return llvm::None;
}

inline bool isUnbounded(const ScalarProgram &program, std::string &why) {
  return holds(isUnbounded(program), why);
}
inline bool matchAnchor(const TacticInput &in, Op kind, std::string &why) {
  return holds(matchAnchor(in, kind), why);
}
inline bool matchNarrowProduct(const TacticInput &in, std::string &why) {
  return holds(matchNarrowProduct(in), why);
}
inline bool isWithoutScales(const Operation &op, std::string &why) {
  return holds(isWithoutScales(op), why);
}
inline bool matchAlone(const TacticInput &in, Op op, std::string &why) {
  return holds(matchAlone(in, op), why);
}
inline bool matchAttention(const TacticInput &in, int64_t largestHead, unsigned first,
                           std::string &why) {
  return holds(matchAttention(in, largestHead, first), why);
}
inline bool resamplesInside(const Operation &resize, std::string &why) {
  return holds(resamplesInside(resize), why);
}
inline int64_t resizeScratch(const TacticInput &in, const Schedule &) {
  return resizeScratch(*in.form.anchor);
}
inline llvm::Optional<ConvProblem> convProblem(const Operation &op, std::string &why,
                                               int most = 2) {
  return valueOf(convProblem(op, most), why);
}

} // namespace tenon

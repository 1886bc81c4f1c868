// Defines what a run reports: outputs and groups compared with what is expected, as text and JSON.
#pragma once

#include "tools/Compare.h"
#include "tools/Oracle.h"

#include "llvm/ADT/STLExtras.h"
namespace llvm::json {
class OStream; // declared here: with gtest and precompiled headers, clang 14 refuses JSON.h
}

namespace tenon {

/// One output, or one value that a group makes.
struct TensorCheck {
  std::string name;
  /// Group checks: the number of the step, or −1 where there are no steps.
  int step = -1;
  /// "data", or the seed that made the inputs.
  std::string set;
  /// What it is compared with, in words.
  std::string with;
  Element element = Element::F32;
  std::vector<int64_t> shape;
  double low = 0, high = 0;
  bool hasRange = false, compared = false;
  /// Elements that are infinite or NaN, which the range leaves out, of how many.
  int64_t notFinite = 0, size = 0;
  Difference difference;
  std::vector<std::string> nodes;
  /// Takes the comparison back where rounding explains any difference: nothing could fail.
  void leaveUndecided();
};

TensorCheck describe(llvm::StringRef name, const Tensor &tensor);
TensorCheck check(llvm::StringRef name, const Tensor &actual, const Tensor &expected,
                  double tolerance, llvm::StringRef with);
/// The same against a wide evaluation, where `exact` is not null.
TensorCheck check(llvm::StringRef name, const Tensor &actual, const Tensor &typed,
                  const Tensor &exact, double tolerance);

constexpr llvm::StringLiteral kWithData = "the data set", kWithInterpreter = "the interpreter",
                              kWithExact = "an fp64 evaluation";

/// How much was compared: in all sets together, and with what.
struct Coverage {
  int64_t values = 0, elements = 0;
  std::vector<std::string> sets, with;
  /// Counts a check that compared something.
  void add(const TensorCheck &check);
};

/// A comparison of nothing is neither of the others.
enum class Verdict { Pass, Fail, Nothing };

struct RunReport {
  std::string model, target;
  std::vector<TensorCheck> outputs, groups;
  /// What was compared of them; the lists hold the worst of each.
  Coverage outputCoverage, groupCoverage;
  /// Whether the options ask for a comparison, so that one of nothing is a failure.
  bool asked = false;
  /// Groups of which the reference has no value of the same name and shape.
  std::vector<std::string> unmatched;
  std::vector<double> milliseconds;
  double instructions = 0; // of one run on an emulated board
  Verdict verdict() const;
  double maxError() const;
  double medianMilliseconds() const;
  /// Worst first: failures before passes, then by error.
  void sortGroups();

  void print(llvm::raw_ostream &os, bool verbose) const;
  /// `more` adds attributes to the object.
  void printJson(llvm::raw_ostream &os,
                 llvm::function_ref<void(llvm::json::OStream &)> more = nullptr) const;
  /// The last line: PASS, FAIL, or that nothing was compared.
  std::string verdictLine() const;
  /// The first failure in one line; empty when all is well.
  std::string reason() const;
};

} // namespace tenon

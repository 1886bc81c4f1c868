// Defines what a run reports: outputs and groups compared with what is expected, as text and JSON.
#pragma once

#include "driver/Compare.h"
#include "driver/Console.h"
#include "driver/Oracle.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

namespace tenon {

/// One output, or one value that a group makes.
struct TensorCheck {
  std::string name;
  /// Group checks: the number of the step, or −1 where there are no steps.
  int step = -1;
  /// "data", or the seed that made the inputs.
  std::string set;
  Element element = Element::F32;
  std::vector<int64_t> shape;
  double low = 0, high = 0;
  bool hasRange = false, compared = false;
  /// Elements that are infinite or NaN, which the range leaves out, of how many.
  int64_t notFinite = 0, size = 0;
  Difference difference;
  std::vector<std::string> nodes;
};

TensorCheck describe(llvm::StringRef name, const Tensor &tensor);
TensorCheck check(llvm::StringRef name, const Tensor &actual, const Tensor &expected,
                  double tolerance);

struct RunReport {
  std::string model, target;
  std::vector<TensorCheck> outputs, groups;
  /// Groups of which the reference has no value of the same name and shape.
  std::vector<std::string> unmatched;
  std::vector<double> milliseconds;
  double instructions = 0; // of one run on an emulated board
  bool compared() const;
  bool pass() const;
  double maxError() const;
  double medianMilliseconds() const;
  /// Worst first: failures before passes, then by error.
  void sortGroups();

  void print(llvm::raw_ostream &os, bool verbose) const;
  /// `more` adds attributes to the object.
  void printJson(llvm::raw_ostream &os,
                 llvm::function_ref<void(llvm::json::OStream &)> more = nullptr) const;
  /// The first failure in one line; empty when all is well.
  std::string reason() const;
};

} // namespace tenon

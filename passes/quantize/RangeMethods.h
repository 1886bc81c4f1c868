// Defines the ways to choose the range of values that 8 bits are spread over: the table of methods.
#pragma once

#include "passes/quantize/Statistics.h"

namespace tenon {

struct RangeMethod {
  llvm::StringRef name, summary;
  /// Low and high end; zero lies between them.
  std::pair<double, double> (*choose)(const ValueStatistics &statistics);
};

llvm::ArrayRef<RangeMethod> rangeMethods();
/// Null when there is none of that name.
const RangeMethod *findRangeMethod(llvm::StringRef name);

/// Scale and zero point of int8 for a range.
struct ByteScale {
  float scale = 1;
  int64_t zero = 0;
};
ByteScale byteScale(std::pair<double, double> range);

} // namespace tenon

// Implements how amounts of memory are written.
#include "codegen/core/Bytes.h"

#include <cstdio>

namespace tenon {

std::string formatBytes(int64_t bytes) {
  constexpr int64_t kExact = 10240;
  // From here on a decimal would round up to the next unit's 1.
  constexpr double kNextUnit = 1023.95;
  if (bytes < kExact)
    return std::to_string(bytes) + " B";
  const char *unit = "KiB";
  double amount = double(bytes) / 1024;
  for (const char *larger : {"MiB", "GiB"})
    if (amount >= kNextUnit) {
      unit = larger;
      amount /= 1024;
    }
  char text[32];
  snprintf(text, sizeof text, "%.*f %s", amount == double(int64_t(amount)) ? 0 : 1, amount, unit);
  return text;
}

} // namespace tenon

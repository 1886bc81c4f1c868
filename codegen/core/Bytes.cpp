// Implements how amounts of memory are written.
#include "codegen/core/Bytes.h"

#include <cstdio>

namespace tenon {

std::string formatBytes(int64_t bytes) {
  constexpr int64_t kExact = 10240;
  if (bytes < kExact)
    return std::to_string(bytes) + " B";
  const char *unit = "KiB";
  double amount = double(bytes) / 1024;
  for (const char *larger : {"MiB", "GiB"})
    if (amount >= double(kExact)) {
      unit = larger;
      amount /= 1024;
    }
  char text[32];
  snprintf(text, sizeof text, "%.1f %s", amount, unit);
  return text;
}

} // namespace tenon

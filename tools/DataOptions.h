// Defines the options that say where the inputs of a run come from and what its outputs are
// compared with.
#pragma once

#include <string>
#include <vector>

namespace tenon {

/// Seeded inputs that values between groups are compared on, where nothing else is said: weights
/// behind zeros show in some inputs only.
constexpr unsigned kGroupSeeds = 8;

/// Where inputs come from and what outputs are compared with.
struct DataOptions {
  std::string data, reference, against, check = "outputs", save, saveAll;
  std::vector<std::string> inputs;
  double tolerance = 1e-4, groupTolerance = 1e-4;
  unsigned seeds = 0;
  bool keep = false;
};

} // namespace tenon

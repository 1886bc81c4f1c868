// Defines microcontrollers that are targets by their own names: what a chip has beside a core. The
// table stands in codegen/mcu.
#pragma once

#include "codegen/core/Target.h"

namespace tenon {

/// A memory that data may lie in.
struct ChipMemory {
  llvm::StringRef name;
  int64_t bytes;
};

/// The highest clock, and banks whose addresses follow each other as one memory. Chips.cpp of the
/// family says where the figures are from.
struct Chip {
  llvm::StringRef name, core; // the level of that name
  double megahertz;
  llvm::StringRef summary;
  int64_t flashBytes; // 0: outside of the chip
  std::vector<ChipMemory> memories;

  const ChipMemory *memory(llvm::StringRef name) const;
  const ChipMemory &largest() const;
};

llvm::ArrayRef<Chip> chips();
/// The chip that a level is of; null where a core is meant, or no microcontroller.
const Chip *chipOf(const TargetLevel &level);

} // namespace tenon

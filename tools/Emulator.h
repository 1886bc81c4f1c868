// Defines the emulated boards that programs for Cortex-M targets run on: an image without operating
// system (runtime/harness/emulated.cpp), built by the cross compiler, run by QEMU.
#pragma once

#include "codegen/core/Target.h"

#include <string>
#include <vector>

namespace tenon {

/// A memory of a board: where it begins, and its bytes.
struct BoardMemory {
  uint32_t at, bytes;
};

/// Rows stand in tools/Emulator.cpp.
struct EmulatedBoard {
  llvm::StringRef level;   // "cortex-m4"
  llvm::StringRef machine; // as QEMU calls it
  BoardMemory code, store, ram;
};

/// The board for a target that this machine cannot run; null for others.
const EmulatedBoard *emulatedBoard(const Target &target);

/// The programs that it takes, as PATH has them.
struct EmulatorTools {
  std::string compiler, emulator;
};
/// None after reporting what to install.
llvm::Optional<EmulatorTools> findEmulatorTools(const Target &target, Diagnostics &diagnostics);

/// Options of the cross compiler that build an image for the target's board by the linker script at
/// `script`; for small code where `size` asks for it.
std::vector<std::string> imageOptions(const Target &target, bool size, llvm::StringRef script);
/// Options of the emulator that run the image; `argument` is the image's command line.
std::vector<std::string> emulatorOptions(const EmulatedBoard &board, llvm::StringRef image,
                                         llvm::StringRef argument);

} // namespace tenon

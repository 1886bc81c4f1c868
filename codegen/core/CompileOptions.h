// Defines what emission obeys, and what it tells of the files that it wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace llvm {
class raw_pwrite_stream;
} // namespace llvm

namespace tenon {

struct CompileOptions {
  std::string prefix = "model";
  enum Weights { Auto, Inline, Incbin, File } weights = Auto;
  enum Runtime { Embed, Include } runtime = Embed;
  /// The build command asks for small code (--optimize=size).
  bool size = false;
  /// Calls of the user's functions before and after each step (not CUDA).
  bool hooks = false;
  /// Threads of a context where its program does not say (--threads); above 1 the file has the
  /// machinery for them (not CUDA, not microcontrollers).
  unsigned threads = 1;
  /// Room in a context for the text that one run spells, where it spells any.
  int64_t textBytes = 1 << 16;
  /// CUDA: beyond so many kernels of a program, layers that differ in extents alone share one.
  int64_t kernels = 60;
  /// The header declares a self-test, which codegen/emit/SelfTest.h writes.
  bool selfTest = false;
  /// Stem of the output path, for the weights file's name.
  std::string stem = "model";
  /// Name of the main file, for the build command; empty: the stem with .cpp or .cu.
  std::string source;
  /// One line for the file's head: the options that made it.
  std::string commandLine;
};

struct CompiledFile {
  std::string suffix; // ".cpp", ".cu", ".h", ".weights", "_self_test.c"
  std::string bytes;
  /// In place of `bytes` where they may be more than memory holds: writes them, as often as it is
  /// asked to, as long as the module's context lives.
  std::function<void(llvm::raw_pwrite_stream &)> stream = {};

  void write(llvm::raw_pwrite_stream &os) const;
  /// All of it in memory.
  std::string text() const;
};

/// In which order files cost least to write: weights first, whose hash stands in others.
std::vector<size_t> writingOrder(const std::vector<CompiledFile> &files);

/// What is known of one step once it is written.
struct StepSummary {
  std::string level; // "sm_90a", "sm_90a_rows8" where that is an entry's
  int step = 0;
  double estimatedMicroseconds = 0;
  /// CUDA: the configuration and functors whose names the instance of its kernel carries.
  std::vector<std::string> types;
};

/// A constant's bytes among the weights.
struct WeightPiece {
  std::string name; // of the value in the module
  int64_t at, bytes;
};

struct CompileSummary {
  int nodes = 0;   // ONNX nodes read
  int kernels = 0; // steps written
  /// CUDA: steps whose kernel takes extents as parameters, and such kernels.
  int sharingSteps = 0, sharedKernels = 0;
  int64_t weightBytes = 0, arenaBytes = 0, boundBytes = 0, scratchBytes = 0, stateBytes = 0,
          textBytes = 0;
  double estimatedMicroseconds = 0;
  double megahertz = 0; // microcontrollers: the clock of the estimate
  std::string weightsMode;
  std::vector<StepSummary> steps;
  std::vector<WeightPiece> weights; // CUDA only
};

} // namespace tenon

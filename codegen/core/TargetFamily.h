// Defines target families: one descriptor for each kind of program that is written, with the
// machines that it is for, its kernels, and what sets it apart. Nothing else asks which family a
// target is of.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Tactic.h"

namespace tenon {

struct ScheduleOptions;
struct TargetTraits;

/// What sets a family apart in its programs and for those who run them.
struct FamilyFacts {
  /// Kernels run on a device beside the host: many threads, memory and streams of its own.
  bool device = false;
  /// Programs may allocate, and use files, threads and large stacks. Where they may not, weights
  /// stand in the image and one context is all there is (microcontrollers).
  bool hosted = true;
  /// Elements may be text.
  bool text = false;
  /// --precision may ask for less than fp32.
  bool reducedPrecision = false;
  /// Programs can call functions of the user between layers.
  bool hooks = true;
  /// Inputs and outputs are integers by default where the model quantises them.
  bool quantizedPorts = false;
  /// Its schedules are worth measuring.
  bool tunable = true;
  /// A program runs the module's entries where there are few tokens.
  bool entries = false;
  /// Programs copy the caller's tensors of fixed extents that lie at no multiple of
  /// kPortAlignment (codegen/memory/Alignment.h).
  bool alignsPorts = false;
  /// One file may hold code for several levels.
  bool joinsLevels = false;
};

/// What a scheduled contraction has to do with Tensor Cores: whether its kernel is for them, and if
/// not, why not and what would change it.
struct TensorCoreVerdict {
  bool isContraction = false;
  /// The chosen tactic is for the machine's Tensor Cores.
  bool intended = false;
  /// The share of the machine's fp16 peak that its products may reach: bytes run at twice of it,
  /// tf32 at half, and tf32x3 takes three products for one.
  double rate = 1;
  /// What kept each tactic for Tensor Cores from being chosen: its id and the reason.
  std::vector<std::pair<std::string, std::string>> refusals;
  /// The reason that counts: of those that match the estimate, else the most general tactic's.
  std::string reason;
  /// Precision, shape or option that would bring it to Tensor Cores.
  std::string change;
};

struct TargetFamily {
  llvm::StringRef id;     // what names of its targets begin with: "cuda"
  llvm::StringRef suffix; // of the file that it writes: ".cu"
  FamilyFacts facts;
  llvm::ArrayRef<TargetLevel> (*levels)();
  /// In order of preference at equal cost. Families may share a table.
  llvm::ArrayRef<const Tactic *> (*tactics)();
  llvm::ArrayRef<ScheduleAlias> aliases;
  /// What passes must know, for code that is to run on all of `levels`.
  void (*setTraits)(llvm::ArrayRef<const TargetLevel *> levels, TargetTraits &traits);
  /// Reports what no kernel of the family can do, before scheduling; null: nothing.
  bool (*supports)(Graph &graph, Diagnostics &diagnostics);
  /// What a group computes that deserves hardware which no kernel uses for it; null: nothing ever
  /// does.
  llvm::Optional<std::string> (*worthTensorCores)(const GroupForm &form);
  /// Looks at the group of a choice. `options` are those that it was chosen with. Null where there
  /// are no Tensor Cores.
  TensorCoreVerdict (*judgeTensorCores)(const GroupQuery &in, const Choice &chosen,
                                        const ScheduleOptions &options);
  /// The device compiler's options for the files of a target: language, arithmetic, machine code
  /// for each level. Null where the host's compiler builds them (TargetLevel::buildFlags).
  std::vector<std::string> (*compilerOptions)(const Target &target);
  bool (*emit)(Module &module, const Target &target, const CompileOptions &options,
               std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics);
};

/// Refused where the family of the level has no such kernel.
Result<const Tactic *> findTactic(const TargetLevel &level, llvm::StringRef id);

/// The explicit table, in the order in which users read it.
llvm::ArrayRef<const TargetFamily *> targetFamilies();
/// The first family of each table of tactics.
std::vector<const TargetFamily *> familiesWithOwnTactics();

/// What passes must know of a target.
TargetTraits traitsOf(const Target &target);

} // namespace tenon

// Implements `tenon targets`.
#include "codegen/core/Bytes.h"
#include "codegen/core/Chips.h"
#include "codegen/core/TargetFamily.h"
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

namespace tenon {
namespace {

/// "Nordic nRF52840: cortex-m4 at 64 MHz, ram 256 KiB, flash 1 MiB".
std::string described(const TargetLevel &level) {
  std::string text = level.summary.str();
  const Chip *chip = chipOf(level);
  if (!chip)
    return text;
  text += ": " + level.name.str() + " at " + std::to_string(int(level.megahertz)) + " MHz";
  for (const ChipMemory &m : chip->memories)
    text += ", " + m.name.str() + " " + formatBytes(m.bytes);
  return text + (chip->flashBytes ? ", flash " + formatBytes(chip->flashBytes) : "");
}

void printText(llvm::raw_ostream &os) {
  Diagnostics ignored;
  constexpr unsigned kWidth = 24;
  os << llvm::left_justify("interpreter", kWidth) << "runs and compares only; the reference\n";
  for (const TargetLevel *level : allTargetLevels())
    os << llvm::left_justify(level->fullName(), kWidth) << described(*level) << '\n';
  if (auto native = parseTarget("cpu:native", ignored))
    os << llvm::left_justify("cpu:native", kWidth) << "this machine: " << native->name << '\n';
  os << llvm::left_justify("cuda:native", kWidth) << "this machine's GPU (`tenon doctor`)\n";
  os << "\ncuda levels are joined by '+' (cuda:sm_80+sm_90a); '+ptx' adds forward-compatible PTX.\n"
        "Machines of one architecture run the same files; the one named behind '@' is the one\n"
        "whose times are estimated. Figures of sm_90a are measured, those of the other GPUs are\n"
        "from data sheets: `tenon tune` measures on the machine itself. A chip stands for its "
        "core:\n"
        "the arena has to fit into its largest memory, and times are of its highest clock.\n";
}

void printJson(llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.array([&] {
    for (const TargetLevel *level : allTargetLevels())
      json.object([&] {
        json.attribute("name", level->fullName());
        json.attribute("summary", level->summary);
        if (!level->device.empty())
          json.attribute("device", level->device);
        if (const Chip *chip = chipOf(*level)) {
          json.attribute("core", level->name);
          json.attribute("megahertz", level->megahertz);
          json.attributeObject("memories", [&] {
            for (const ChipMemory &m : chip->memories)
              json.attribute(m.name, m.bytes);
          });
          if (chip->flashBytes)
            json.attribute("flash_bytes", chip->flashBytes);
        }
        if (!level->family->facts.device)
          json.attribute("compiler", level->compiler);
        json.attribute("build_flags", level->buildFlags);
        if (!level->family->facts.hosted)
          json.attributeArray("has", [&] {
            for (auto [has, what] :
                 {std::pair(level->fpu, "fpu"), {level->dsp, "dsp"}, {level->mve, "mve"}})
              if (has)
                json.value(what);
          });
      });
  });
  os << '\n';
}

} // namespace

void declareTargets(CommandLine &app) {
  auto options = std::make_shared<ConsoleOptions>();
  CommandLine sub = app.command("targets", "lists what can be compiled for");
  declare(sub, *options);
  sub.runs([options] {
    options->json ? printJson(llvm::outs()) : printText(llvm::outs());
    return Done;
  });
}

} // namespace tenon

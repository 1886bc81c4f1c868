// Defines Inspection: a model and its compilation as text, JSON, DOT or one HTML page.
#pragma once

#include "codegen/memory/Plan.h"
#include "tools/Footprint.h"
#include "tools/Report.h"

namespace tenon {

struct Inspection {
  std::string model, target;
  /// The levels of the target, in the order of the module's variants.
  std::vector<const TargetLevel *> levels;
  /// Whether the module got as far as kernels.
  bool scheduled = false;
  /// Of microcontrollers.
  llvm::Optional<Footprint> footprint;
  /// Where they were made: what `bench --profile --json` wrote, and the proof of Tensor Cores;
  /// JSON.
  std::string profile, tensorCores;

  /// To be called before any pass: what the file holds.
  void lookAtModel(Module &module);

  void printText(llvm::raw_ostream &os, Compiler &compiler) const;
  void printJson(llvm::raw_ostream &os, Compiler &compiler) const;
  /// Groups (or operations, before scheduling) and the values between them.
  void printDot(llvm::raw_ostream &os, Compiler &compiler) const;
  /// One self-contained page, tools/report/page.html with the JSON in it: it loads nothing.
  void printHtml(llvm::raw_ostream &os, Compiler &compiler) const;

private:
  void printLayers(llvm::raw_ostream &os, Module &module) const;
  void writeVariant(llvm::json::OStream &json, Graph &graph, const Plan &plan,
                    const TargetLevel *level) const;
  void writeLayers(llvm::json::OStream &json, Graph &graph, const Plan &plan,
                   const TargetLevel *level) const;

  struct Port {
    std::string name, type;
  };
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> symbols_;
  std::map<std::string, std::string> facts_;
  /// Operations as imported, by name.
  std::map<std::string, unsigned> operations_;
};

} // namespace tenon

// Defines the textual form: printing and parsing of modules (.tn files). Grammar: docs/ir.md.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <memory>
#include <string>

namespace tenon {

struct PrintOptions {
  /// Literals with more elements than this leave the text: for a side file when `data` is set,
  /// else elided (such text is for reading only; parsing it is an error).
  int64_t inlineElements = 16;
  std::string *data = nullptr;
  bool locations = true;
};

void print(const Module &module, llvm::raw_ostream &os, const PrintOptions &options = {});
void print(const Operation &op, llvm::raw_ostream &os);
std::string toString(const Module &module);

/// Where the parts of a module stand in its text.
struct TextPlaces {
  llvm::SMLoc name, stage;
  std::map<std::string, llvm::SMLoc> facts, symbols; ///< a symbol: where it stands first
  std::vector<llvm::SMLoc> graphs;
  std::vector<llvm::SMLoc> inputs; ///< of the first graph
};
/// What a reader asks of a module beyond what the verifier does; reports errors with places.
using ModuleCheck =
    llvm::function_ref<void(const Module &, const TextPlaces &, Diagnostics &diagnostics)>;

/// Parses and verifies a module. `data` holds the side file's bytes (may be empty). Null after
/// errors, which carry places in `buffer`.
std::unique_ptr<Module> parseModule(Context &context, const llvm::MemoryBuffer &buffer,
                                    llvm::StringRef data, Diagnostics &diagnostics,
                                    ModuleCheck check = nullptr);
/// Prints diagnostics with carets into `buffer`.
void printWithCarets(const Diagnostics &diagnostics, const llvm::MemoryBuffer &buffer,
                     llvm::raw_ostream &os);

/// Reads `path` and `path`.data, writes both through temporaries. Used by the driver.
std::unique_ptr<Module> readModule(Context &context, llvm::StringRef path, Diagnostics &diagnostics,
                                   ModuleCheck check = nullptr);
/// The same of a text in memory; `data` is the side file's bytes, `name` is for messages.
std::unique_ptr<Module> readModule(Context &context, const llvm::MemoryBuffer &text,
                                   llvm::StringRef data, llvm::StringRef name,
                                   Diagnostics &diagnostics, ModuleCheck check = nullptr);
bool writeModule(const Module &module, llvm::StringRef path, Diagnostics &diagnostics);

} // namespace tenon

// Defines the textual form: printing and parsing of modules (.tn files). Grammar: docs/ir.md.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

#include "llvm/Support/MemoryBuffer.h"

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

/// Parses and verifies a module. `data` holds the side file's bytes (may be empty). Null after
/// errors, which carry places in `buffer`.
std::unique_ptr<Module> parseModule(Context &context, const llvm::MemoryBuffer &buffer,
                                    llvm::StringRef data, Diagnostics &diagnostics);
/// Prints diagnostics with carets into `buffer`.
void printWithCarets(const Diagnostics &diagnostics, const llvm::MemoryBuffer &buffer,
                     llvm::raw_ostream &os);

/// Reads `path` and `path`.data, writes both through temporaries. Used by the driver.
std::unique_ptr<Module> readModule(Context &context, llvm::StringRef path,
                                   Diagnostics &diagnostics);
bool writeModule(const Module &module, llvm::StringRef path, Diagnostics &diagnostics);

} // namespace tenon

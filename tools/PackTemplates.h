// Defines the templates of `tenon pack`, which the build takes from tools/pack
// (cmake/embed_templates.py).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tenon {

/// One file: its path begins with the kind of project; words between @ stand for others in both.
struct PackTemplate {
  const char *path, *text;
};

llvm::ArrayRef<PackTemplate> packTemplates();

} // namespace tenon

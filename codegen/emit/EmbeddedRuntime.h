//===- EmbeddedRuntime.h - The runtime/ headers inside the compiler --------===//
//
// Declares the table of all files below runtime/, put into the compiler by the
// build (cmake/embed_runtime.py). Amalgamation copies from it, so that a `tenon`
// binary needs no source tree beside it.
//
//===----------------------------------------------------------------------===//

#ifndef TENON_CODEGEN_EMBEDDEDRUNTIME_H
#define TENON_CODEGEN_EMBEDDEDRUNTIME_H

#include <cstddef>

namespace tenon {

/// One file: its path relative to runtime/ with forward slashes, and its text,
/// which is followed by a null character that `size` does not count.
struct EmbeddedFile {
  const char *path;
  const char *data;
  size_t size;
};

/// All files, sorted bytewise by path.
extern const EmbeddedFile kEmbeddedRuntime[];
extern const size_t kEmbeddedRuntimeCount;

} // namespace tenon

#endif // TENON_CODEGEN_EMBEDDEDRUNTIME_H

// Defines how the options of a caller are read, whose header may be older or newer than the
// program.
#ifndef TENON_RUNTIME_COMMON_OPEN_OPTIONS_H
#define TENON_RUNTIME_COMMON_OPEN_OPTIONS_H

#include "common/base.h"

#include <string.h>

namespace tenon {

/// Copies what a caller gave over `out`, which holds the defaults. `Options` is the generated
/// struct, whose first member is the caller's size of it. False where that was never set, or where
/// the caller says something that this program does not know: bytes beyond the struct that are not
/// zero.
template <class Options> bool read_options(const Options *given, Options &out) {
  if (!given)
    return true;
  constexpr size_t known = sizeof(Options);
  if (given->size < sizeof(given->size))
    return false;
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(given);
  for (size_t i = known; i < given->size; ++i)
    if (bytes[i] != 0)
      return false;
  memcpy(&out, given, given->size < known ? given->size : known);
  return true;
}

/// Where memory comes from: both functions, or neither for the target's own. What a host has
/// without functions is for the target to say.
struct memory_source {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *block);
  void *user;
};

} // namespace tenon

#endif

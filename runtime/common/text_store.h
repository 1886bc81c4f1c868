// Defines text_store: room in a context for the text that a run spells. Every run starts it afresh.
#ifndef TENON_RUNTIME_COMMON_TEXT_STORE_H
#define TENON_RUNTIME_COMMON_TEXT_STORE_H

#include <stddef.h>

namespace tenon {

struct text_store {
  char *next;
  char *end;
  bool full; // something found no room, and is empty

  /// `size` bytes; null where there are not so many.
  char *take(size_t size) {
    if (size > size_t(end - next)) {
      full = true;
      return nullptr;
    }
    char *const at = next;
    next += size;
    return at;
  }
};

} // namespace tenon

#endif

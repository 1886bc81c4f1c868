// Defines what a context of a decoder (common/decoder.h) remembers at the beginning of its memory.
#ifndef TENON_RUNTIME_COMMON_DECODER_STATE_H
#define TENON_RUNTIME_COMMON_DECODER_STATE_H

#include <stddef.h>
#include <string.h>

namespace tenon {

struct decoder_state {
  int last_row; // of the logits, where the last token's are; -1: there are none
  long length;  // of the caches with that token

  /// Its room in bytes: what lies behind is aligned.
  static constexpr size_t room = 64;
  /// There are no logits: bytes of all ones.
  static void forget(void *memory) { memset(memory, 0xff, room); }
};

} // namespace tenon

#endif

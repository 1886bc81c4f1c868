// Defines repeat: the loop of a model whose trips and condition are known at run time.
//
//   const int code = repeat(trips, going, room, count, [&](int64_t i, bool &going) {
//     ...              // one trip; `going` says whether another follows
//     return int(ok);  // or the code that ends the run
//   });
//
// Runs while i < trips and `going` holds. `count` receives the trips that were run. A trip beyond
// `room`, the number that the buffers of stacked results hold, is dimension_out_of_range instead.
#ifndef TENON_RUNTIME_CPU_REPEAT_H
#define TENON_RUNTIME_CPU_REPEAT_H

#include "cpu/program.h"

namespace tenon {
namespace cpu {

/// The room of a loop that stacks nothing.
inline constexpr int64_t any_number = int64_t(~uint64_t(0) >> 1);

template <class Trip>
int repeat(int64_t trips, bool going, int64_t room, int64_t &count, const Trip &trip) {
  for (count = 0; count < trips && going; ++count) {
    if (count == room)
      return dimension_out_of_range;
    const int code = trip(count, going);
    if (code != ok)
      return code;
  }
  return ok;
}

} // namespace cpu
} // namespace tenon

#endif

// Declares mutations that know the structure of what they change, for the fuzz targets beside this
// file, and the two entry points by which libFuzzer and Replay.cpp reach a target.
//
// Bits flipped at random rarely get past protobuf, or past the first token of a text; these change
// one part and leave the rest readable.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <iterator>
#include <limits>
#include <random>
#include <string>

namespace tenon::fuzz {

using Random = std::minstd_rand;

/// A number in [0, count).
inline size_t pick(Random &random, size_t count) { return count ? size_t(random() % count) : 0; }
/// A number that an extent, axis or count may well be, or a very large or negative one.
inline int64_t interesting(Random &random) {
  constexpr int64_t kNumbers[] = {std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max(),
                                  -(int64_t(1) << 31),
                                  int64_t(1) << 31,
                                  int64_t(1) << 33,
                                  int64_t(1) << 40,
                                  65'537,
                                  255,
                                  -2};
  // Mostly small: what is small gets far.
  return pick(random, 4) ? int64_t(pick(random, 10)) - 1
                         : kNumbers[pick(random, std::size(kNumbers))];
}

/// The ONNX model `bytes` with one to four parts changed; empty where they are no model.
std::string mutatedModel(llvm::StringRef bytes, Random &random);
/// The IR text with one to four tokens or lines changed.
std::string mutatedText(llvm::StringRef text, Random &random);

} // namespace tenon::fuzz

extern "C" {
/// Gives `size` bytes to the code under test; a finding ends the process.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/// Changes `data` in place, up to `most` bytes, and returns the new size.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
/// A change without knowledge of structure: libFuzzer's own, or Replay.cpp's.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
}

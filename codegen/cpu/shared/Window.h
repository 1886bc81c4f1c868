// Defines what the tactics of windowed operations (conv, conv_transpose, pool) share.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/emit/StepWriter.h"

namespace tenon::cpu {

/// Places of (n, c, [h,] w) among (n, c, h, w); those of a volume's dimensions are their own.
llvm::SmallVector<int, 6> planePlaces(const ConvProblem &p);

/// Writes batch, in, out, kernel, strides, dilations, pads and pads_end of a windowed operation of
/// any rank, as runtime/cpu/window_direct.h reads them.
void writeWindow(StepWriter::Config &cfg, const Operation &op, llvm::ArrayRef<int64_t> kernel);

/// How kernels for words of four bytes (runtime/cpu/conv_bytes.h) go through a window, with
/// `perWord` elements in a word: by rows of taps of one channel, or by the channels of a tap.
struct WordRuns {
  bool alongRow;
  int64_t words; // of a window
};
/// Runs are what lies side by side in x, whose strides are over (n, c, h, w): channels, unless
/// there is one or they are planes.
WordRuns wordRuns(const ConvProblem &p, const Strides &x, int64_t perWord);
/// Rows that a tile of patches of pairs may have: they are on the stack, of two words for each of
/// `words` where they are widened. 0 where not even one has room.
int64_t mostRowsOfPairs(int64_t words);
/// Weights as these kernels read them: dimensions `leading`, blocks of `lanes` filters, the
/// dimensions of `line`, the last of which is the run and goes by words, and the lanes.
Layout packedWords(Type w, llvm::ArrayRef<int> leading, int filter, llvm::ArrayRef<int> line,
                   int64_t lanes, int64_t perWord);

} // namespace tenon::cpu

// Declares sampling: images read between their pixels, at positions computed at run time.
// GridSample, RoiAlign and DeformConv differ in where those are and in what counts beyond the
// border.
#pragma once

#include "frontend/onnx/Common.h"

#include <functional>

namespace tenon::frontend {

/// An image [batch, channels, extents…] as rows of channels, one a pixel.
struct Pixels {
  Value *rows; // [batch · extents…, channels]
  Shape extents;
  /// Of each dimension what bodies read its extent from, i64 []; null where it is known.
  llvm::SmallVector<Value *, 3> lengths;
};
/// The pixels of `image`; None after an error.
llvm::Optional<Pixels> pixelsOf(Node &n, Value *image);

/// Extents of an image within a body: constants, and values that follow the body's own.
struct PixelExtents {
  const Pixels &pixels;
  llvm::ArrayRef<Value *> open;

  /// Operands of the body behind `count` others, with how they are read.
  static void append(const Pixels &pixels, llvm::SmallVectorImpl<Value *> &operands,
                     std::vector<IndexMap> &maps);
  /// i64
  Value *whole(Scalars &s, size_t dim) const;
  /// The product of all behind `dim`, i64: the distance of two rows.
  Value *stride(Scalars &s, size_t dim) const;
  /// In the type that `s` computes in.
  Value *operator()(Scalars &s, size_t dim) const { return s.cast(whole(s, dim), s.type); }
};

/// One neighbour along one dimension: where it is (i64, inside the image) and what it weighs.
struct Tap {
  Value *index = nullptr, *weight = nullptr;
};
using Taps = llvm::SmallVector<Tap, 4>;

/// What is sampled at each point of an iteration space.
struct Sampling {
  /// Operands of the bodies below and how they are read; the first one says what to compute in.
  llvm::SmallVector<Value *, 6> operands;
  std::vector<IndexMap> maps;
  Shape space;
  /// Neighbours along each dimension of the image, whose extent is given in the type of computing.
  size_t taps = 2;
  std::function<Taps(Scalars &, llvm::ArrayRef<Value *>, size_t dim, Value *extent)> neighbours;
  /// Which image of the batch (i64).
  std::function<Value *(Scalars &, llvm::ArrayRef<Value *>)> image;
  /// Takes the largest weighted pixel instead of their sum.
  bool largest = false;
};
/// The samples [space…, channels]; null after an error.
Value *sample(Builder &b, const Pixels &pixels, const Sampling &how);

/// x limited to [low, high]; low where it is NaN, so that the result can become an index.
Value *limited(Scalars &s, Value *x, Value *low, Value *high);
Value *limited(Scalars &s, Value *x, double low, double high);
/// The two neighbours of position x for linear interpolation, each weighing 0 where it lies outside
/// of `extent` pixels.
Taps linearTaps(Scalars &s, Value *x, Value *extent);
/// Weights of the four neighbours at distance `t` behind the second: cubic convolution with
/// coefficient `a`.
llvm::SmallVector<Value *, 4> cubicWeights(Scalars &s, Value *t, double a);
/// [first, rest…, channels] as [first, channels, rest…].
Value *channelsSecond(Builder &b, Value *v);

} // namespace tenon::frontend

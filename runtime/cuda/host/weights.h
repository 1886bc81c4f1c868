// Defines how a model's weights come to the device: pieces that the caller has there are read where
// they lie, the rest is uploaded once.
#ifndef TENON_RUNTIME_CUDA_HOST_WEIGHTS_H
#define TENON_RUNTIME_CUDA_HOST_WEIGHTS_H

#include "common/open_options.h"
#include "cuda/host/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace tenon {
namespace cuda {

/// What a weights file begins with; the weights follow.
struct weights_header {
  char magic[8]; // "TENONWT1"
  uint64_t bytes;
  uint64_t hash;
  uint64_t reserved;
};

/// Where the weights are: ranges that cover all of them.
struct device_weights {
  unsigned char *own; // what is not shared
  weight_range *ranges;
  int count;
};

namespace detail {

/// Constants begin at multiples of so many bytes of the weights.
constexpr size_t constant_alignment = 64;

inline size_t next_multiple(size_t n, size_t of) { return (n + of - 1) / of * of; }

/// What reading a weights file needs for a while.
struct upload {
  static constexpr size_t piece = size_t(4) << 20;
  FILE *file = nullptr;
  unsigned char *pinned = nullptr; // two pieces
  cudaStream_t stream = nullptr;
  cudaEvent_t done[2] = {};
  int turn = 0;

  upload() = default;
  upload(const upload &) = delete;
  upload &operator=(const upload &) = delete;
  ~upload() {
    for (cudaEvent_t e : done)
      if (e)
        (void)cudaEventDestroy(e);
    if (stream)
      (void)cudaStreamDestroy(stream);
    if (pinned)
      (void)cudaFreeHost(pinned);
    if (file)
      (void)fclose(file);
  }
  status open(const char *path) {
    file = fopen(path, "rb");
    if (!file)
      return weights_unreadable;
    void *p = nullptr;
    TENON_CHECK_CUDA(cudaHostAlloc(&p, 2 * piece, cudaHostAllocDefault));
    pinned = static_cast<unsigned char *>(p);
    TENON_CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t &e : done)
      TENON_CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return ok;
  }
  /// Copies `bytes` from where the file stands; each piece is read while the one before is on its
  /// way.
  status copy(unsigned char *to, size_t bytes) {
    for (size_t at = 0; at < bytes; at += piece, turn ^= 1) {
      const size_t n = bytes - at < piece ? bytes - at : piece;
      unsigned char *from = pinned + size_t(turn) * piece;
      TENON_CHECK_CUDA(cudaEventSynchronize(done[turn]));
      if (fread(from, 1, n, file) != n)
        return weights_unreadable;
      TENON_CHECK_CUDA(cudaMemcpyAsync(to + at, from, n, cudaMemcpyHostToDevice, stream));
      TENON_CHECK_CUDA(cudaEventRecord(done[turn], stream));
    }
    return ok;
  }
};

inline bool belongs(const weights_header &header, const program &code) {
  return memcmp(header.magic, "TENONWT1", 8) == 0 && header.bytes == code.weight_bytes &&
         header.hash == code.weight_hash;
}

/// Copies the model's own ranges from all of the weights in host memory.
inline status upload_memory(const device_weights &w, const unsigned char *from) {
  for (int i = 0; i < w.count; ++i)
    if (const weight_range &r = w.ranges[i]; r.own_bytes > 0)
      TENON_CHECK_CUDA(
          cudaMemcpy(w.own + r.place, from + r.begin, r.own_bytes, cudaMemcpyHostToDevice));
  // From pageable memory the last piece may still be on its way when the call returns.
  return from_cuda(cudaStreamSynchronize(nullptr));
}

/// Copies them from what the caller says are the bytes of a weights file.
inline status upload_given(const program &code, const device_weights &w, const void *file,
                           size_t bytes) {
  weights_header header;
  if (bytes != sizeof(header) + code.weight_bytes)
    return weights_mismatch;
  memcpy(&header, file, sizeof(header));
  if (!belongs(header, code))
    return weights_mismatch;
  return upload_memory(w, static_cast<const unsigned char *>(file) + sizeof(header));
}

/// Copies them from a file piece by piece, so that neither the whole file nor its pages stay in
/// host memory.
inline status upload_file(const program &code, const device_weights &w, const char *path) {
  upload u;
  TENON_CHECK(u.open(path));
  weights_header header;
  if (fread(&header, sizeof(header), 1, u.file) != 1)
    return weights_unreadable;
  if (!belongs(header, code))
    return weights_mismatch;
  size_t at = 0;
  for (int i = 0; i < w.count; ++i) {
    const weight_range &r = w.ranges[i];
    if (r.own_bytes == 0)
      continue;
    if (r.begin != at && fseek(u.file, long(sizeof(header) + r.begin), SEEK_SET) != 0)
      return weights_unreadable;
    TENON_CHECK(u.copy(w.own + r.place, r.own_bytes));
    at = r.begin + r.own_bytes;
  }
  return from_cuda(cudaStreamSynchronize(u.stream));
}

/// Lays out the ranges around the pieces that the caller shares; gives the bytes of the model's
/// own memory. `Piece` is the generated struct.
template <class Piece>
status lay_out(const program &code, device_weights &w, const Piece *shared, size_t count,
               size_t &own) {
  if (count > 0 && (!shared || count > size_t(1) << 24))
    return invalid_argument;
  w.ranges = static_cast<weight_range *>(calloc(2 * count + 1, sizeof(weight_range)));
  if (!w.ranges)
    return out_of_memory;
  size_t at = 0;
  const auto own_until = [&](size_t end) {
    if (at == end)
      return;
    // As far from a multiple as among all of the weights: kernels are written for that.
    const size_t place = next_multiple(own, memory_alignment) + at % memory_alignment;
    w.ranges[w.count++] = {at, nullptr, place, end - at};
    own = place + (end - at);
  };
  for (const Piece *p = shared; p != shared + count; ++p) {
    if (p->offset < at || p->offset >= code.weight_bytes || p->offset % constant_alignment != 0 ||
        p->bytes == 0 || p->bytes > code.weight_bytes - p->offset || !p->data ||
        reinterpret_cast<uintptr_t>(p->data) % memory_alignment != 0)
      return invalid_argument;
    own_until(p->offset);
    w.ranges[w.count++] = {p->offset, static_cast<const unsigned char *>(p->data), 0, 0};
    at = next_multiple(p->offset + p->bytes, constant_alignment);
  }
  own_until(code.weight_bytes);
  return ok;
}

/// `Options` is the generated struct, which says what is shared, and where weights are that the
/// program has not.
template <class Options>
status bring_weights(const program &code, const memory_source &memory, const Options &o,
                     device_weights &w) {
  if (code.weight_bytes == 0)
    return o.shared_count == 0 ? ok : invalid_argument;
  size_t own = 0;
  TENON_CHECK(lay_out(code, w, o.shared, o.shared_count, own));
  if (own == 0)
    return ok;
  w.own = static_cast<unsigned char *>(memory.allocate(memory.user, own, memory_alignment));
  if (!w.own)
    return out_of_memory;
  for (int i = 0; i < w.count; ++i)
    if (weight_range &r = w.ranges[i]; r.own_bytes > 0)
      r.data = w.own + r.place;
  if (code.weights)
    return upload_memory(w, code.weights);
  if (o.weights)
    return upload_given(code, w, o.weights, o.weights_bytes);
  return o.weights_path ? upload_file(code, w, o.weights_path) : weights_unreadable;
}

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif

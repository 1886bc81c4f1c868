// Defines how kernels are launched.
//
// A kernel is a struct that holds its arguments and says
//   static constexpr int threads, blocks_per_sm;       its launch bounds
//   grid blocks() const;                               host: the launch it needs
//   void run(unsigned char *shared) const;             device: what it does
// and, where it is not as most are,
//   static constexpr int cluster_blocks;               how many blocks along x are one cluster
//                                                      (sm_90 and up), at most 8
//   TENON_FN static constexpr bool runs_on(target);    architectures it is written for
//   int shared_bytes() const;                          host: shared memory that it needs
//   status complete();                                 host: what depends on addresses
//   void prefetch(unsigned char *shared) const;        device: before the dependency wait; may read
//                                                      weights and the program's inputs, nothing
//                                                      else
//   static constexpr bool lets_next_begin;             run() itself calls launch_dependents, once
//                                                      its rows are there: what the next kernel
//                                                      brings would delay them
// or, where what is computed before that wait is wanted after it,
//   State prefetch(unsigned char *shared) const;
//   void run(unsigned char *shared, const State &) const;
// cuda/host/entry.cuh makes a __global__ function of it.
#ifndef TENON_RUNTIME_CUDA_HOST_LAUNCH_H
#define TENON_RUNTIME_CUDA_HOST_LAUNCH_H

#include "cuda/host/function.cuh"
#include "cuda/host/live.h"
#include "cuda/host/smem_partition.h"
#include "cuda/status.h"

namespace tenon {
namespace cuda {

/// ok when the file was really compiled for the architectures of Variant.
template <class Variant> status check_build() {
  cudaFuncAttributes attributes;
  const cudaError_t e = cudaFuncGetAttributes(&attributes, probe_of<Variant>());
  if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
    (void)cudaGetLastError();
    return wrong_build;
  }
  TENON_CHECK_CUDA(e);
  return Variant::contains({attributes.ptxVersion * 10, attributes.sharedSizeBytes >= 4096})
             ? ok
             : wrong_build;
}

namespace detail {
template <class... T> constexpr bool are_equal([[maybe_unused]] int first, T... others) {
  return ((first == others) && ...);
}
} // namespace detail

/// Where a program's launches go. Steps hand their kernels to `launch` and know nothing else.
class issue {
public:
  enum class mode {
    /// Loads each kernel and sets its limits; counts the launches.
    configure,
    /// Launches on a stream, which may be being captured.
    launch,
    /// Gives the captured nodes their arguments anew; graph_outgrown where other launches would be
    /// empty than in the capture.
    update,
    /// Notes what live launches are given.
    note,
  };

  /// `early`: of kernels that may start before the one ahead of them has finished, else null.
  static issue configure(int shared_limit, const early_starts *early) {
    issue i(mode::configure, early);
    i.shared_limit_ = shared_limit;
    return i;
  }
  /// `early`: likewise; the first may not.
  static issue launch_on(cudaStream_t stream, const early_starts *early,
                         unsigned long long *stamps) {
    issue i(mode::launch, early);
    i.stream_ = stream;
    i.stamps_ = stamps;
    return i;
  }
  /// `early`: as when `graph` was captured; null where not all of its kernels are issued, which
  /// then keep the shares of memory that they have.
  static issue update(cudaGraphExec_t graph, const cudaGraphNode_t *nodes,
                      const early_starts *early, unsigned long long *stamps) {
    issue i(mode::update, early);
    i.graph_ = graph;
    i.nodes_ = nodes;
    i.stamps_ = stamps;
    return i;
  }

  static issue note(live_record *live) {
    issue i(mode::note, nullptr);
    i.noted_ = live;
    return i;
  }
  /// Live launches take their arguments from a place on the device.
  void take_arguments(live_place place) { place_ = place; }

  /// Goes on on another stream. `chained`: the launch before on that stream is all there is to wait
  /// for, so that the next one may start early.
  void go_on(cudaStream_t stream, bool chained) {
    stream_ = stream;
    launched_ = chained;
  }
  /// Whether anything was launched on that stream since, or `chained` was said.
  bool has_launched() const { return launched_; }

  /// How many launches were issued so far.
  int ordinal() const { return ordinal_; }
  void set_ordinal(int n) { ordinal_ = n; }

  template <class Variant, class K> status launch(const K &kernel) {
    return launch_one_of<Variant>(0, kernel);
  }
  /// The kernel at place `which` of several that make the same results, each for extents of its
  /// own. All are made ready, and take one place in the sequence, whose captured node goes from one
  /// to another.
  template <class Variant, class... K> status launch_one_of(int which, K... kernels) {
    return launch_calls<Variant, false>(which, kernels...);
  }
  /// The same of a step whose arguments follow from the length of a decoder's caches.
  template <class Variant, class... K> status launch_live(int which, K... kernels) {
    return launch_calls<Variant, true>(which, kernels...);
  }

private:
  template <class Variant, bool Live, class... K>
  status launch_calls([[maybe_unused]] int which, [[maybe_unused]] K &...kernels) {
#if defined(__CUDA_ARCH__)
    // The passes for devices want to know which kernels there are, and compile nothing of this.
    if constexpr (Live)
      return ((function_of<Variant, K>() && live_function_of<Variant, K>()) && ...)
                 ? ok
                 : invalid_argument;
    else
      return (function_of<Variant, K>() && ...) ? ok : invalid_argument;
#else
    static_assert(detail::are_equal(detail::cluster_of<K>...), "a captured node keeps its cluster");
    const detail::kernel_call calls[] = {
        {function_of<Variant, K>(), kernels.blocks(), K::threads, detail::cluster_of<K>,
         detail::shared_memory<K>::bytes(kernels), &kernels, detail::completion<K>::function,
         live_of<Variant, Live, K>(), sizeof(K), detail::clear_padding<K>}...};
    return launch(calls, int(sizeof...(K)), which);
#endif
  }
  template <class Variant, bool Live, class K> static const void *live_of() {
    if constexpr (Live)
      return live_function_of<Variant, K>();
    else
      return nullptr;
  }

  issue(mode m, const early_starts *early) : mode_(m), early_(early) {
    if (early)
      shares_ = shares(*early);
  }

  /// Apart from the template: compiled once, not for every step.
  status launch(const detail::kernel_call *calls, int count, int which) {
    const int ordinal = ordinal_++;
    if (mode_ == mode::configure)
      return configure_kernels(calls, count);
    const detail::kernel_call &call = calls[which];
    if (mode_ == mode::note)
      return call.live ? noted_->add(calls, count, which) : ok;
    if (call.live && place_.arguments)
      return launch_slots(calls, count, ordinal);
    const grid &blocks = call.blocks;
    if (mode_ == mode::update && is_empty(blocks) != !nodes_[ordinal])
      return graph_outgrown;
    if (is_empty(blocks))
      return ok; // nothing to compute
    if (blocks.x < 0 || blocks.y < 0 || blocks.z < 0 || blocks.x > 0x7fffffffL ||
        blocks.y > 65535 || blocks.z > 65535)
      return dimension_out_of_range;
    if (call.complete)
      TENON_CHECK(call.complete(call.kernel));
    launch_tag tag = tag_of(ordinal);
    void *arguments[] = {call.kernel, &tag};
    const dim3 extent(unsigned(blocks.x), unsigned(blocks.y), unsigned(blocks.z));
    const int share = shares_.next(blocks, call.shared);
    return mode_ == mode::launch
               ? launch_kernel(call.function, extent, call.threads, call.cluster, share, arguments)
               : update_kernel(call.function, extent, call.threads, share, arguments);
  }
  /// Each kernel that is the one at some length; the others' blocks find that they are too many.
  status launch_slots(const detail::kernel_call *calls, int count, int ordinal) {
    launch_tag tag = tag_of(ordinal);
    for (int i = 0; i < count; ++i) {
      const live_slot &slot = *place_.next++;
      if (!slot.is_used())
        continue;
      detail::live_pointers live = place_.pointers(slot);
      void *arguments[] = {&live, &tag};
      const dim3 extent(unsigned(slot.most.x), unsigned(slot.most.y), unsigned(slot.most.z));
      TENON_CHECK(launch_kernel(calls[i].live, extent, calls[i].threads, calls[i].cluster,
                                shares_.next(slot.most, slot.shared), arguments));
    }
    return ok;
  }
  launch_tag tag_of(int ordinal) const {
    launch_tag tag{};
    tag.ordinal = ordinal;
#if defined(TENON_PROFILE)
    tag.stamps = stamps_ + 2 * ordinal;
#endif
    return tag;
  }
  static bool is_empty(const grid &g) { return g.x == 0 || g.y == 0 || g.z == 0; }

  /// Each may be given as much shared memory as any of them was captured with.
  status configure_kernels(const detail::kernel_call *calls, int count) {
    int most = 0;
    for (int i = 0; i < count; ++i)
      most = calls[i].shared > most ? calls[i].shared : most;
    for (int i = 0; i < count; ++i) {
      TENON_CHECK(configure_kernel(calls[i], calls[i].function, shares_.most(most)));
      if (calls[i].live)
        TENON_CHECK(configure_kernel(calls[i], calls[i].live, shares_.most(most)));
    }
    return ok;
  }
  status configure_kernel(const detail::kernel_call &call, const void *function, int most) {
    cudaFuncAttributes attributes;
    TENON_CHECK_CUDA(cudaFuncGetAttributes(&attributes, function));
    if (call.shared + int(attributes.sharedSizeBytes) > shared_limit_)
      return too_little_shared_memory;
    // Other layers may have the same kernel: what one was given is not taken away.
    if (most > 48 * 1024 && most > attributes.maxDynamicSharedSizeBytes)
      TENON_CHECK_CUDA(
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    // A block that begins early meets those of the kernel before on its multiprocessor, which has
    // to be empty before it divides its memory otherwise. So all kernels whose blocks find a place
    // at once divide it alike; to others the first-level cache is worth more.
    if (early_ && is_at_most(call.blocks, 2 * early_->multiprocessors))
      TENON_CHECK_CUDA(cudaFuncSetAttribute(function,
                                            cudaFuncAttributePreferredSharedMemoryCarveout,
                                            cudaSharedmemCarveoutMaxShared));
    return ok;
  }
  status launch_kernel(const void *function, dim3 blocks, int threads, int cluster, int shared,
                       void **arguments) {
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    // What runs before the first kernel is the caller's, or another branch's: an ordinary edge.
    if (early_ && launched_) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim.x = unsigned(cluster);
      attributes[count].val.clusterDim.y = 1;
      attributes[count++].val.clusterDim.z = 1;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = dim3(unsigned(threads));
    config.dynamicSmemBytes = size_t(shared);
    config.stream = stream_;
    config.attrs = attributes;
    config.numAttrs = count;
    launched_ = true;
    return from_cuda(cudaLaunchKernelExC(&config, function, arguments));
  }
  status update_kernel(const void *function, dim3 blocks, int threads, int shared,
                       void **arguments) {
    const cudaGraphNode_t node = nodes_[static_cast<launch_tag *>(arguments[1])->ordinal];
    cudaKernelNodeParams captured{}, params{};
    if (!early_)
      TENON_CHECK_CUDA(cudaGraphKernelNodeGetParams(node, &captured));
    params.func = const_cast<void *>(function);
    params.gridDim = blocks;
    params.blockDim = dim3(unsigned(threads));
    params.sharedMemBytes = unsigned(shared);
    if (captured.sharedMemBytes > params.sharedMemBytes)
      params.sharedMemBytes = captured.sharedMemBytes;
    params.kernelParams = arguments;
    return from_cuda(cudaGraphExecKernelNodeSetParams(graph_, node, &params));
  }

  mode mode_;
  int ordinal_ = 0;
  int shared_limit_ = 0;
  const early_starts *early_;
  shares shares_;
  bool launched_ = false;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  const cudaGraphNode_t *nodes_ = nullptr;
  unsigned long long *stamps_ = nullptr;
  live_record *noted_ = nullptr;
  live_place place_;
};

/// What a live step hands its kernels to.
class live_issue {
public:
  explicit live_issue(issue &to) : to_(to) {}
  template <class Variant, class K> status launch(const K &kernel) {
    return to_.launch_live<Variant>(0, kernel);
  }
  template <class Variant, class... K> status launch_one_of(int which, K... kernels) {
    return to_.launch_live<Variant>(which, kernels...);
  }

private:
  issue &to_;
};

} // namespace cuda
} // namespace tenon

#endif

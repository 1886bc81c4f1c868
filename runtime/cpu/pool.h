// Defines tenon::cpu::pool, the workers a kernel may spread its loop over.
//
//   pool.parallel_for(count, grain, [&](index_t begin, index_t end) { ... });
//
// calls the body on ranges that cover [0, count), each a multiple of `grain` long but the last.
// Without TENON_THREADS it is one plain call and no header is needed. With it, `pool(n)` keeps n-1
// threads, which spin for some ten microseconds after each job before they sleep: between two
// kernels of one inference a wake-up would cost more than the kernel. One job runs at a time; a
// pool belongs to one context.
#ifndef TENON_RUNTIME_CPU_POOL_H
#define TENON_RUNTIME_CPU_POOL_H

#include "common/base.h"

#if defined(TENON_THREADS)
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#endif

namespace tenon {
namespace cpu {

#if !defined(TENON_THREADS)

class pool {
public:
  constexpr explicit pool(int = 1) {}
  int size() const { return 1; }
  template <class F> TENON_FN void parallel_for(index_t count, index_t, const F &body) {
    if (count > 0)
      body(index_t(0), count);
  }
};

#else

class pool {
public:
  /// The number of threads that work, the calling one included; at most `max_threads`.
  static constexpr int max_threads = 64;

  explicit pool(int threads = 1)
      : threads_(threads < 1             ? 1
                 : threads > max_threads ? max_threads
                                         : threads) {
    for (int i = 1; i < threads_; ++i)
      workers_[i] = std::thread([this] { serve(); });
  }
  ~pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (int i = 1; i < threads_; ++i)
      workers_[i].join();
  }
  pool(const pool &) = delete;
  pool &operator=(const pool &) = delete;

  int size() const { return threads_; }

  template <class F> void parallel_for(index_t count, index_t grain, const F &body) {
    grain = grain < 1 ? 1 : grain;
    const index_t pieces = (count + grain - 1) / grain;
    if (threads_ == 1 || pieces <= 1) {
      if (count > 0)
        body(index_t(0), count);
      return;
    }
    job_ = {[](const void *f, index_t b, index_t e) { (*static_cast<const F *>(f))(b, e); }, &body,
            count, grain, pieces};
    next_.store(0, std::memory_order_relaxed);
    busy_.store(threads_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) {
      { std::lock_guard<std::mutex> lock(mutex_); }
      wake_.notify_all();
    }
    drain();
    while (busy_.load(std::memory_order_acquire) != 0)
      relax();
  }

private:
  struct job {
    void (*call)(const void *, index_t, index_t);
    const void *body;
    index_t count, grain, pieces;
  };

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  /// Takes pieces of the current job until none is left: each time a share of the rest, so that the
  /// first chunks are long, for a kernel prepares each anew, and threads of unequal speed end
  /// within one piece of each other.
  void drain() {
    const index_t pieces = job_.pieces, share = index_t(threads_) * 2;
    index_t first = next_.load(std::memory_order_relaxed);
    while (first < pieces) {
      const index_t last = first + (pieces - first + share - 1) / share;
      if (!next_.compare_exchange_weak(first, last, std::memory_order_relaxed))
        continue; // `first` is what another thread left
      const index_t end = last * job_.grain;
      job_.call(job_.body, first * job_.grain, end < job_.count ? end : job_.count);
      first = next_.load(std::memory_order_relaxed);
    }
  }

  void serve() {
    unsigned seen = 0;
    for (;;) {
      for (int spin = 0; generation_.load(std::memory_order_acquire) == seen; ++spin) {
        if (spin < 2000) {
          relax();
          continue;
        }
        std::unique_lock<std::mutex> lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen; });
        sleeping_.fetch_sub(1, std::memory_order_seq_cst);
      }
      ++seen;
      if (stopping_.load(std::memory_order_acquire))
        return;
      drain();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int threads_;
  std::thread workers_[max_threads];
  job job_ = {};
  std::atomic<unsigned> generation_{0};
  std::atomic<index_t> next_{0};
  std::atomic<int> busy_{0}, sleeping_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

#endif

} // namespace cpu
} // namespace tenon

#endif

// Defines the machine that runs kernels on the CPU: each thread of a block is a fiber that runs
// until its next barrier or warp exchange. Fibers are resumed in an order that changes at every
// turn, so that a missing barrier shows as wrong data. Blocks run one after another.
//
// It also checks what hardware leaves to chance: shared memory starts as NaN and ends at a page
// that faults; asynchronous copies land only when they are waited for, those of the copy engine at
// some turn, in any order; a barrier that not all threads reach aborts.
#pragma once

#include <functional>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace emulator {

/// The float next to x on the side of zero.
inline float cut(double x) {
  const float nearest = float(x);
  return fabs(double(nearest)) > fabs(x) ? nextafterf(nearest, 0.0f) : nearest;
}

struct copy {
  void *to;
  const void *from;
  int bytes;
  bool valid;
};

struct barrier {
  int expected = 0, arrived = 0;
  long generation = 0;
};

/// 256 bytes a lane can hand to its warp.
struct alignas(16) lane_slot {
  unsigned char bytes[256];
};

struct warp_state {
  barrier meeting;
  lane_slot slots[32];
};

struct fiber {
  ucontext_t state;
  bool done = false;
  std::vector<copy> open;
  std::vector<std::vector<copy>> groups;
  // Multiplications that read shared memory when they are waited for.
  std::vector<std::function<void()>> open_products;
  std::vector<std::vector<std::function<void()>>> products;
};

/// Memory that ends, or starts, at a page that faults.
class guarded {
public:
  explicit guarded(size_t bytes, size_t alignment = 128) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    bytes = (bytes + alignment - 1) / alignment * alignment;
    size_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<unsigned char *>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) {
      perror("mmap");
      abort();
    }
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + size_ - page, page, PROT_NONE);
    data_ = base_ + size_ - page - bytes;
  }
  ~guarded() { munmap(base_, size_); }
  guarded(const guarded &) = delete;
  guarded &operator=(const guarded &) = delete;
  unsigned char *data() const { return data_; }

private:
  unsigned char *base_, *data_;
  size_t size_;
};

class machine {
public:
  static machine &instance() {
    static machine m;
    return m;
  }

  int thread = 0, block[3] = {}, grid[3] = {};

  /// Runs `body(shared)` in every thread of every block.
  void launch(int bx, int by, int bz, int threads, int shared_bytes,
              const std::function<void(unsigned char *)> &body) {
    if (threads % 32 != 0 || threads > 1024)
      fail("a block has a multiple of 32 threads, at most 1024");
    body_ = &body;
    grid[0] = bx, grid[1] = by, grid[2] = bz;
    const guarded shared(size_t(shared_bytes) + 1);
    shared_ = shared.data();
    for (block[2] = 0; block[2] < bz; ++block[2])
      for (block[1] = 0; block[1] < by; ++block[1])
        for (block[0] = 0; block[0] < bx; ++block[0]) {
          memset(shared_, 0xff, size_t(shared_bytes) + 1);
          run_block(threads);
        }
  }

  void meet(barrier &b) {
    const long generation = b.generation;
    if (++b.arrived == b.expected) {
      b.arrived = 0;
      ++b.generation;
      progress_ = true;
      return;
    }
    while (b.generation == generation)
      yield();
  }
  void sync_block() { meet(block_barrier_); }
  /// Barrier `id` of a block's part.
  void sync_part(int id, int threads) {
    barrier &b = named_[id];
    if (b.arrived == 0)
      b.expected = threads;
    if (id < 1 || id > 15 || b.expected != threads)
      fail("threads that come to one named barrier name different counts");
    meet(b);
  }
  /// Lets the others run; called in loops that wait for them.
  void spin() { yield(); }
  /// Something that a spinning thread may wait for has happened.
  void note_progress() { progress_ = true; }
  /// `land` runs at some later turn.
  void start_copy(std::function<void()> land) { under_way_.push_back(std::move(land)); }
  /// Where the block's shared memory starts.
  unsigned char *shared() const { return shared_; }
  void sync_warp() { meet(warps_[size_t(thread / 32)].meeting); }

  /// Every lane hands over `mine`; `read` sees the slots of all 32.
  template <class T, class F> void exchange(const T &mine, F read) {
    static_assert(sizeof(T) <= sizeof(lane_slot), "too much for one exchange");
    warp_state &w = warps_[size_t(thread / 32)];
    memcpy(static_cast<void *>(w.slots[thread % 32].bytes), &mine, sizeof(T));
    meet(w.meeting);
    read([&](int lane) -> const T & { return *reinterpret_cast<const T *>(w.slots[lane].bytes); });
    meet(w.meeting);
  }

  fiber &current() { return fibers_[size_t(thread)]; }

  static void apply(const std::vector<copy> &copies) {
    for (const copy &c : copies) {
      if (uintptr_t(c.to) % uintptr_t(c.bytes) ||
          (c.valid && uintptr_t(c.from) % uintptr_t(c.bytes)))
        fail("misaligned asynchronous copy");
      if (c.valid)
        memcpy(c.to, c.from, size_t(c.bytes));
      else
        memset(c.to, 0, size_t(c.bytes));
    }
  }

  [[noreturn]] static void fail(const char *what) {
    const machine &m = instance();
    fprintf(stderr, "emulator: %s (block %d,%d,%d thread %d)\n", what, m.block[0], m.block[1],
            m.block[2], m.thread);
    abort();
  }

private:
  static constexpr size_t stack_bytes = size_t(256) << 10;

  static void start() {
    machine &m = instance();
    (*m.body_)(m.shared_);
    fiber &f = m.current();
    if (!f.open.empty() || !f.groups.empty())
      for (const auto &group : f.groups)
        if (!group.empty())
          fail("a thread ends with asynchronous copies under way");
    if (!f.open_products.empty() || !f.products.empty())
      fail("a thread ends with multiplications under way");
    f.done = true;
    m.progress_ = true;
    m.yield();
  }

  void yield() { swapcontext(&current().state, &scheduler_); }

  void run_block(int threads) {
    if (stacks_.size() < size_t(threads) * stack_bytes)
      stacks_.resize(size_t(threads) * stack_bytes);
    fibers_ = std::vector<fiber>(size_t(threads));
    warps_ = std::vector<warp_state>(size_t(threads / 32));
    block_barrier_ = {threads, 0, 0};
    for (warp_state &w : warps_)
      w.meeting.expected = 32;
    for (int t = 0; t < threads; ++t) {
      ucontext_t &s = fibers_[size_t(t)].state;
      getcontext(&s);
      s.uc_stack.ss_sp = stacks_.data() + size_t(t) * stack_bytes;
      s.uc_stack.ss_size = stack_bytes;
      s.uc_link = nullptr;
      makecontext(&s, &machine::start, 0);
    }
    for (barrier &b : named_)
      b = {};
    for (int left = threads; left > 0;) {
      progress_ = false;
      // A stride coprime with the thread count visits all in a scrambled order.
      turn_ = turn_ * 1664525u + 1013904223u;
      const int first = int(turn_ >> 8) % threads,
                stride = 1 + 2 * (int(turn_ >> 20) % (threads / 2));
      int at = first;
      for (int i = 0; i < threads;
           ++i, at = (at + (coprime(stride, threads) ? stride : 1)) % threads) {
        if (fibers_[size_t(at)].done)
          continue;
        thread = at;
        swapcontext(&scheduler_, &fibers_[size_t(at)].state);
        left -= fibers_[size_t(at)].done;
      }
      if (!under_way_.empty()) {
        const size_t which = (turn_ >> 10) % under_way_.size();
        under_way_[which]();
        under_way_.erase(under_way_.begin() + long(which));
        progress_ = true;
      }
      if (!progress_ && left > 0)
        fail("not all threads reach a barrier");
    }
    if (!under_way_.empty())
      fail("a block ends with copies under way");
  }
  static bool coprime(int a, int b) { return b == 0 ? a == 1 : coprime(b, a % b); }

  const std::function<void(unsigned char *)> *body_ = nullptr;
  unsigned char *shared_ = nullptr;
  std::vector<fiber> fibers_;
  std::vector<warp_state> warps_;
  std::vector<unsigned char> stacks_;
  barrier block_barrier_, named_[16];
  std::vector<std::function<void()>> under_way_;
  ucontext_t scheduler_;
  unsigned turn_ = 1;
  bool progress_ = false;
};

} // namespace emulator

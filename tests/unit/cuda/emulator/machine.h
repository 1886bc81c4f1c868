// Defines the machine that runs kernels on the CPU: each thread of a block is a fiber that runs
// until its next barrier or warp exchange. Fibers are resumed in an order that changes at every
// turn, so that a missing barrier shows as wrong data. Blocks run one after another, those of a
// cluster side by side.
//
// It also checks what hardware leaves to chance: shared memory starts as NaN and ends at a page
// that faults; asynchronous copies land only when they are waited for, those of the copy engine at
// some turn, in any order; a barrier that not all threads reach aborts.
#pragma once

#include <functional>
#include <math.h>
#include <memory>
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
  int meetings = 0; // arrivals at the cluster's barrier, and departures
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

  /// Runs `body(shared)` in every thread of every block; `cluster` neighbours along x are one.
  void launch(int bx, int by, int bz, int cluster, int threads, int shared_bytes,
              const std::function<void(unsigned char *)> &body) {
    if (threads % 32 != 0 || threads > 1024)
      fail("a block has a multiple of 32 threads, at most 1024");
    if (cluster < 1 || cluster > 8 || bx % cluster != 0)
      fail("a cluster has at most 8 blocks, a grid whole clusters");
    body_ = &body;
    grid[0] = bx, grid[1] = by, grid[2] = bz;
    std::vector<std::unique_ptr<guarded>> shared;
    for (int r = 0; r < cluster; ++r)
      shared.push_back(std::make_unique<guarded>(size_t(shared_bytes) + 1));
    for (int z = 0; z < bz; ++z)
      for (int y = 0; y < by; ++y)
        for (int x = 0; x < bx; x += cluster) {
          blocks_ = std::vector<block_state>(size_t(cluster));
          for (int r = 0; r < cluster; ++r) {
            block_state &b = blocks_[size_t(r)];
            b.at[0] = x + r, b.at[1] = y, b.at[2] = z;
            b.shared = shared[size_t(r)]->data();
            memset(b.shared, 0xff, size_t(shared_bytes) + 1);
          }
          run_cluster(threads);
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
  void sync_block() { meet(here().whole); }
  /// Barrier `id` of a block's part.
  void sync_part(int id, int threads) {
    barrier &b = here().named[id];
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
  unsigned char *shared() const { return blocks_[size_t(rank_)].shared; }
  /// That of a block of this one's cluster.
  unsigned char *shared_of(int rank) const {
    if (rank < 0 || rank >= int(blocks_.size()))
      fail("no block of the cluster has that rank");
    return blocks_[size_t(rank)].shared;
  }
  /// The barrier of a cluster, in two steps. Who has ended has come.
  void arrive_in_cluster() {
    fiber &f = current();
    if (f.meetings % 2)
      fail("a thread arrives twice without waiting");
    ++f.meetings;
    progress_ = true;
  }
  void wait_in_cluster() {
    const int meeting = ++current().meetings - 1;
    const auto missing = [&] {
      for (const block_state &b : blocks_)
        for (const fiber &f : b.fibers)
          if (!f.done && f.meetings < meeting)
            return true;
      return false;
    };
    while (missing())
      yield();
  }
  void sync_warp() { meet(here().warps[size_t(thread / 32)].meeting); }

  /// Every lane hands over `mine`; `read` sees the slots of all 32.
  template <class T, class F> void exchange(const T &mine, F read) {
    static_assert(sizeof(T) <= sizeof(lane_slot), "too much for one exchange");
    warp_state &w = here().warps[size_t(thread / 32)];
    memcpy(static_cast<void *>(w.slots[thread % 32].bytes), &mine, sizeof(T));
    meet(w.meeting);
    read([&](int lane) -> const T & { return *reinterpret_cast<const T *>(w.slots[lane].bytes); });
    meet(w.meeting);
  }

  fiber &current() { return here().fibers[size_t(thread)]; }

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

  struct block_state {
    int at[3] = {};
    unsigned char *shared = nullptr;
    std::vector<fiber> fibers;
    std::vector<warp_state> warps;
    barrier whole, named[16];
  };
  block_state &here() { return blocks_[size_t(rank_)]; }

  static void start() {
    machine &m = instance();
    (*m.body_)(m.here().shared);
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

  void prepare(block_state &b, int threads, unsigned char *stacks) {
    b.fibers = std::vector<fiber>(size_t(threads));
    b.warps = std::vector<warp_state>(size_t(threads / 32));
    b.whole = {threads, 0, 0};
    for (warp_state &w : b.warps)
      w.meeting.expected = 32;
    for (int t = 0; t < threads; ++t) {
      ucontext_t &s = b.fibers[size_t(t)].state;
      getcontext(&s);
      s.uc_stack.ss_sp = stacks + size_t(t) * stack_bytes;
      s.uc_stack.ss_size = stack_bytes;
      s.uc_link = nullptr;
      makecontext(&s, &machine::start, 0);
    }
  }
  /// Resumes fiber `n` of the cluster; true when it has ended in this turn.
  bool resume(int n, int threads) {
    rank_ = n / threads, thread = n % threads;
    for (int d = 0; d < 3; ++d)
      block[d] = here().at[d];
    fiber &f = current();
    if (f.done)
      return false;
    swapcontext(&scheduler_, &f.state);
    return f.done;
  }
  void run_cluster(int threads) {
    const int all = threads * int(blocks_.size());
    if (stacks_.size() < size_t(all) * stack_bytes)
      stacks_.resize(size_t(all) * stack_bytes);
    for (size_t r = 0; r < blocks_.size(); ++r)
      prepare(blocks_[r], threads, stacks_.data() + r * size_t(threads) * stack_bytes);
    for (int left = all; left > 0;) {
      progress_ = false;
      // A stride coprime with the thread count visits all in a scrambled order.
      turn_ = turn_ * 1664525u + 1013904223u;
      const int first = int(turn_ >> 8) % all, odd = 1 + 2 * (int(turn_ >> 20) % (all / 2)),
                stride = coprime(odd, all) ? odd : 1;
      for (int i = 0, at = first; i < all; ++i, at = (at + stride) % all)
        left -= resume(at, threads);
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
  std::vector<block_state> blocks_; // of the cluster
  int rank_ = 0;                    // of the running one
  std::vector<unsigned char> stacks_;
  std::vector<std::function<void()>> under_way_;
  ucontext_t scheduler_;
  unsigned turn_ = 1;
  bool progress_ = false;
};

} // namespace emulator

// Defines the machine that runs kernels on the CPU: each thread of a block is a fiber that runs
// until its next barrier or warp exchange. Fibers are resumed in an order that changes at every
// turn, so that a missing barrier shows as wrong data. Blocks run one after another, those of a
// cluster side by side.
//
// It also checks what hardware leaves to chance: shared memory starts as NaN and ends at a page
// that faults; asynchronous copies land only when they are waited for, those of the copy engine at
// some turn, in any order; a barrier that not all threads reach aborts.
//
// Every test of a kernel parses this file: what is no template stands in emulator.cpp, and few
// headers of the standard library are included.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
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

/// What is to be done later, once.
class task {
public:
  template <class F>
  task(F f)
      : state_(new F(std::move(f))), call_([](void *f) { (*static_cast<F *>(f))(); }),
        destroy_([](void *f) { delete static_cast<F *>(f); }) {}
  task(task &&t) noexcept : state_(t.state_), call_(t.call_), destroy_(t.destroy_) {
    t.state_ = nullptr;
  }
  task &operator=(task &&t) noexcept {
    std::swap(state_, t.state_);
    std::swap(call_, t.call_);
    std::swap(destroy_, t.destroy_);
    return *this;
  }
  ~task() {
    if (state_)
      destroy_(state_);
  }
  void operator()() const { call_(state_); }

private:
  void *state_;
  void (*call_)(void *), (*destroy_)(void *);
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
  ucontext_t entry; // where it starts
  jmp_buf resumed;  // where it goes on
  bool started = false, done = false;
  int meetings = 0; // arrivals at the cluster's barrier, and departures
  std::vector<copy> open;
  std::vector<std::vector<copy>> groups;
  // Multiplications that read shared memory when they are waited for.
  std::vector<task> open_products;
  std::vector<std::vector<task>> products;
};

/// Memory that ends, or starts, at a page that faults.
class guarded {
public:
  explicit guarded(size_t bytes, size_t alignment = 128);
  ~guarded();
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

  int thread = 0, block[3] = {}, grid[3] = {}, shared_bytes = 0; // those of a block at launch

  /// Runs `body(shared)` in every thread of every block; `cluster` neighbours along x are one.
  template <class Body>
  void launch(int bx, int by, int bz, int cluster, int threads, int shared_bytes,
              const Body &body) {
    body_ = &body;
    run_body_ = [](const void *body, unsigned char *shared) {
      (*static_cast<const Body *>(body))(shared);
    };
    run_grid(bx, by, bz, cluster, threads, shared_bytes);
  }

  void meet(barrier &b);
  void sync_block() { meet(here().whole); }
  /// Barrier `id` of a block's part.
  void sync_part(int id, int threads);
  void arrive_in_part(int id, int threads);
  /// Lets the others run; called in loops that wait for them.
  void spin() { yield(); }
  /// Something that a spinning thread may wait for has happened.
  void note_progress() { progress_ = true; }
  /// `land` runs at some later turn.
  void start_copy(task land) { under_way_.push_back(std::move(land)); }
  /// Where the block's shared memory starts.
  unsigned char *shared() const { return blocks_[size_t(rank_)].shared; }
  /// That of a block of this one's cluster.
  unsigned char *shared_of(int rank) const;
  /// The barrier of a cluster, in two steps. Who has ended has come.
  void arrive_in_cluster();
  void wait_in_cluster();
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

  static void apply(const std::vector<copy> &copies);

  [[noreturn]] static void fail(const char *what);

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

  static void start();
  void yield();
  barrier &part(int id, int threads);
  bool arrive(barrier &b);
  void prepare(block_state &b, int threads, unsigned char *stacks);
  /// Resumes fiber `n` of the cluster; true when it has ended in this turn.
  bool resume(int n, int threads);
  void run_grid(int bx, int by, int bz, int cluster, int threads, int shared_bytes);
  void run_cluster(int threads);

  const void *body_ = nullptr;
  void (*run_body_)(const void *body, unsigned char *shared) = nullptr;
  std::vector<block_state> blocks_; // of the cluster
  int rank_ = 0;                    // of the running one
  std::vector<unsigned char> stacks_;
  std::vector<task> under_way_;
  jmp_buf scheduler_;
  unsigned turn_ = 1;
  bool progress_ = false;
};

} // namespace emulator

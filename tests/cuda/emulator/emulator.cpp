// Implements the emulator of CUDA: the machine that runs kernels (machine.h) and the part of the
// CUDA runtime in front of it (runtime_api.h). Nothing here depends on the architecture that
// kernels are compiled for.
#undef _FORTIFY_SOURCE // its longjmp takes a jump to another stack for an error
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace emulator {

// --- Machine ---

guarded::guarded(size_t bytes, size_t alignment) {
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

guarded::~guarded() { munmap(base_, size_); }

void machine::run_grid(int bx, int by, int bz, int cluster, int threads, int shared_bytes) {
  this->shared_bytes = shared_bytes;
  if (threads % 32 != 0 || threads > 1024)
    fail("a block has a multiple of 32 threads, at most 1024");
  if (cluster < 1 || cluster > 8 || bx % cluster != 0)
    fail("a cluster has at most 8 blocks, a grid whole clusters");
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

bool machine::arrive(barrier &b) {
  if (++b.arrived != b.expected)
    return false;
  b.arrived = 0;
  ++b.generation;
  progress_ = true;
  return true;
}

void machine::meet(barrier &b) {
  const long generation = b.generation;
  if (arrive(b))
    return;
  while (b.generation == generation)
    yield();
}

barrier &machine::part(int id, int threads) {
  barrier &b = here().named[id];
  if (b.arrived == 0)
    b.expected = threads;
  if (id < 1 || id > 15 || b.expected != threads)
    fail("threads that come to one named barrier name different counts");
  return b;
}

void machine::sync_part(int id, int threads) { meet(part(id, threads)); }

void machine::arrive_in_part(int id, int threads) { arrive(part(id, threads)); }

unsigned char *machine::shared_of(int rank) const {
  if (rank < 0 || rank >= int(blocks_.size()))
    fail("no block of the cluster has that rank");
  return blocks_[size_t(rank)].shared;
}

void machine::arrive_in_cluster() {
  fiber &f = current();
  if (f.meetings % 2)
    fail("a thread arrives twice without waiting");
  ++f.meetings;
  progress_ = true;
}

void machine::wait_in_cluster() {
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

void machine::apply(const std::vector<copy> &copies) {
  for (const copy &c : copies) {
    if (uintptr_t(c.to) % uintptr_t(c.bytes) || (c.valid && uintptr_t(c.from) % uintptr_t(c.bytes)))
      fail("misaligned asynchronous copy");
    if (c.valid)
      memcpy(c.to, c.from, size_t(c.bytes));
    else
      memset(c.to, 0, size_t(c.bytes));
  }
}

void machine::fail(const char *what) {
  const machine &m = instance();
  fprintf(stderr, "emulator: %s (block %d,%d,%d thread %d)\n", what, m.block[0], m.block[1],
          m.block[2], m.thread);
  abort();
}

void machine::start() {
  machine &m = instance();
  m.run_body_(m.body_, m.here().shared);
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

// swapcontext would be right, too, but takes two system calls.
void machine::yield() {
  if (_setjmp(current().resumed) == 0)
    _longjmp(scheduler_, 1);
}

void machine::prepare(block_state &b, int threads, unsigned char *stacks) {
  b.fibers = std::vector<fiber>(size_t(threads));
  b.warps = std::vector<warp_state>(size_t(threads / 32));
  b.whole = {threads, 0, 0};
  for (warp_state &w : b.warps)
    w.meeting.expected = 32;
  for (int t = 0; t < threads; ++t) {
    ucontext_t &s = b.fibers[size_t(t)].entry;
    getcontext(&s);
    s.uc_stack.ss_sp = stacks + size_t(t) * stack_bytes;
    s.uc_stack.ss_size = stack_bytes;
    s.uc_link = nullptr;
    makecontext(&s, &machine::start, 0);
  }
}

bool machine::resume(int n, int threads) {
  rank_ = n / threads, thread = n % threads;
  for (int d = 0; d < 3; ++d)
    block[d] = here().at[d];
  fiber &f = current();
  if (f.done)
    return false;
  if (_setjmp(scheduler_) == 0) {
    if (f.started)
      _longjmp(f.resumed, 1);
    f.started = true;
    setcontext(&f.entry);
  }
  return current().done;
}

static bool coprime(int a, int b) { return b == 0 ? a == 1 : coprime(b, a % b); }

void machine::run_cluster(int threads) {
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

// --- Devices ---

/// Of this thread.
static thread_local int current_device = 0;

/// Memory of devices, in pages of its own.
class device_memory {
public:
  void *allocate(size_t bytes, int device) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    bytes = (bytes + page) / page * page;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      return nullptr;
    memset(p, 0xff, bytes);
    const std::lock_guard<std::mutex> lock(guard_);
    pieces_[device][p] = bytes;
    return p;
  }
  void release(void *p) {
    const std::lock_guard<std::mutex> lock(guard_);
    for (std::map<void *, size_t> &of_device : pieces_)
      if (const auto it = of_device.find(p); it != of_device.end()) {
        munmap(p, it->second);
        of_device.erase(it);
        return;
      }
    if (p)
      machine::fail("memory is freed that was not allocated");
  }
  /// Memory of all devices but one cannot be touched until it is opened again.
  void close_others(int device) { protect(device, PROT_NONE); }
  void open_others(int device) { protect(device, PROT_READ | PROT_WRITE); }

private:
  void protect(int device, int rights) {
    const std::lock_guard<std::mutex> lock(guard_);
    for (int d = 0; d < devices; ++d)
      if (d != device)
        for (const auto &[p, bytes] : pieces_[d])
          mprotect(p, bytes, rights);
  }

  std::mutex guard_;
  std::map<void *, size_t> pieces_[devices];
};

static device_memory &memory() {
  static device_memory m;
  return m;
}

// --- Launches ---

int carveout(const void *f, int percent) {
  static std::mutex guard;
  static std::map<std::pair<int, const void *>, int> given;
  const std::lock_guard<std::mutex> lock(guard);
  const std::pair<int, const void *> key(current_device, f);
  if (percent >= 0)
    given[key] = percent;
  const auto it = given.find(key);
  return it == given.end() ? -1 : it->second;
}
int shared_limit(const void *f, int bytes) {
  static std::mutex guard;
  static std::map<std::pair<int, const void *>, int> given;
  const std::lock_guard<std::mutex> lock(guard);
  const std::pair<int, const void *> key(current_device, f);
  if (bytes)
    given[key] = bytes;
  const auto it = given.find(key);
  return it == given.end() ? 48 * 1024 : it->second;
}

/// One launch with copies of its arguments.
struct launch_record {
  const function *code = nullptr;
  int device = current_device;
  dim3 blocks, threads;
  unsigned shared_bytes = 0;
  int cluster = 1;
  std::vector<uint64_t> storage[2];
  void *arguments[2] = {};

  void set(const void *f, dim3 b, dim3 t, unsigned shared, void *const *from) {
    code = static_cast<const function *>(f);
    blocks = b;
    threads = t;
    shared_bytes = shared;
    for (int i = 0; i < 2; ++i) {
      // Kernels hold no member that needs more than 16 bytes of alignment.
      storage[i].assign(code->argument_bytes[i] / 8 + 2, 0);
      memcpy(storage[i].data(), from[i], code->argument_bytes[i]);
      arguments[i] = storage[i].data();
    }
  }
  void run() const {
    const int caller = std::exchange(current_device, device), limit = shared_limit(code);
    current_device = caller;
    if (int(shared_bytes) > limit) {
      fprintf(stderr, "emulator: %u bytes of shared memory, %d allowed\n", shared_bytes, limit);
      abort();
    }
    memory().close_others(device);
    code->run(arguments, blocks, cluster, int(threads.x), int(shared_bytes));
    memory().open_others(device);
  }
};

} // namespace emulator

struct CUgraphNode_st {
  emulator::launch_record launch;
  std::vector<int> after; // numbers of the nodes that must have finished
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  bool ended = false; // a capture whose nodes were handed over
};
struct CUgraphExec_st {
  std::vector<std::pair<const CUgraphNode_st *, std::unique_ptr<CUgraphNode_st>>> nodes;
  unsigned turn = 1;
};
/// A capture belongs to the stream that began it and to those that waited for its events.
struct CUstream_st {
  int device = emulator::current_device;
  std::shared_ptr<CUgraph_st> joined;
  std::vector<int> tail; // what the next node comes after
  bool began = false;

  CUgraph_st *capture() const { return joined && !joined->ended ? joined.get() : nullptr; }
};
struct CUevent_st {
  int device = emulator::current_device;
  std::weak_ptr<CUgraph_st> capture;
  std::vector<int> after;
};

/// A stream takes work while its device is current; none is that of the current one.
static bool is_foreign(cudaStream_t s) { return s && s->device != emulator::current_device; }

// --- Devices ---

cudaError_t cudaGetDevice(int *device) { return *device = emulator::current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulator::devices)
    return cudaErrorInvalidDevice;
  emulator::current_device = device;
  return cudaSuccess;
}

// --- Memory ---

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) {
  bytes = (bytes + 255) / 256 * 256 + 256;
  *p = aligned_alloc(256, bytes);
  memset(*p, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaMalloc(void **p, size_t bytes) {
  *p = emulator::memory().allocate(bytes, emulator::current_device);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *p) { return emulator::memory().release(p), cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  return memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *p, int value, size_t bytes) {
  return memset(p, value, bytes), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaMemset(p, value, bytes);
}

// --- Streams, events ---

cudaError_t cudaStreamCreate(cudaStream_t *s) { return *s = new CUstream_st, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t s) { return delete s, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
  return *e = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (e->device != (s ? s->device : emulator::current_device))
    return cudaErrorInvalidResourceHandle;
  e->capture.reset();
  if (s && s->capture()) {
    e->capture = s->joined;
    e->after = s->tail;
  }
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const std::shared_ptr<CUgraph_st> capture = e->capture.lock();
  if (!capture || capture->ended)
    return s && s->capture() ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  if (s->capture() && s->joined != capture)
    return cudaErrorStreamCaptureIsolation;
  if (!s->capture())
    s->tail.clear();
  s->joined = capture;
  s->tail.insert(s->tail.end(), e->after.begin(), e->after.end());
  return cudaSuccess;
}

// --- Functions, launches ---

cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute attribute, int bytes) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    if (bytes < 0 || bytes > 100)
      return cudaErrorInvalidValue;
    emulator::carveout(f, bytes);
    return cudaSuccess;
  }
  emulator::shared_limit(f, bytes);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **arguments) {
  if (is_foreign(c->stream))
    return cudaErrorInvalidResourceHandle;
  emulator::launch_record r;
  r.set(f, c->gridDim, c->blockDim, unsigned(c->dynamicSmemBytes), arguments);
  bool early = false;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    if (c->attrs[i].id == cudaLaunchAttributeClusterDimension)
      r.cluster = int(c->attrs[i].val.clusterDim.x);
    else
      early = true;
  }
  if (c->stream && c->stream->capture()) {
    CUgraph_st &graph = *c->stream->capture();
    graph.nodes.push_back(std::make_unique<CUgraphNode_st>());
    CUgraphNode_st &node = *graph.nodes.back();
    // The copies' addresses must be those of the node.
    node.launch.set(f, r.blocks, r.threads, r.shared_bytes, arguments);
    node.launch.cluster = r.cluster;
    node.after = std::move(c->stream->tail);
    if (early && node.after.size() != 1) {
      fprintf(stderr, "emulator: an early start with %zu nodes to wait for\n", node.after.size());
      abort();
    }
    c->stream->tail = {int(graph.nodes.size()) - 1};
  } else {
    r.run();
  }
  return cudaSuccess;
}

// --- Graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (s->capture())
    return cudaErrorStreamCaptureInvalidated;
  s->joined = std::make_shared<CUgraph_st>();
  s->tail.clear();
  s->began = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
  *g = nullptr;
  if (!s->began)
    return cudaErrorStreamCaptureInvalidated;
  s->began = false;
  CUgraph_st &made = *s->joined;
  made.ended = true;
  // Every node must lie before the end of the stream that began.
  std::vector<bool> reached(made.nodes.size(), false);
  size_t count = 0;
  std::vector<int> open = s->tail;
  while (!open.empty()) {
    const auto n = size_t(open.back());
    open.pop_back();
    if (reached[n])
      continue;
    reached[n] = true;
    ++count;
    open.insert(open.end(), made.nodes[n]->after.begin(), made.nodes[n]->after.end());
  }
  if (count < made.nodes.size())
    return cudaErrorStreamCaptureUnjoined;
  *g = new CUgraph_st;
  (*g)->nodes = std::move(made.nodes);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  *status = s && s->capture() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *count) {
  // As on hardware, the order says nothing about the order of launches.
  if (nodes)
    for (size_t i = 0; i < g->nodes.size(); ++i)
      nodes[i] = g->nodes[g->nodes.size() - 1 - i].get();
  *count = g->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *p) {
  emulator::launch_record &r = node->launch;
  *p = {const_cast<emulator::function *>(r.code),
        r.blocks,
        r.threads,
        r.shared_bytes,
        r.arguments,
        nullptr};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long) {
  *e = new CUgraphExec_st;
  for (const auto &node : g->nodes) {
    auto copy = std::make_unique<CUgraphNode_st>();
    const emulator::launch_record &r = node->launch;
    copy->launch.set(r.code, r.blocks, r.threads, r.shared_bytes, r.arguments);
    copy->launch.cluster = r.cluster;
    copy->launch.device = r.device;
    copy->after = node->after;
    (*e)->nodes.emplace_back(node.get(), std::move(copy));
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *p) {
  for (auto &[original, copy] : e->nodes)
    if (original == node) { // of another function, too
      copy->launch.set(p->func, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams);
      return cudaSuccess;
    }
  return cudaErrorInvalidValue;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t) {
  std::vector<bool> done(e->nodes.size(), false);
  for (size_t left = done.size(); left > 0; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < done.size(); ++i) {
      bool is_ready = !done[i];
      for (const int n : e->nodes[i].second->after)
        is_ready = is_ready && done[size_t(n)];
      if (is_ready)
        ready.push_back(i);
    }
    e->turn = e->turn * 1664525u + 1013904223u;
    const size_t next = ready[(e->turn >> 16) % ready.size()];
    e->nodes[next].second->launch.run();
    done[next] = true;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) { return delete g, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { return delete e, cudaSuccess; }

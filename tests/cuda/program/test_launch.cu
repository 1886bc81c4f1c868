// Architectures: 750 900
//
// Tests of launching: model, context, graph, changing pointers, captures by the caller, contexts
// side by side, programmatic dependent launch, run-time dimensions, weights files, error codes.
//
// The program under test is a chain of steps whose every element depends on another block of the
// step before, in two buffers used by turns: a missing dependency wait shows as wrong numbers.
//
//   test_launch          everything
//   test_launch --quick  the same with fewer repetitions
//   test_launch --trap   a kernel on an architecture it was not written for; ends the CUDA context,
//                        so it stands alone
#define TENON_TRACE
#include "common/scalar.h"
#include "cuda/contract_simt/kernel.cuh"
#include "cuda/host/host_run.h"
#include "cuda/host/watch.h"
#include "cuda/map/kernel.cuh"
#include "shared/harness.h"
#include "shared/open.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unistd.h>

using namespace test;
using tenon::cuda::frame;
using tenon::cuda::issue;
using tenon::cuda::status;

/// Written for no architecture.
struct unwritten_kernel {
  static constexpr int threads = 32, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(cuda::target) { return false; }
  grid blocks() const { return {}; }
  TENON_DEVICE void run(unsigned char *) const {}
};

/// One kernel for layers that need different shared memory, all of which it writes.
struct hungry_kernel {
  int bytes, *sum;
  static constexpr int threads = 32, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(cuda::target) { return true; }
  int shared_bytes() const { return bytes; }
  grid blocks() const { return {}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    if (cuda::thread() > 0)
      return;
    for (int i = 0; i < bytes; ++i)
      shared[i] = 1;
    *sum = 0;
    for (int i = 0; i < bytes; ++i)
      *sum += shared[i];
  }
};

/// Says how much shared memory its block was launched with.
struct share_kernel {
  int needed, *share;
  static constexpr int threads = 32, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(cuda::target) { return true; }
  int shared_bytes() const { return needed; }
  grid blocks() const { return {}; }
  TENON_DEVICE void run(unsigned char *) const {
    if (cuda::thread() > 0)
      return;
#if defined(__CUDA_ARCH__)
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(*share));
#elif !defined(TENON_TEST_ON_DEVICE)
    *share = emulator::machine::instance().shared_bytes;
#endif
  }
};

namespace {

// --- The program: what a generated file holds
// ------------------------------------------------------

using any = cuda::variant<0, 100000>;
#if defined(TENON_TEST_ON_DEVICE)
constexpr index_t rows = 4096, width = 24;
constexpr int chain = 60;
#else
constexpr index_t rows = 100, width = 24;
constexpr int chain = 6;
#endif
constexpr size_t buffer_bytes = size_t(rows * width) * sizeof(float);

struct map_config {
  dims<dyn, fixed<width>> space;
  static constexpr int vector = 4;
  explicit map_config(index_t n) { space.head = n; }
};
struct add_one {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a) const { return a + 1.0f; }
};
struct multiply_add {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x, f32<L> w) const {
    return x * w + 0.5f;
  }
};
using dense = extents<width, 1>;
using reversed = extents<-width, 1>;

status first_step(const frame &f, issue &to) {
  const index_t n = f.dims[0];
  return to.launch<any>(cuda::map(
      map_config(n), pack(make_view(f.at<float>(0), dense{})),
      pack(make_view(f.input<float>(0), dense{}), make_view(f.weight<float>(0), extents<0, 1>{})),
      multiply_add{}));
}
/// Reads the rows of the other buffer from the last to the first.
template <int Turn> status middle_step(const frame &f, issue &to) {
  const index_t n = f.dims[0];
  const float *from = f.at<const float>(Turn ? buffer_bytes : 0);
  return to.launch<any>(cuda::map(map_config(n),
                                  pack(make_view(f.at<float>(Turn ? 0 : buffer_bytes), dense{})),
                                  pack(make_view(from + (n - 1) * width, reversed{})), add_one{}));
}
struct product_config : cuda::matmul_defaults, cuda::contract_simt_schedule<32, 32, 8, 4, 4, 2, 3> {
  dyn m;
  static constexpr fixed<width> n{}, k{};
};
/// A product with the identity in three splits: its counters must be zero again for the next run.
status last_step(const frame &f, issue &to) {
  product_config cfg;
  cfg.m = f.dims[0];
  using four = extents<0, 0, width, 1>;
  return to.launch<any>(
      cuda::matmul_simt(cfg, make_view(f.at<const float>(0), four{}),
                        cuda::make_packed_weights(f.weight<float>(width * sizeof(float))),
                        pack(make_view(f.output<float>(0), four{})), pack(), cuda::identity_body{},
                        {f.at<float>(2 * buffer_bytes), f.zeroed<int>(0)}));
}

struct machine {
  cuda::step steps[chain + 2];
  cuda::variant_table variant;
  std::vector<float> weights;
  cuda::tensor_size sizes[1] = {{buffer_bytes}};
  cuda::dim_range range[1] = {{1, rows}};
  cuda::program code;

  explicit machine(int arch) {
    steps[0] = {"first", first_step, true};
    for (int i = 0; i < chain; ++i)
      steps[i + 1] = {"middle", i % 2 ? middle_step<1> : middle_step<0>, false};
    steps[chain + 1] = {"last", last_step, true};
    const index_t tiles = (rows + 31) / 32;
    variant = {arch,
               false,
               true,
               &cuda::check_build<any>,
               steps,
               chain + 2,
               2 * buffer_bytes + size_t(cuda::split_partial_bytes(tiles, 3, 32, 32)),
               size_t(cuda::split_counter_bytes(tiles, 3)),
               0};
    weights.assign(width + 32 * width, 0.0f);
    for (index_t i = 0; i < width; ++i) {
      weights[size_t(i)] = 1.0f + 0.25f * float(i);
      weights[size_t(width + i * 32 + i)] = 1.0f;
    }
    code = {&variant,
            1,
            reinterpret_cast<const unsigned char *>(weights.data()),
            weights.size() * sizeof(float),
            77,
            sizes,
            1,
            sizes,
            1,
            range,
            1};
  }
  double expected(const std::vector<float> &x, index_t n, index_t i) const {
    (void)n; // an even number of reversals
    return double(x[size_t(i)]) * double(weights[size_t(i % width)]) + 0.5 + chain;
  }
};

#if defined(TENON_TEST_ON_DEVICE)
int repetitions = 30;
#else
int repetitions = 2;
#endif

// --- Helpers
// -----------------------------------------------------------------------------------------

bool is(status got, status want, const char *what) {
  if (got != want)
    printf("  %s: got %d (%s), expected %d\n", what, got, cuda::message(got), want);
  record(got == want, what);
  return got == want;
}

/// One pair of device buffers and what the run should give.
struct inference {
  std::vector<float> x;
  float *in = nullptr, *out = nullptr;
  const machine &of;
  inference(const machine &m, float seed) : of(m) {
    for (index_t i = 0; i < rows * width; ++i)
      x.push_back(float((i * 7 + index_t(seed)) % 13) - seed);
    require(cudaMalloc(&in, buffer_bytes), "cudaMalloc");
    require(cudaMalloc(&out, buffer_bytes), "cudaMalloc");
    copy_to_device(in, x.data(), buffer_bytes);
    poison();
  }
  ~inference() {
    (void)cudaFree(in);
    (void)cudaFree(out);
  }
  inference(const inference &) = delete;
  inference &operator=(const inference &) = delete;
  void poison() { fill_device(out, 0xff, buffer_bytes); }
  status enqueue(cuda::context *c, cudaStream_t stream) const {
    const void *inputs[] = {in};
    void *outputs[] = {out};
    return cuda::enqueue(c, inputs, outputs, stream);
  }
  bool right(const std::vector<float> &y, index_t n) const {
    for (index_t i = 0; i < n * width; ++i)
      if (!(fabs(double(y[size_t(i)]) - of.expected(x, n, i)) < 1e-3))
        return false;
    return true;
  }
  void expect(const char *what, index_t n = rows) const {
    std::vector<float> y(size_t(rows * width));
    require(cudaMemcpy(y.data(), out, buffer_bytes, cudaMemcpyDeviceToHost), what);
    record(right(y, n), what);
  }
};

struct stream_of {
  cudaStream_t stream = nullptr;
  stream_of() { require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }
  ~stream_of() { (void)cudaStreamDestroy(stream); }
  void wait() const { require(cudaStreamSynchronize(stream), "synchronize"); }
};

int compiled_arch() {
  cudaFuncAttributes a;
  require(cudaFuncGetAttributes(&a, cuda::probe_of<any>()), "attributes");
  return a.ptxVersion * 10;
}

// --- Cases
// ---------------------------------------------------------------------------------------------

void pointers_change_in_flight(const machine &m, cuda::context *c) {
  name_case("pointers that change while launches are in flight");
  const stream_of s;
  inference a(m, 1), b(m, 2), d(m, 3);
  bool accepted = true;
  for (int i = 0; i < repetitions; ++i)
    for (const inference *each : {&a, &b, &d, &b})
      accepted &= each->enqueue(c, s.stream) == cuda::ok;
  s.wait();
  record(accepted, "every enqueue is accepted");
  a.expect("first pair");
  b.expect("second pair");
  d.expect("third pair");
}

void contexts_side_by_side(const machine &m, const cuda::model *model) {
  name_case("two contexts on two streams");
  cuda::context *c[2] = {};
  is(cuda::create(&c[0], model), cuda::ok, "first context");
  is(cuda::create(&c[1], model), cuda::ok, "second context");
  const stream_of s[2];
  inference a(m, 4), b(m, 5);
  bool accepted = true;
  for (int i = 0; i < repetitions; ++i) {
    accepted &= a.enqueue(c[0], s[0].stream) == cuda::ok;
    accepted &= b.enqueue(c[1], s[1].stream) == cuda::ok;
  }
  s[0].wait();
  s[1].wait();
  record(accepted, "every enqueue is accepted");
  a.expect("first stream");
  b.expect("second stream");
  cuda::destroy(c[0]);
  cuda::destroy(c[1]);
}

void captured_by_the_caller(const machine &m, cuda::context *c) {
  name_case("capture by the caller");
  const stream_of s;
  inference a(m, 6), b(m, 7);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeGlobal), "begin");
  const status first = a.enqueue(c, s.stream), second = b.enqueue(c, s.stream);
  require(cudaStreamEndCapture(s.stream, &graph), "end");
  is(first, cuda::ok, "enqueue into a capture");
  is(second, cuda::ok, "a second one");
  require(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int i = 0; i < 3; ++i) {
    a.poison();
    b.poison();
    require(cudaGraphLaunch(executable, s.stream), "launch");
    s.wait();
    a.expect("captured pair");
    b.expect("second captured pair");
  }
  // A replay reads what the buffers hold by then.
  for (const float seed : {11.0f, 12.0f}) {
    const inference other(m, seed);
    copy_to_device(a.in, other.in, buffer_bytes, cudaMemcpyDeviceToDevice);
    a.x = other.x;
    a.poison();
    require(cudaGraphLaunch(executable, s.stream), "launch");
    s.wait();
    a.expect("captured pair with other data");
  }
  // The context's own graph is as it was.
  b.poison();
  is(b.enqueue(c, s.stream), cuda::ok, "plain enqueue afterwards");
  s.wait();
  b.expect("plain run afterwards");
  (void)cudaGraphExecDestroy(executable);
  (void)cudaGraphDestroy(graph);
}

void run_time_dimensions(const machine &m, cuda::context *c) {
  name_case("run-time dimensions");
  const stream_of s;
  for (index_t n : {index_t(1), index_t(77), rows}) {
    inference a(m, 8);
    is(cuda::set_dim(c, 0, n), cuda::ok, "set_dim");
    is(cuda::prepare(c), cuda::ok, "prepare");
    is(a.enqueue(c, s.stream), cuda::ok, "enqueue");
    s.wait();
    a.expect("result", n);
  }
  is(cuda::set_dim(c, 0, rows + 1), cuda::dimension_out_of_range, "too large a dimension");
  is(cuda::set_dim(c, 0, 0), cuda::dimension_out_of_range, "too small a dimension");
  is(cuda::set_dim(c, 1, 1), cuda::invalid_argument, "no such dimension");
}

void on_host_pointers(const machine &m, cuda::context *c) {
  name_case("run on host pointers");
  inference a(m, 9);
  std::vector<float> y(size_t(rows * width), NAN);
  for (int i = 0; i < 2; ++i) {
    const void *inputs[] = {a.x.data()};
    void *outputs[] = {y.data()};
    is(cuda::run(c, inputs, outputs), cuda::ok, "run");
    record(a.right(y, rows), "result");
  }
}

/// Every inference has numbers of its own: one that overtakes another shows.
void submitted_in_turns(const machine &m, cuda::context *c) {
  name_case("submit and collect");
  std::vector<std::unique_ptr<inference>> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(std::make_unique<inference>(m, float(i + 20)));
  std::vector<float> y(size_t(rows * width));
  void *outputs[] = {y.data()};
  is(cuda::collect(c, outputs), cuda::nothing_submitted, "nothing to collect");
  const int count = 4 * repetitions;
  bool accepted = true, right = true;
  for (int i = 0; i <= count; ++i) {
    if (i < count) {
      const inference &next = *all[size_t(i % 5)];
      const void *inputs[] = {next.x.data()};
      if (i % 3 == 0) { // written where the copy starts
        memcpy(cuda::host_input(c, 0), next.x.data(), buffer_bytes);
        accepted &= cuda::submit(c, nullptr) == cuda::ok;
      } else {
        accepted &= cuda::submit(c, inputs) == cuda::ok;
      }
    }
    if (i == 0)
      continue; // two are under way from now on
    const inference &oldest = *all[size_t((i - 1) % 5)];
    std::fill(y.begin(), y.end(), NAN);
    if (i % 2) {
      accepted &= cuda::collect(c, outputs) == cuda::ok;
    } else {
      accepted &= cuda::collect(c, nullptr) == cuda::ok;
      memcpy(y.data(), cuda::host_output(c, 0), buffer_bytes);
    }
    right &= oldest.right(y, rows);
  }
  record(accepted, "every call is accepted");
  record(right, "every output is that of its inference");
  const void *inputs[] = {all[0]->x.data()};
  is(cuda::submit(c, inputs), cuda::ok, "one");
  is(cuda::run(c, inputs, outputs), cuda::inferences_pending, "run in between");
  is(cuda::submit(c, inputs), cuda::ok, "two");
  is(cuda::submit(c, inputs), cuda::inferences_pending, "three");
  record(cuda::host_input(c, 0) == nullptr, "no slot is free");
  is(cuda::collect(c, outputs), cuda::ok, "the first");
  is(cuda::collect(c, outputs), cuda::ok, "the second");
  record(all[0]->right(y, rows), "result");
  record(cuda::host_input(c, 1) == nullptr && cuda::host_output(c, -1) == nullptr, "no such port");
}

// --- A program that counts its runs in a state ---

struct one_element {
  extents<1> space;
  static constexpr int vector = 1;
};
status count_step(const frame &f, issue &to) {
  return to.launch<any>(cuda::map(one_element{}, pack(make_view(f.output<float>(0), extents<1>{})),
                                  pack(make_view(f.state<const float>(0), extents<1>{})),
                                  add_one{}));
}
status keep_step(const frame &f, issue &to) {
  return to.launch<any>(cuda::map(one_element{}, pack(make_view(f.state<float>(0), extents<1>{})),
                                  pack(make_view(f.output<const float>(0), extents<1>{})),
                                  cuda::identity_body{}));
}

void creation_leaves_no_trace(int arch) {
  name_case("creation runs the graph and leaves no trace");
  const cuda::step steps[] = {{"count", count_step, true}, {"keep", keep_step, true}};
  const cuda::variant_table variant = {arch, false, true, &cuda::check_build<any>, steps, 2,
                                       0,    0,     256};
  const cuda::tensor_size size[] = {{sizeof(float)}};
  const cuda::program code = {&variant, 1, nullptr, 0, 0, nullptr, 0, size, 1, nullptr, 0};
  cuda::model *model = nullptr;
  cuda::context *c = nullptr;
  is(cuda::create(&model, code, nullptr, 0), cuda::ok, "model");
  is(cuda::create(&c, model), cuda::ok, "context");
  record(c->now->outputs[0] != c->memory, "the graph has run, on memory of its own");
  float *out = nullptr, y = 0;
  require(cudaMalloc(&out, sizeof(float)), "cudaMalloc");
  void *outputs[] = {out};
  const stream_of s;
  for (int run = 1; run <= 3; ++run) {
    is(cuda::enqueue(c, nullptr, outputs, s.stream), cuda::ok, "enqueue");
    s.wait();
    require(cudaMemcpy(&y, out, sizeof(y), cudaMemcpyDeviceToHost), "read");
    record(y == float(run), "the caller's runs are counted from 1");
  }
  (void)cudaFree(out);
  cuda::destroy(c);
  cuda::destroy(model);
}

void wrong_arguments(const machine &m, cuda::context *c) {
  name_case("wrong arguments");
  const void *no_input[] = {nullptr};
  inference a(m, 1);
  void *outputs[] = {a.out};
  is(cuda::enqueue(c, no_input, outputs, nullptr), cuda::invalid_argument, "a null input");
  is(cuda::enqueue(nullptr, no_input, outputs, nullptr), cuda::invalid_argument, "a null context");
  cuda::model *model = nullptr;
  is(cuda::create(&model, m.code, nullptr, 1000), cuda::invalid_argument, "no such device");
  record(model == nullptr, "no model is given");
}

void wrong_architectures(int arch) {
  name_case("wrong architectures");
  cuda::model *model = nullptr;
  machine older(arch - 100);
  older.variant.ptx = false;
  is(cuda::create(&model, older.code, nullptr, 0), cuda::wrong_architecture,
     "another major capability");
  machine newer(arch + 1000);
  is(cuda::create(&model, newer.code, nullptr, 0), cuda::wrong_architecture,
     "a newer architecture");
  machine specific(arch);
  specific.variant.specific = true;
  specific.variant.arch = arch + 10;
  is(cuda::create(&model, specific.code, nullptr, 0), cuda::wrong_architecture,
     "another specific one");
  machine built_for_another(arch);
  built_for_another.variant.check_build = &cuda::check_build<cuda::variant<1, 2>>;
  is(cuda::create(&model, built_for_another.code, nullptr, 0), cuda::wrong_build,
     "a build for another one");
#if !defined(TENON_SPECIFIC_BUILD) // an sm_90a build is specific, and rightly accepted
  machine not_specific(arch);
  not_specific.variant.check_build = &cuda::check_build<cuda::variant<0, 100000, true>>;
  is(cuda::create(&model, not_specific.code, nullptr, 0), cuda::wrong_build,
     "a build that is not specific");
#endif
  record(model == nullptr, "no model is given");
}

void weights_from_a_file(const machine &m) {
  name_case("weights from a file");
  machine filed(m.variant.arch);
  filed.code.weights = nullptr;
  // Several runs of this test may share the folder.
  const std::string name = "test_launch." + std::to_string(getpid()) + ".weights";
  const char *path = name.c_str();
  const auto write = [&](uint64_t hash, size_t bytes) {
    FILE *f = fopen(path, "wb");
    cuda::weights_header h{
        {'T', 'E', 'N', 'O', 'N', 'W', 'T', '1'}, filed.code.weight_bytes, hash, 0};
    fwrite(&h, sizeof(h), 1, f);
    fwrite(filed.weights.data(), 1, bytes, f);
    fclose(f);
  };
  cuda::model *model = nullptr;
  write(76, filed.code.weight_bytes);
  is(cuda::create(&model, filed.code, path, 0), cuda::weights_mismatch, "weights of another model");
  write(77, filed.code.weight_bytes - 4);
  is(cuda::create(&model, filed.code, path, 0), cuda::weights_unreadable, "a truncated file");
  is(cuda::create(&model, filed.code, "no/such/file", 0), cuda::weights_unreadable, "no file");
  write(77, filed.code.weight_bytes);
  if (is(cuda::create(&model, filed.code, path, 0), cuda::ok, "the right file")) {
    cuda::context *c = nullptr;
    is(cuda::create(&c, model), cuda::ok, "context");
    const stream_of s;
    inference a(filed, 3);
    is(a.enqueue(c, s.stream), cuda::ok, "enqueue");
    s.wait();
    a.expect("result");
    cuda::destroy(c);
  }
  cuda::destroy(model);
  remove(path);
}

struct tracer {
  int calls = 0, wrong = 0;
  static void call(void *user, int step, int phase, unsigned char *arena, unsigned char *,
                   cudaStream_t) {
    tracer &t = *static_cast<tracer *>(user);
    t.wrong += step != t.calls / 2 || phase != t.calls % 2;
    ++t.calls;
    // A thousand more between the first step and the second, in one row.
    if (step == 0 && phase == 1) {
      float row[width];
      require(cudaMemcpy(row, arena, sizeof(row), cudaMemcpyDeviceToHost), "read");
      for (float &v : row)
        v += 1000;
      copy_to_device(arena, row, sizeof(row));
    }
  }
};
void traced(const machine &m, cuda::context *c) {
  name_case("trace");
  tracer t;
  const stream_of s;
  inference a(m, 2);
  is(cuda::set_trace(c, &tracer::call, &t), cuda::ok, "set_trace");
  is(a.enqueue(c, s.stream), cuda::ok, "enqueue");
  s.wait();
  record(t.calls == 2 * (chain + 2) && t.wrong == 0, "called before and after every step");
  float first = 0;
  require(cudaMemcpy(&first, a.out, sizeof(first), cudaMemcpyDeviceToHost), "read");
  record(fabs(double(first) - m.expected(a.x, rows, 0) - 1000) < 1e-2,
         "what the trace wrote is used");
  is(cuda::set_trace(c, nullptr, nullptr), cuda::ok, "set_trace to none");
  is(a.enqueue(c, s.stream), cuda::ok, "enqueue");
  s.wait();
  a.expect("result without trace");
}

/// What one device holds while the other works, too.
struct on_device {
  int device;
  cuda::model *model = nullptr;
  cuda::context *context = nullptr;
  std::unique_ptr<stream_of> stream;
  std::unique_ptr<inference> data;

  on_device(const machine &m, int device) : device(device) {
    is(cuda::create(&model, m.code, nullptr, device), cuda::ok, "model");
    is(cuda::create(&context, model), cuda::ok, "context");
    int current = -1;
    require(cudaGetDevice(&current), "device");
    record(current == 0, "the caller's device stays current");
    require(cudaSetDevice(device), "device");
    stream = std::make_unique<stream_of>();
    data = std::make_unique<inference>(m, float(device) + 3);
    require(cudaSetDevice(0), "device");
  }
  ~on_device() {
    cuda::destroy(context);
    cuda::destroy(model);
  }
  on_device(const on_device &) = delete;
  on_device &operator=(const on_device &) = delete;
};

void two_devices(int arch) {
  int count = 0;
  require(cudaGetDeviceCount(&count), "count");
  if (count < 2) {
    printf("two devices: skipped, %d here\n", count);
    return;
  }
  name_case("two devices in one process");
  const machine m(arch);
  const on_device a(m, 1), b(m, 0), c(m, 1);
  bool accepted = true;
  for (int i = 0; i < repetitions; ++i)
    for (const on_device *d : {&a, &b, &c})
      accepted &= d->data->enqueue(d->context, d->stream->stream) == cuda::ok;
  record(accepted, "every enqueue is accepted");
  for (const on_device *d : {&a, &b, &c}) {
    d->stream->wait();
    d->data->expect("result");
    std::vector<float> y(size_t(rows * width));
    const void *inputs[] = {d->data->x.data()};
    void *outputs[] = {y.data()};
    is(cuda::run(d->context, inputs, outputs), cuda::ok, "run on host pointers");
    record(d->data->right(y, rows), "result on host pointers");
  }
  int current = -1;
  require(cudaGetDevice(&current), "device");
  record(current == 0, "the caller's device stays current");
}

template <int Bytes, int Blocks> struct sized_kernel {
  static constexpr int threads = 32, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(cuda::target) { return true; }
  int shared_bytes() const { return Bytes; }
  grid blocks() const { return {Blocks, 1, 1}; }
  TENON_DEVICE void run(unsigned char *) const {}
};
/// An H200's.
constexpr cuda::early_starts h200 = {132, 228 * 1024, 1024};
template <int Bytes, int Blocks> int carveout_of(const cuda::early_starts *early) {
  cuda::issue configure = cuda::issue::configure(64 * 1024, early);
  is(configure.launch<any>(sized_kernel<Bytes, Blocks>{}), cuda::ok, "configure");
  cudaFuncAttributes attributes{};
  require(cudaFuncGetAttributes(&attributes, cuda::function_of<any, sized_kernel<Bytes, Blocks>>()),
          "attributes");
  return attributes.preferredShmemCarveout;
}
/// Kernels that may begin early ask for one division of a multiprocessor's memory.
void memory_is_divided_alike() {
  name_case("a multiprocessor's memory is divided alike");
  record(carveout_of<0, 264>(&h200) == 100, "kernels of few blocks");
  record(carveout_of<16 * 1024, 265>(&h200) == -1, "not those of many");
  record(carveout_of<16 * 1024, 1>(nullptr) == -1, "nor where none begins early");
}

/// What blocks of kernels that may begin early take of an H200's multiprocessors.
void blocks_are_kept_apart() {
  name_case("blocks of few are kept apart");
  const int whole = h200.shared_bytes, needed = 96 * 1024;
  const grid few = {2, 66, 1}, many = {133, 1, 1};
  const auto taken = [](int share) { return share + h200.reserved_bytes; };
  cuda::shares s(h200);
  const int first = s.next(few, needed), second = s.next(few, needed);
  record(2 * taken(first) > whole, "no two of the first on one multiprocessor");
  record(taken(first) + taken(second) <= whole, "one of the second beside it");
  record(taken(first) + 2 * taken(second) > whole, "and no more than one");
  record(s.next(few, needed) == first && s.next(few, needed) == second, "in turn");
  const int large = second + 1024;
  record(s.next(few, needed) == first && s.next(few, large) >= large &&
             s.next(few, needed) == second,
         "what needs more than the smaller share takes the larger");
  record(s.next(many, needed) == needed, "many take what they need");
  record(s.next(few, 1024) == 1024, "and those without tiles");
  record(s.next(few, needed) == first, "which changes nobody's turn");
  record(s.next(few, 200 * 1024) == 200 * 1024, "more than half a multiprocessor");
  record(s.most(needed) == first && s.most(200 * 1024) == 200 * 1024 && s.most(1024) == 1024,
         "the most that a kernel asks for");
  cuda::shares plain;
  record(plain.next(few, needed) == needed && plain.next(few, needed) == needed &&
             plain.most(needed) == needed,
         "all take what they need where none begins early");
}

/// A captured kernel has its share, and keeps it in an update of some or all.
void shares_are_captured(const cuda::model *m) {
  name_case("shares in a graph");
  int *last = nullptr;
  require(cudaMalloc(&last, sizeof(int)), "cudaMalloc");
  const share_kernel kernel{64 * 1024, last};
  const cuda::early_starts *const early = m->early();
  issue configure = issue::configure(m->shared_limit, early);
  is(configure.launch<any>(kernel), cuda::ok, "configure");
  const stream_of s;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  issue to = issue::launch_on(s.stream, early, nullptr);
  for (int i = 0; i < 3; ++i)
    is(to.launch<any>(kernel), cuda::ok, "launch");
  require(cudaStreamEndCapture(s.stream, &graph), "end capture");
  cudaGraphNode_t all[3], nodes[3];
  size_t count = 3;
  require(cudaGraphGetNodes(graph, all, &count), "nodes");
  unsigned shares[3] = {};
  for (size_t i = 0; i < count; ++i) {
    cudaKernelNodeParams params{};
    require(cudaGraphKernelNodeGetParams(all[i], &params), "parameters");
    const int at = static_cast<const cuda::launch_tag *>(params.kernelParams[1])->ordinal;
    nodes[at] = all[i];
    shares[at] = params.sharedMemBytes;
  }
  cuda::shares expected = early ? cuda::shares(*early) : cuda::shares();
  for (const unsigned share : shares)
    record(int(share) == expected.next(kernel.blocks(), kernel.shared_bytes()), "its share");
  require(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (const bool all_of_them : {false, true}) {
    issue update = issue::update(executable, nodes, all_of_them ? early : nullptr, nullptr);
    for (int i = 0; i < 3; ++i)
      is(update.launch<any>(kernel), cuda::ok, "update");
    require(cudaGraphLaunch(executable, s.stream), "launch of the graph");
    s.wait();
    int got = 0;
    require(cudaMemcpy(&got, last, sizeof(got), cudaMemcpyDeviceToHost), "read");
    record(unsigned(got) == shares[2], "its share after an update");
  }
  require(cudaGraphExecDestroy(executable), "destroy");
  require(cudaGraphDestroy(graph), "destroy");
  (void)cudaFree(last);
}

/// Whichever is set up last, the layer that needs most has what it needs.
void layers_that_share_a_kernel() {
  name_case("layers that share a kernel");
  int *sum = nullptr;
  require(cudaMalloc(&sum, sizeof(int)), "cudaMalloc");
  cuda::issue configure = cuda::issue::configure(64 * 1024, nullptr);
  for (const int kib : {52, 60, 50, 1})
    is(configure.launch<any>(hungry_kernel{kib * 1024, sum}), cuda::ok, "configure");
  cudaFuncAttributes attributes{};
  require(cudaFuncGetAttributes(&attributes, cuda::function_of<any, hungry_kernel>()),
          "attributes");
  record(attributes.maxDynamicSharedSizeBytes == 60 * 1024, "the largest limit stays");
  is(configure.launch<any>(hungry_kernel{65 * 1024, sum}), cuda::too_little_shared_memory,
     "more than there is");
  cuda::issue to = cuda::issue::launch_on(nullptr, nullptr, nullptr);
  for (const int kib : {1, 60, 52}) {
    is(to.launch<any>(hungry_kernel{kib * 1024, sum}), cuda::ok, "launch");
    int got = 0;
    require(cudaMemcpy(&got, sum, sizeof(got), cudaMemcpyDeviceToHost), "read");
    record(got == kib * 1024, "all of its shared memory is there");
  }
  (void)cudaFree(sum);
}

int trap() {
  name_case("a kernel on an architecture it was not written for");
  issue to = issue::launch_on(nullptr, nullptr, nullptr);
  is(to.launch<any>(unwritten_kernel{}), cuda::ok, "launch");
  record(cudaDeviceSynchronize() != cudaSuccess, "traps");
  return finish();
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--trap"))
    return trap();
  if (argc > 1 && !strcmp(argv[1], "--quick"))
    repetitions = 2;
  const int arch = compiled_arch();
  machine m(arch);
  wrong_architectures(arch);
  cuda::model *model = nullptr;
  cuda::context *c = nullptr;
  name_case("creation");
  if (!is(cuda::create(&model, m.code, nullptr, 0), cuda::ok, "model") ||
      !is(cuda::create(&c, model), cuda::ok, "context"))
    return finish();
  pointers_change_in_flight(m, c);
  contexts_side_by_side(m, model);
  captured_by_the_caller(m, c);
  run_time_dimensions(m, c);
  on_host_pointers(m, c);
  submitted_in_turns(m, c);
  wrong_arguments(m, c);
  creation_leaves_no_trace(arch);
  layers_that_share_a_kernel();
  memory_is_divided_alike();
  blocks_are_kept_apart();
  shares_are_captured(model);
  weights_from_a_file(m);
  traced(m, c);
  cuda::destroy(c);
  cuda::destroy(model);
  two_devices(arch);
  return finish();
}

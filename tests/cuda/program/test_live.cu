// Architectures: 750 900
//
// Tests of runs that a caller captures and replays at every length: arguments that are no multiples
// of the length, numbers of blocks that follow from it, the one of several kernels that it chooses,
// launches that are empty at some lengths, and outputs of each capture's own.
#include "common/arithmetic.h"
#include "cuda/host/host_run.h"
#include "shared/harness.h"
#include "shared/open.h"

#include <algorithm>
#include <vector>

using namespace test;
using tenon::cuda::frame;
using tenon::cuda::issue;
using tenon::cuda::status;

namespace {

using every = cuda::variant<0, 100000>;
constexpr index_t capacity = 60, words = 4 * capacity;

/// Each of its blocks writes where it stands.
template <int Which> struct square_kernel {
  int *out;
  index_t quotient;
  int length, square;

  static constexpr int threads = 32, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(cuda::target) { return true; }
  grid blocks() const { return {length / 3, 1 + length % 2, 1}; }
  TENON_DEVICE void run(unsigned char *) const {
    if (cuda::thread() == 0)
      out[2 * cuda::block_x() + cuda::block_y()] = 1000 * (square + int(quotient)) + Which;
  }
};

template <int Which> square_kernel<Which> square(int *out, index_t length) {
  return {out, length / 7, int(length), int(length * length)};
}
status squares(const frame &f, issue &given) {
  cuda::live_issue to(given);
  const index_t n = f.dims[0];
  return to.launch_one_of<every>(n < 5 || n > 40 ? 0 : 1, square<1>(f.output<int>(0), n),
                                 square<2>(f.output<int>(0), n));
}
/// Launched at some lengths only, behind what the others wrote.
status remainder(const frame &f, issue &given) {
  cuda::live_issue to(given);
  return to.launch<every>(
      square<3>(f.output<int>(0) + words / 2, std::max(f.dims[0] % 20 - 10, index_t(0))));
}
status begin(const cuda::begin_call &call, issue &to) {
  return to.launch<every>(cuda::begin_run{call});
}
void advance(index_t *dims) { ++dims[0]; }

void is(status got, status want, const char *what) {
  if (got != want)
    printf("  %s: got %d (%s), expected %d\n", what, got, cuda::message(got), want);
  record(got == want, what);
}

struct run {
  explicit run(const cuda::model *model) {
    is(cuda::create(&context, model), cuda::ok, "context");
    require(cudaMalloc(&out, words * sizeof(int)), "cudaMalloc");
  }
  ~run() {
    (void)cudaFree(out);
    cuda::destroy(context);
  }
  status enqueue(int *to) {
    void *outputs[] = {to};
    return cuda::enqueue(context, nullptr, outputs, stream.stream);
  }
  cudaGraphExec_t capture(int *to) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    require(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeGlobal), "begin");
    const status s = enqueue(to);
    require(cudaStreamEndCapture(stream.stream, &graph), "end");
    is(s, cuda::ok, "enqueue into a capture");
    require(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    (void)cudaGraphDestroy(graph);
    return executable;
  }
  void poison(int *to) {
    require(cudaMemsetAsync(to, 0xff, words * sizeof(int), stream.stream), "poison");
  }
  std::vector<int> read(const int *from) {
    require(cudaStreamSynchronize(stream.stream), "synchronize");
    std::vector<int> all(words);
    require(cudaMemcpy(all.data(), from, words * sizeof(int), cudaMemcpyDeviceToHost), "read");
    return all;
  }

  struct stream_of {
    cudaStream_t stream = nullptr;
    stream_of() { require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }
    ~stream_of() { (void)cudaStreamDestroy(stream); }
  } stream;
  cuda::context *context = nullptr;
  int *out = nullptr;
};

} // namespace

int main() {
  name_case("captured runs at every length");
  cudaFuncAttributes a;
  require(cudaFuncGetAttributes(&a, cuda::probe_of<every>()), "attributes");
  const cuda::step steps[] = {{"squares", squares, true}, {"remainder", remainder, true}};
  cuda::variant_table variant = {};
  variant.arch = a.ptxVersion * 10;
  variant.ptx = true;
  variant.check_build = &cuda::check_build<every>;
  variant.steps = steps;
  variant.step_count = 2;
  variant.begin = begin;
  const cuda::tensor_size size[] = {{words * sizeof(int)}};
  const cuda::dim_range range[] = {{0, capacity - 1, cuda::grows}};
  cuda::program code = {};
  code.variants = &variant;
  code.variant_count = 1;
  code.outputs = size;
  code.output_count = 1;
  code.dims = range;
  code.dim_count = 1;
  code.advance = advance;
  code.length = 0;
  code.capacity = capacity;
  cuda::model *model = nullptr;
  is(cuda::create(&model, code, nullptr, 0), cuda::ok, "model");
  {
    run host(model), device(model);
    int *other = nullptr;
    require(cudaMalloc(&other, words * sizeof(int)), "cudaMalloc");
    // By turns: each has an output of its own.
    int *const outputs[] = {device.out, other};
    cudaGraphExec_t graphs[] = {device.capture(device.out), device.capture(other)};
    bool same = true, full = true;
    for (index_t n = 0; n < capacity; ++n) {
      host.poison(host.out);
      is(cuda::prepare(host.context), cuda::ok, "prepare");
      is(host.enqueue(host.out), cuda::ok, "enqueue");
      device.poison(outputs[n % 2]);
      require(cudaGraphLaunch(graphs[n % 2], device.stream.stream), "launch");
      same &= host.read(host.out) == device.read(outputs[n % 2]);
    }
    record(same, "a replay writes what a run of its length writes");
    device.poison(other);
    require(cudaGraphLaunch(graphs[1], device.stream.stream), "launch");
    for (const int word : device.read(other))
      full &= word == -1;
    record(full, "without room nothing is written");
    for (cudaGraphExec_t g : graphs)
      (void)cudaGraphExecDestroy(g);
    (void)cudaFree(other);
  }
  cuda::destroy(model);
  return finish();
}

// Architectures: 750 900
//
// Tests of steps on several branches: forks, joins, memory that one branch takes over from another,
// pointers that change, captures by the caller.
//
// The program under test reads its buffers backwards, so that every block depends on all of the step
// before: a missing edge shows as wrong numbers. On the CPU, where the emulator runs a graph in any
// order that its edges allow, the test also takes edges away and expects that to be seen.
#define TENON_TRACE
#include "common/scalar.h"
#include "cuda/host/watch.h"
#include "cuda/map/kernel.cuh"
#include "shared/harness.h"
#include "shared/open.h"

using namespace test;
using tenon::cuda::frame;
using tenon::cuda::issue;
using tenon::cuda::status;

namespace {

#if defined(TENON_TEST_ON_DEVICE)
constexpr index_t count = 1 << 21;
#else
constexpr index_t count = 1 << 9;
#endif
constexpr size_t buffer_bytes = size_t(count) * sizeof(float);
using any = cuda::variant<0, 100000>;

struct map_config {
  extents<count> space;
  static constexpr int vector = 4;
};
struct scale_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return x * 2.0f + 0.5f; }
};
struct next_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a) const { return a + 1.0f; }
};
struct sum_body {
  template <class L>
  TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b, f32<L> c, f32<L> d) const {
    return a + 2.0f * b + 4.0f * c + 8.0f * d;
  }
};

auto forwards(const float *p) { return make_view(p, extents<1>{}); }
auto backwards(const float *p) { return make_view(p + count - 1, extents<-1>{}); }
auto result(float *p) { return pack(make_view(p, extents<1>{})); }

status scale_input(const frame &f, issue &to) {
  return to.launch<any>(cuda::map(map_config{}, result(f.at<float>(0)),
                                  pack(forwards(f.input<float>(0))), scale_body{}));
}
/// Buffer To = buffer From backwards + 1; From -1 is the input.
template <int From, int To> status next(const frame &f, issue &to) {
  const float *from = From < 0 ? f.input<float>(0) : f.at<const float>(size_t(From) * buffer_bytes);
  return to.launch<any>(cuda::map(map_config{}, result(f.at<float>(size_t(To) * buffer_bytes)),
                                  pack(backwards(from)), next_body{}));
}
status add_up(const frame &f, issue &to) {
  const auto at = [&](int i) { return backwards(f.at<const float>(size_t(i) * buffer_bytes)); };
  return to.launch<any>(cuda::map(map_config{}, result(f.output<float>(0)),
                                  pack(at(0), at(4), at(2), at(5)), sum_body{}));
}

constexpr cuda::step steps[] = {
    {"s0", scale_input, true},     {"s1", next<0, 1>, false},     {"s2", next<0, 2>, false, 1},
    {"s3", next<0, 3>, false, 2},  {"s4", next<2, 4>, false, 1},  {"s5", next<-1, 5>, true, 3},
    {"s6", next<1, 0>, false},     {"s7", next<3, 2>, false, 2},  {"s8", add_up, true},
};
constexpr int step_count = 9, buffers = 6;
// What a step reads, and whose memory it takes over: 0 is read by 1, 2 and 3, 2 by 4.
const std::vector<cuda::step_edge> edges = {
    {0, 2}, {0, 3}, {-1, 5}, {2, 6}, {3, 6}, {4, 7}, {5, 8}, {7, 8},
};

struct program {
  std::vector<cuda::step_edge> edges;
  cuda::variant_table variant{};
  cuda::tensor_size size[1] = {{buffer_bytes}};
  cuda::program code{};
  cuda::model *model = nullptr;
  cuda::context *context = nullptr;

  explicit program(const std::vector<cuda::step_edge> &e) : edges(e) {
    cudaFuncAttributes a;
    require(cudaFuncGetAttributes(&a, cuda::probe_of<any>()), "attributes");
    variant = {a.ptxVersion * 10, false, true, &cuda::check_build<any>, steps, step_count,
               buffers * buffer_bytes, 0, 0, 4, edges.data(), int(edges.size())};
    code = {&variant, 1, nullptr, 0, 0, size, 1, size, 1, nullptr, 0};
  }
  status open() {
    const status s = cuda::create(&model, code, nullptr, 0);
    return s == cuda::ok ? cuda::create(&context, model) : s;
  }
  ~program() {
    cuda::destroy(context);
    cuda::destroy(model);
  }
  program(const program &) = delete;
  program &operator=(const program &) = delete;
};

/// One pair of buffers and what belongs into the second.
struct inference {
  buffer<float> x{count}, y{count};
  std::vector<double> want;
  explicit inference(int seed) : want(size_t(count)) {
    for (index_t i = 0; i < count; ++i)
      x.set(i, float((i * 7 + seed) % 13));
    x.upload();
    for (index_t i = 0; i < count; ++i) {
      // Two steps backwards are one forwards; the sum reads backwards once more.
      const double there = double(x.get(count - 1 - i)) * 2 + 0.5;
      want[size_t(i)] = (there + 2) + 2 * (there + 2) + 4 * (there + 2) + 8 * (double(x.get(i)) + 1);
    }
  }
  status enqueue(cuda::context *c, cudaStream_t stream) {
    const void *in[] = {x.device()};
    void *out[] = {y.device()};
    return cuda::enqueue(c, in, out, stream);
  }
  void poison() { fill_device(y.device(), 0xff, buffer_bytes); }
  bool is_right() {
    std::vector<float> got(static_cast<size_t>(count));
    require(cudaMemcpy(got.data(), y.device(), buffer_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < got.size(); ++i)
      if (double(got[i]) != want[i])
        return false;
    return true;
  }
};

struct stream_of {
  cudaStream_t stream = nullptr;
  stream_of() { require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }
  ~stream_of() { (void)cudaStreamDestroy(stream); }
  void wait() const { require(cudaStreamSynchronize(stream), "synchronize"); }
};

void runs(int repetitions) {
  name_case("branches");
  program p(edges);
  record(p.open() == cuda::ok, "creation");
  const stream_of s;
  inference a(1), b(5);
  bool right = true;
  for (int i = 0; i < repetitions; ++i) {
    a.poison();
    b.poison();
    right &= a.enqueue(p.context, s.stream) == cuda::ok && b.enqueue(p.context, s.stream) == cuda::ok;
    s.wait();
    right &= a.is_right() && b.is_right();
  }
  record(right, "every run gives the right numbers");

  name_case("branches in the caller's capture");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  a.poison();
  b.poison();
  require(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeGlobal), "begin");
  const status first = a.enqueue(p.context, s.stream), second = b.enqueue(p.context, s.stream);
  require(cudaStreamEndCapture(s.stream, &graph), "end");
  record(first == cuda::ok && second == cuda::ok, "two enqueues into one capture");
  require(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int i = 0; i < repetitions; ++i) {
    require(cudaGraphLaunch(executable, s.stream), "launch");
    s.wait();
    right &= a.is_right() && b.is_right();
  }
  record(right, "every launch gives the right numbers");
  (void)cudaGraphExecDestroy(executable);
  (void)cudaGraphDestroy(graph);

  name_case("contexts with branches side by side");
  cuda::context *other = nullptr;
  record(cuda::create(&other, p.model) == cuda::ok, "a second context");
  const stream_of t;
  for (int i = 0; i < repetitions; ++i) {
    right &= a.enqueue(p.context, s.stream) == cuda::ok && b.enqueue(other, t.stream) == cuda::ok;
    s.wait();
    t.wait();
    right &= a.is_right() && b.is_right();
  }
  record(right, "both give the right numbers");
  cuda::destroy(other);
}

void trace(void *calls, int, int, unsigned char *, unsigned char *, cudaStream_t) {
  ++*static_cast<int *>(calls);
}
void traced() {
  name_case("trace");
  program p(edges);
  record(p.open() == cuda::ok, "creation");
  int calls = 0;
  (void)cuda::set_trace(p.context, trace, &calls);
  const stream_of s;
  inference a(2);
  record(a.enqueue(p.context, s.stream) == cuda::ok, "enqueue");
  s.wait();
  record(calls == 2 * step_count && a.is_right(), "step by step");
}

void without_a_join() {
  name_case("a branch that is not joined");
  std::vector<cuda::step_edge> fewer = edges;
  fewer.erase(fewer.begin() + 6); // 5 to 8
  program p(fewer);
  record(p.open() != cuda::ok, "is refused");
}

#if !defined(TENON_TEST_ON_DEVICE)
/// Each edge but that of the join, which is refused, is needed.
void without_an_edge() {
  for (size_t gone : {0, 1, 3, 4, 5}) {
    name_case("without the edge from %d to %d", edges[gone].from, edges[gone].to);
    std::vector<cuda::step_edge> fewer = edges;
    // A branch still begins somewhere, at the start of the run, and ends somewhere.
    if (gone < 2)
      fewer[gone].from = -1;
    else if (gone == 5)
      fewer[gone].to = 8;
    else
      fewer.erase(fewer.begin() + long(gone));
    program p(fewer);
    record(p.open() == cuda::ok, "creation");
    const stream_of s;
    inference a(3);
    bool right = true;
    for (int i = 0; i < 40; ++i)
      right &= a.enqueue(p.context, s.stream) == cuda::ok && a.is_right();
    record(!right, "numbers are wrong");
  }
}
#endif

} // namespace

int main(int argc, char **argv) {
  runs(argc > 1 && !strcmp(argv[1], "--quick") ? 2 : 30);
  traced();
  without_a_join();
#if !defined(TENON_TEST_ON_DEVICE)
  without_an_edge();
#endif
  return finish();
}

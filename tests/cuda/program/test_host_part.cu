// Architectures: 750 900
//
// Tests of programs whose graph ends where data decides: sizes that the host reads and hands to
// later steps, of the last run and of each of two inferences under way, a branch beside the count,
// captures, loops.
#define TENON_TRACE
#include "cuda/host/host_run.h"
#include "cuda/host/watch.h"
#include "cuda/map/kernel.cuh"
#include "cuda/nonzero/kernel.cuh"
#include "shared/harness.h"
#include "shared/open.h"

#include <vector>

using namespace test;
using tenon::cuda::frame;
using tenon::cuda::issue;
using tenon::cuda::status;

namespace {

using every = cuda::variant<0, 100000>;
constexpr index_t most = 3000;
constexpr size_t doubled_at = 8192;

struct found_config {
  extents<most> space;
};
struct map_config {
  dims<dyn> space;
  static constexpr int vector = 4;
  explicit map_config(index_t n) { space.head = n; }
};
struct twice {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a) const { return a + a; }
};
struct add_one {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a) const { return a + 1.0f; }
};
using line = extents<1>;

status doubled(const frame &f, issue &to) {
  return to.launch<every>(cuda::map(map_config(most),
                                    pack(make_view(f.at<float>(doubled_at), line{})),
                                    pack(make_view(f.input<float>(0), line{})), twice{}));
}
status found(const frame &f, issue &to) {
  const auto x = make_view(f.input<float>(0), line{});
  const auto numbers = f.at<cuda::counted>(0);
  TENON_CHECK(to.launch<every>(cuda::nonzero_count(found_config{}, x, numbers)));
  return to.launch<every>(cuda::nonzero_place(found_config{}, x, numbers, f.output<int64_t>(0)));
}
/// Of as many elements as were found; nobody reads it.
status spare(const frame &f, issue &to) {
  return to.launch<every>(cuda::map(map_config(f.dims[0]),
                                    pack(make_view(f.at<float>(2 * doubled_at + most * 4), line{})),
                                    pack(make_view(f.input<float>(0), line{})), add_one{}));
}
/// For as many elements as were found; reads what the other branch made.
status after(const frame &f, issue &to) {
  return to.launch<every>(
      cuda::map(map_config(f.dims[0]), pack(make_view(f.output<float>(1), line{})),
                pack(make_view(f.at<const float>(doubled_at), line{})), add_one{}));
}
status finish(cuda::host_part &h) {
  TENON_CHECK(h.read_dim(0, h.where().at<const int64_t>(0)));
  TENON_CHECK(h.step(2));
  return h.step(3);
}

constexpr cuda::step steps[] = {{"found", found, true},
                                {"doubled", doubled, true, 1},
                                {"spare", spare, true},
                                {"after", after, true}};
constexpr cuda::step_edge edges[] = {{-1, 1}, {1, 3}};
constexpr cuda::tensor_size inputs[] = {{most * sizeof(float)}};
constexpr cuda::tensor_size outputs[] = {{most * sizeof(int64_t)}, {most * sizeof(float)}};
constexpr cuda::dim_range range[] = {{0, most, cuda::born}};

bool is(status got, status want, const char *what) {
  if (got != want)
    printf("  %s: got %d (%s), expected %d\n", what, got, cuda::message(got), want);
  record(got == want, what);
  return got == want;
}

struct example {
  std::vector<float> x, y;
  std::vector<int64_t> places, want;

  explicit example(int one_in) : x(most), y(most, -7.0f), places(most, -7) {
    for (index_t i = 0; i < most; ++i)
      if (one_in > 0 && random_int(1, one_in) == 1) {
        x[size_t(i)] = float(i + 1);
        want.push_back(i);
      }
  }
  void expect(const cuda::context *c, const char *what) const {
    const auto n = index_t(want.size());
    bool good = c->dims[0] == n;
    for (index_t i = 0; i < n; ++i)
      good = good && places[size_t(i)] == want[size_t(i)] && y[size_t(i)] == 2 * x[size_t(i)] + 1;
    record(good, what);
  }
  status run(cuda::context *c) {
    const void *in[] = {x.data()};
    void *out[] = {places.data(), y.data()};
    return cuda::run(c, in, out);
  }
  status submit(cuda::context *c) const {
    const void *in[] = {x.data()};
    return cuda::submit(c, in);
  }
  status collect(cuda::context *c) {
    void *out[] = {places.data(), y.data()};
    return cuda::collect(c, out);
  }
};

void sizes(cuda::context *c) {
  for (int one_in : {3, 1, 0, 100}) {
    name_case("sizes of a run, one in %d", one_in);
    example e(one_in);
    if (is(e.run(c), cuda::ok, "run"))
      e.expect(c, "the last run's size and values");
  }
  name_case("sizes of two inferences under way");
  example first(2), second(7);
  is(first.submit(c), cuda::ok, "submit");
  is(second.submit(c), cuda::ok, "submit");
  is(first.collect(c), cuda::ok, "collect");
  first.expect(c, "the first one's");
  is(second.collect(c), cuda::ok, "collect");
  second.expect(c, "the second one's");
}

void refusals(cuda::context *c) {
  name_case("what is refused");
  is(cuda::set_dim(c, 0, 5), cuda::invalid_argument, "a size that a step finds is nobody's to set");
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  buffer<float> x(most), y(most);
  buffer<int64_t> places(most);
  const void *in[] = {x.device()};
  void *out[] = {places.device(), y.device()};
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  is(cuda::enqueue(c, in, out, stream), cuda::data_in_capture, "a captured inference");
  require(cudaStreamEndCapture(stream, &graph), "capture");
  require(cudaGraphDestroy(graph), "graph");
  require(cudaStreamDestroy(stream), "stream");
}

/// Trips end with their number, with the condition, and with an error where results have no room.
void loops(cuda::context *c) {
  name_case("trips of a loop");
  buffer<int64_t> count(1);
  buffer<unsigned char> condition(1);
  cuda::host_part h = cuda::detail::host_part_of(*c, c->stream);
  auto trips = [&](int64_t limit, bool begins, int64_t lasts, int64_t room, int64_t expected,
                   status answer, const char *what) {
    copy_to_device(count.device(), &limit, sizeof(limit));
    copy_to_device(condition.device(), &begins, 1);
    int64_t done = -1, called = 0;
    const auto body = [&](int64_t trip, bool &going) -> status {
      record(trip == called++, "trips in order");
      going = called < lasts;
      return cuda::ok;
    };
    is(h.loop(count.device(), reinterpret_cast<const bool *>(condition.device()), room, done, body),
       answer, what);
    record(done == expected && called == expected, what);
  };
  trips(4, true, 9, INT64_MAX, 4, cuda::ok, "as many as there are");
  trips(9, true, 3, INT64_MAX, 3, cuda::ok, "until the condition is false");
  trips(9, false, 9, INT64_MAX, 0, cuda::ok, "none where it is false at first");
  trips(0, true, 9, INT64_MAX, 0, cuda::ok, "none of none");
  trips(5, true, 9, 5, 5, cuda::ok, "as many as have room");
  trips(6, true, 9, 5, 5, cuda::dimension_out_of_range, "one more than have room");
}

/// Steps of the graph and behind it, each once.
void traced(cuda::context *c) {
  name_case("a traced run");
  std::vector<int> seen;
  const auto hook = [](void *user, int step, int phase, unsigned char *, unsigned char *,
                       cudaStream_t) {
    static_cast<std::vector<int> *>(user)->push_back(2 * step + phase);
  };
  is(cuda::set_trace(c, hook, &seen), cuda::ok, "set_trace");
  example e(4);
  if (is(e.run(c), cuda::ok, "run"))
    e.expect(c, "values");
  record(seen == std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7}), "every step before and after");
  is(cuda::set_trace(c, nullptr, nullptr), cuda::ok, "set_trace");
}

} // namespace

int main() {
  cudaFuncAttributes a;
  require(cudaFuncGetAttributes(&a, cuda::probe_of<every>()), "attributes");
  const cuda::variant_table variant = {a.ptxVersion * 10,
                                       false,
                                       true,
                                       &cuda::check_build<every>,
                                       steps,
                                       3,
                                       2 * (doubled_at + most * sizeof(float)),
                                       0,
                                       0,
                                       2,
                                       edges,
                                       2,
                                       finish,
                                       2};
  const cuda::program program = {&variant, 1, nullptr, 0, 0, inputs, 1, outputs, 2, range, 1};
  cuda::model *model = nullptr;
  cuda::context *context = nullptr;
  name_case("creation");
  if (is(cuda::create(&model, program, nullptr, 0), cuda::ok, "a model") &&
      is(cuda::create(&context, model), cuda::ok, "a context")) {
    sizes(context);
    refusals(context);
    loops(context);
    traced(context);
    sizes(context); // a graph after a trace
  }
  cuda::destroy(context);
  cuda::destroy(model);
  return test::finish();
}

// Runs one generated model as a program of its own: `tenon run` and `tenon bench` build it beside
// the generated file, because the compiler itself loads no code.
//
//   program MANIFEST DATA RESULTS [WEIGHTS]
//
// MANIFEST holds 64-bit integers: threads, timed runs and their budget in ms, the number of steps
// to profile (device code built with TENON_PROFILE takes stamps itself), the number of contexts to
// measure side by side (built with TENON_HARNESS_CONTEXTS), run-time dimensions, sizes of inputs
// and outputs with the number of elements of those that are text (-1: none is), and transfers:
// bytes to copy into or out of the model's memory around a step (built with TENON_TRACE). DATA
// holds the inputs and what goes in; RESULTS receives the outputs, what came out, and times in
// nanoseconds. Text is in both the lengths of all elements, then their bytes. The counterpart is
// tools/Program.cpp.
#include "harness/machine.inc"
#if defined(TENON_HARNESS_CONTEXTS)
#include "harness/contexts.inc"
#endif

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

using bytes = std::vector<unsigned char>;

[[noreturn]] void fail(const char *what, int code) {
  std::fprintf(stderr, "%s: %s\n", what,
               code ? model_error_message(code) : "cannot be read or written");
  std::exit(1);
}

void check(const char *what, int code) {
  if (code)
    fail(what, code);
}

bytes read_file(const char *path) {
  std::FILE *file = std::fopen(path, "rb");
  if (!file)
    fail(path, 0);
  bytes out;
  std::fseek(file, 0, SEEK_END);
  out.resize(size_t(std::ftell(file)));
  std::rewind(file);
  if (std::fread(out.data(), 1, out.size(), file) != out.size())
    fail(path, 0);
  std::fclose(file);
  return out;
}

/// Reads the manifest's numbers in order.
class numbers {
public:
  explicit numbers(const bytes &all) : all_(all) {}
  int64_t next() {
    int64_t v;
    if (at_ + sizeof v > all_.size())
      fail("manifest", 0);
    std::memcpy(&v, all_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }

private:
  const bytes &all_;
  size_t at_ = 0;
};

struct segment {
  int64_t offset, size;
};

/// An element of text, as generated headers declare it.
struct text {
  const char *data;
  size_t size;
};

/// The elements that DATA spells.
std::vector<text> read_text(const unsigned char *data, int64_t count) {
  const char *at = reinterpret_cast<const char *>(data) + size_t(count) * sizeof(int64_t);
  std::vector<text> elements;
  for (int64_t i = 0; i < count; ++i) {
    int64_t length;
    std::memcpy(&length, data + size_t(i) * sizeof length, sizeof length);
    elements.push_back({at, size_t(length)});
    at += length;
  }
  return elements;
}

/// Bytes that go into (direction 0) or come out of (1) the model around a step.
struct transfer {
  int64_t step, phase, direction;
  int64_t home, at, offset; // home: 0 arena, 1 input, 2 output, 3 state
  std::vector<segment> segments;
  bytes data;
  int64_t done = 0;
};

struct session {
  machine device;
  std::vector<transfer> transfers;
  std::vector<void *> inputs, outputs; // where the model reads and writes them
  std::vector<double> step_ns;         // profile: time of each step
  std::chrono::steady_clock::time_point started;
  bool profile = false;
};

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

#if defined(TENON_TRACE)
void on_step(session &s, int step, int phase, const memory_of_run &memory) {
  if (s.profile) {
    if (step < 0)
      return;
    s.device.wait();
    if (phase == 0)
      s.started = std::chrono::steady_clock::now();
    else {
      if (s.step_ns.size() <= size_t(step))
        s.step_ns.resize(size_t(step) + 1);
      s.step_ns[size_t(step)] += since(s.started);
    }
    return;
  }
  for (transfer &t : s.transfers) {
    if (t.step != step || t.phase != phase)
      continue;
    unsigned char *base = t.home == 0   ? memory.arena + t.at
                          : t.home == 1 ? static_cast<unsigned char *>(s.inputs[size_t(t.at)])
                          : t.home == 2 ? static_cast<unsigned char *>(s.outputs[size_t(t.at)])
                                        : memory.states + t.at;
    base += t.offset;
    size_t at = 0;
    for (const segment &g : t.segments) {
      if (t.direction == 0)
        s.device.write(base + g.offset, &t.data[at], size_t(g.size));
      else
        s.device.read(&t.data[at], base + g.offset, size_t(g.size));
      at += size_t(g.size);
    }
    ++t.done;
  }
}
#endif

template <class T> void put(std::FILE *file, const T *values, size_t count) {
  if (count && std::fwrite(values, sizeof(T), count, file) != count)
    fail("results", 0);
}

void put_text(std::FILE *file, const text *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = int64_t(values[i].size);
    put(file, &length, 1);
  }
  for (int64_t i = 0; i < count; ++i)
    put(file, values[i].data, values[i].size);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  const bytes manifest = read_file(argv[1]), data = read_file(argv[2]);
  numbers in(manifest);
  const int64_t threads = in.next(), runs = in.next(), warmup = in.next(), budget_ms = in.next();
  const int64_t profile_steps = in.next(); // 0: none
  const int64_t contexts = in.next();      // 1: no measurement of several

  session s;
  machine::wake();
  const auto creation = std::chrono::steady_clock::now();
  s.device.open(argc > 4 ? argv[4] : nullptr, int(threads), check);
  const double create_ns = since(creation);
  std::vector<std::pair<int, long>> dims(size_t(in.next()));
  for (auto &[index, value] : dims) {
    index = int(in.next());
    value = long(in.next());
  }
  // Every run sees the dimensions of the data, also where a run makes them grow.
  auto set_dims = [&] {
    for (auto &[index, value] : dims)
      check("run-time dimension", s.device.set_dim(index, value));
  };
  set_dims();
  if (!dims.empty())
    check("preparing", s.device.prepare());

  size_t at = 0;
  auto take = [&](size_t size) {
    if (size > data.size() - at)
      fail("data", 0);
    at += size;
    return data.data() + at - size;
  };
  const int64_t input_count = in.next();
  std::vector<std::pair<const void *, size_t>> input_data;
  std::vector<std::vector<text>> input_texts;
  for (int64_t i = 0; i < input_count; ++i) {
    size_t size = size_t(in.next());
    const int64_t elements = in.next();
    const void *values = take(size);
    if (elements >= 0) {
      input_texts.push_back(read_text(static_cast<const unsigned char *>(values), elements));
      values = input_texts.back().data();
      size = size_t(elements) * sizeof(text);
    }
    s.inputs.push_back(s.device.allocate(size));
    input_data.push_back({values, size});
    s.device.write(s.inputs.back(), values, size);
  }
  std::vector<size_t> sizes;
  std::vector<int64_t> ranks, texts;
  const int64_t output_count = in.next();
  for (int64_t i = 0; i < output_count; ++i) {
    sizes.push_back(size_t(in.next()));
    ranks.push_back(in.next());
    texts.push_back(in.next());
    s.outputs.push_back(s.device.allocate(sizes.back()));
  }
  const int64_t transfer_count = in.next();
  for (int64_t i = 0; i < transfer_count; ++i) {
    transfer t{};
    for (int64_t *field : {&t.step, &t.phase, &t.direction, &t.home, &t.at, &t.offset})
      *field = in.next();
    const int64_t segments = in.next();
    size_t size = 0;
    for (int64_t k = 0; k < segments; ++k) {
      segment g;
      g.offset = in.next();
      g.size = in.next();
      size += size_t(g.size);
      t.segments.push_back(g);
    }
    t.data.resize(size);
    if (t.direction == 0) {
      const unsigned char *from = take(size);
      t.data.assign(from, from + size);
    }
    s.transfers.push_back(std::move(t));
  }

  // The run whose results count, traced where steps are watched.
#if defined(TENON_TRACE)
  s.device.set_trace(s, s.transfers.empty() ? nullptr : on_step);
#endif
  const auto first = std::chrono::steady_clock::now();
  check("first run", s.device.run(s.inputs.data(), s.outputs.data()));
  const double first_ns = since(first);

  std::FILE *results = std::fopen(argv[3], "wb");
  if (!results)
    fail(argv[3], 0);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < output_count; ++i) {
    elements.push_back(1);
    for (int64_t axis = 0; axis < ranks[size_t(i)]; ++axis) {
      const int64_t extent = s.device.output_dim(int(i), int(axis));
      elements.back() *= extent;
      put(results, &extent, 1);
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (texts[i] >= 0) {
      put_text(results, static_cast<const text *>(s.outputs[i]), elements[i]);
      continue;
    }
    bytes output(sizes[i]);
    s.device.read(output.data(), s.outputs[i], output.size());
    put(results, output.data(), output.size());
  }
  for (const transfer &t : s.transfers)
    if (t.direction == 1) {
      put(results, &t.done, 1);
      put(results, t.data.data(), t.data.size());
    }

    // Timed runs, without trace.
#if defined(TENON_TRACE)
  s.device.set_trace(s, nullptr);
#endif
  std::vector<double> times;
  for (int64_t i = 0; i < warmup; ++i) {
    set_dims();
    check("run", s.device.run(s.inputs.data(), s.outputs.data()));
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < runs && (i < 3 || since(begin) < double(budget_ms) * 1e6); ++i) {
    set_dims();
    const auto start = std::chrono::steady_clock::now();
    check("run", s.device.run(s.inputs.data(), s.outputs.data()));
    times.push_back(since(start));
  }
  int64_t profiled = 0;
#if defined(TENON_PROFILE)
  s.step_ns.assign(size_t(profile_steps), 0.0);
  const auto profiling = std::chrono::steady_clock::now();
  for (; profiled < runs && (profiled < 3 || since(profiling) < double(budget_ms) * 1e6);
       ++profiled)
    check("profile", s.device.profile(s.inputs.data(), s.outputs.data(), s.step_ns));
#elif defined(TENON_TRACE)
  if (profile_steps) {
    s.profile = true;
    s.device.set_trace(s, on_step);
    const auto profiling = std::chrono::steady_clock::now();
    for (; profiled < runs && (profiled < 3 || since(profiling) < double(budget_ms) * 1e6);
         ++profiled) {
      set_dims();
      check("run", s.device.run(s.inputs.data(), s.outputs.data()));
    }
  }
#else
  (void)profile_steps;
#endif
  put(results, &create_ns, 1);
  put(results, &first_ns, 1);
  const int64_t counts[] = {int64_t(times.size()), profiled, int64_t(s.step_ns.size())};
  put(results, counts, 3);
  put(results, times.data(), times.size());
  put(results, s.step_ns.data(), s.step_ns.size());
#if defined(TENON_HARNESS_CONTEXTS)
  {
    std::sort(times.begin(), times.end());
    const double estimate = times.empty() ? first_ns : times[times.size() / 2];
    lanes all(s.device, contexts, input_data, sizes, dims, check);
    const auto [one, many] = all.measure(
        std::max<int64_t>(3, int64_t(double(budget_ms) * 1e6 / 20 / std::max(estimate, 1.0))));
    put(results, &one, 1);
    put(results, &many, 1);
  }
#else
  (void)contexts, (void)input_data;
#endif
  if (std::fclose(results) != 0)
    fail("results", 0);
  s.device.close();
  return 0;
}

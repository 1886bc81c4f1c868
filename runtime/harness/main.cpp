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
// tools/ProgramRun.cpp.
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

/// Where times of runs end: after so many, or when the budget is spent and three were made.
struct budget {
  int64_t runs, milliseconds;

  template <class Run> int64_t repeat(Run run) const {
    const auto start = std::chrono::steady_clock::now();
    int64_t done = 0;
    while (done < runs && (done < 3 || since(start) < double(milliseconds) * 1e6)) {
      run();
      ++done;
    }
    return done;
  }
};

/// The model with what the manifest asks of it.
class program {
public:
  program(const bytes &manifest, const bytes &data) : in_(manifest), data_(data) {
    threads_ = in_.next();
    timed_.runs = in_.next();
    warmup_ = in_.next();
    timed_.milliseconds = in_.next();
    profile_steps_ = in_.next(); // 0: none
    contexts_ = in_.next();      // 1: no measurement of several
  }

  void open(const char *weights) {
    machine::wake();
    const auto creation = std::chrono::steady_clock::now();
    s_.device.open(weights, int(threads_), check);
    create_ns_ = since(creation);
    dims_.resize(size_t(in_.next()));
    for (auto &[index, value] : dims_) {
      index = int(in_.next());
      value = long(in_.next());
    }
    set_dims();
    if (!dims_.empty())
      check("preparing", s_.device.prepare());
    read_inputs();
    read_outputs();
    read_transfers();
  }

  /// The run whose results count, traced where steps are watched.
  void run_first() {
#if defined(TENON_TRACE)
    s_.device.set_trace(s_, s_.transfers.empty() ? nullptr : on_step);
#endif
    const auto first = std::chrono::steady_clock::now();
    run("first run");
    first_ns_ = since(first);
  }

  void put_results(std::FILE *results) {
    std::vector<int64_t> elements;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      elements.push_back(1);
      for (int64_t axis = 0; axis < outputs_[i].rank; ++axis) {
        const int64_t extent = s_.device.output_dim(int(i), int(axis));
        elements.back() *= extent;
        put(results, &extent, 1);
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].texts >= 0) {
        put_text(results, static_cast<const text *>(s_.outputs[i]), elements[i]);
        continue;
      }
      bytes output(outputs_[i].size);
      s_.device.read(output.data(), s_.outputs[i], output.size());
      put(results, output.data(), output.size());
    }
    for (const transfer &t : s_.transfers)
      if (t.direction == 1) {
        put(results, &t.done, 1);
        put(results, t.data.data(), t.data.size());
      }
  }

  /// Runs for their time, without trace, then for that of each step.
  void put_times(std::FILE *results) {
#if defined(TENON_TRACE)
    s_.device.set_trace(s_, nullptr);
#endif
    std::vector<double> times;
    for (int64_t i = 0; i < warmup_; ++i) {
      set_dims();
      run("run");
    }
    timed_.repeat([&] {
      set_dims();
      const auto start = std::chrono::steady_clock::now();
      run("run");
      times.push_back(since(start));
    });
    const int64_t profiled = profile();
    put(results, &create_ns_, 1);
    put(results, &first_ns_, 1);
    const int64_t counts[] = {int64_t(times.size()), profiled, int64_t(s_.step_ns.size())};
    put(results, counts, 3);
    put(results, times.data(), times.size());
    put(results, s_.step_ns.data(), s_.step_ns.size());
    put_contexts(results, times);
  }

  void close() { s_.device.close(); }

private:
  struct output {
    size_t size;
    int64_t rank, texts; // texts: elements that are text, -1 where none is
  };

  /// Every run sees the dimensions of the data, also where a run makes them grow.
  void set_dims() {
    for (auto &[index, value] : dims_)
      check("run-time dimension", s_.device.set_dim(index, value));
  }
  void run(const char *what) { check(what, s_.device.run(s_.inputs.data(), s_.outputs.data())); }

  const unsigned char *take(size_t size) {
    if (size > data_.size() - at_)
      fail("data", 0);
    at_ += size;
    return data_.data() + at_ - size;
  }

  void read_inputs() {
    const int64_t count = in_.next();
    for (int64_t i = 0; i < count; ++i) {
      size_t size = size_t(in_.next());
      const int64_t elements = in_.next();
      const void *values = take(size);
      if (elements >= 0) {
        input_texts_.push_back(read_text(static_cast<const unsigned char *>(values), elements));
        values = input_texts_.back().data();
        size = size_t(elements) * sizeof(text);
      }
      s_.inputs.push_back(s_.device.allocate(size));
      input_data_.push_back({values, size});
      s_.device.write(s_.inputs.back(), values, size);
    }
  }

  void read_outputs() {
    const int64_t count = in_.next();
    for (int64_t i = 0; i < count; ++i) {
      output o;
      o.size = size_t(in_.next());
      o.rank = in_.next();
      o.texts = in_.next();
      outputs_.push_back(o);
      s_.outputs.push_back(s_.device.allocate(o.size));
    }
  }

  void read_transfers() {
    const int64_t count = in_.next();
    for (int64_t i = 0; i < count; ++i) {
      transfer t{};
      for (int64_t *field : {&t.step, &t.phase, &t.direction, &t.home, &t.at, &t.offset})
        *field = in_.next();
      const int64_t segments = in_.next();
      size_t size = 0;
      for (int64_t k = 0; k < segments; ++k) {
        segment g;
        g.offset = in_.next();
        g.size = in_.next();
        size += size_t(g.size);
        t.segments.push_back(g);
      }
      t.data.resize(size);
      if (t.direction == 0) {
        const unsigned char *from = take(size);
        t.data.assign(from, from + size);
      }
      s_.transfers.push_back(std::move(t));
    }
  }

  /// Adds up the time of each step; how many runs it made for that.
  int64_t profile() {
    if (!profile_steps_)
      return 0;
#if defined(TENON_PROFILE)
    s_.step_ns.assign(size_t(profile_steps_), 0.0);
    return timed_.repeat([&] {
      set_dims();
      check("profile", s_.device.profile(s_.inputs.data(), s_.outputs.data(), s_.step_ns));
    });
#elif defined(TENON_TRACE)
    s_.profile = true;
    s_.device.set_trace(s_, on_step);
    return timed_.repeat([&] {
      set_dims();
      run("run");
    });
#else
    return 0;
#endif
  }

  /// The throughput of one context and of several side by side.
  void put_contexts(std::FILE *results, std::vector<double> times) {
#if defined(TENON_HARNESS_CONTEXTS)
    std::sort(times.begin(), times.end());
    const double estimate = times.empty() ? first_ns_ : times[times.size() / 2];
    std::vector<size_t> sizes;
    for (const output &o : outputs_)
      sizes.push_back(o.size);
    lanes all(s_.device, contexts_, input_data_, sizes, dims_, check);
    const auto [one, many] = all.measure(std::max<int64_t>(
        3, int64_t(double(timed_.milliseconds) * 1e6 / 20 / std::max(estimate, 1.0))));
    put(results, &one, 1);
    put(results, &many, 1);
#else
    (void)results, (void)times;
#endif
  }

  numbers in_;
  const bytes &data_;
  size_t at_ = 0; // in the data
  int64_t threads_, warmup_, profile_steps_, contexts_;
  budget timed_;
  session s_;
  std::vector<std::pair<int, long>> dims_;
  std::vector<std::pair<const void *, size_t>> input_data_;
  std::vector<std::vector<text>> input_texts_;
  std::vector<output> outputs_;
  double create_ns_ = 0, first_ns_ = 0;
};

} // namespace

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  const bytes manifest = read_file(argv[1]), data = read_file(argv[2]);
  program p(manifest, data);
  p.open(argc > 4 ? argv[4] : nullptr);
  p.run_first();
  std::FILE *results = std::fopen(argv[3], "wb");
  if (!results)
    fail(argv[3], 0);
  p.put_results(results);
  p.put_times(results);
  if (std::fclose(results) != 0)
    fail("results", 0);
  p.close();
  return 0;
}

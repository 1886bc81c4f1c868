// Runs one generated model on an emulated microcontroller: `tenon run` and `tenon bench` build it
// into a bare image, and the emulator is told STEM as its command line.
//
//   STEM.manifest, STEM.data -> STEM.results
//
// The files are those of main.cpp, but that nothing is timed: in the place of the first run's time
// stands the number of its instructions, in that of each step's time its own (built with
// TENON_TRACE).
#include "harness/cortex_m.inc"

#include "model.h"

#if defined(TENON_TRACE)
extern "C" void model_set_trace(model_context *,
                                void (*)(void *, int, int, unsigned char *, unsigned char *),
                                void *);
#endif

namespace {

struct segment {
  int64_t offset, size;
};

/// Bytes that go into (direction 0) or come out of (1) the model around a step.
struct transfer {
  int64_t step, phase, direction;
  int64_t home, at, offset; // home: 0 arena, 1 input, 2 output, 3 state
  int64_t segment_count;
  const segment *segments;
  bytes data;
  int64_t done;
};

struct session {
  model_context *context;
  void **inputs, **outputs;
  transfer *transfers;
  int64_t transfer_count;
  instruction_counter counter;
  int64_t step_started;
  double *step_instructions; // where steps are measured
};

/// Reads the manifest's numbers in order, and pieces of the data.
class reader {
public:
  reader(bytes manifest, bytes data) : manifest_(manifest), data_(data) {}
  int64_t next() {
    int64_t v;
    if (at_ + sizeof v > manifest_.size)
      fail("manifest", "is cut short");
    memcpy(&v, manifest_.data + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  bytes take(size_t size) {
    if (size > data_.size - taken_)
      fail("data", "is cut short");
    taken_ += size;
    return {data_.data + taken_ - size, size};
  }

private:
  bytes manifest_, data_;
  size_t at_ = 0, taken_ = 0;
};

template <class T> T *table(int64_t count) {
  return reinterpret_cast<T *>(reserve(size_t(count) * sizeof(T)));
}

void check(const char *what, int code) {
  if (code)
    fail(what, model_error_message(code));
}

#if defined(TENON_TRACE)
void on_step(void *user, int step, int phase, unsigned char *arena, unsigned char *states) {
  session &s = *static_cast<session *>(user);
  if (s.step_instructions) {
    if (step < 0)
      return;
    if (phase == 1)
      s.step_instructions[step] += s.counter.since(s.step_started);
    s.step_started = s.counter.ticks();
    return;
  }
  for (int64_t i = 0; i < s.transfer_count; ++i) {
    transfer &t = s.transfers[i];
    if (t.step != step || t.phase != phase)
      continue;
    unsigned char *base = t.home == 0   ? arena + t.at
                          : t.home == 1 ? static_cast<unsigned char *>(s.inputs[t.at])
                          : t.home == 2 ? static_cast<unsigned char *>(s.outputs[t.at])
                                        : states + t.at;
    base += t.offset;
    unsigned char *data = t.data.data;
    for (int64_t k = 0; k < t.segment_count; ++k) {
      const segment &g = t.segments[k];
      if (t.direction == 0)
        memcpy(base + g.offset, data, size_t(g.size));
      else
        memcpy(data, base + g.offset, size_t(g.size));
      data += g.size;
    }
    ++t.done;
  }
}
#endif

void set_dims(session &s, reader &in) {
  const int64_t count = in.next();
  for (int64_t i = 0; i < count; ++i) {
    const int index = int(in.next());
    const long extent = long(in.next());
#if defined(TENON_HARNESS_DIMS)
    check("run-time dimension", model_set_dim(s.context, index, extent));
#else
    (void)s, (void)index, (void)extent;
#endif
  }
}

void read_transfers(session &s, reader &in) {
  s.transfer_count = in.next();
  s.transfers = table<transfer>(s.transfer_count);
  for (int64_t i = 0; i < s.transfer_count; ++i) {
    transfer &t = s.transfers[i];
    int64_t *const fields[] = {&t.step, &t.phase,  &t.direction,    &t.home,
                               &t.at,   &t.offset, &t.segment_count};
    for (int64_t *field : fields)
      *field = in.next();
    segment *segments = table<segment>(t.segment_count);
    size_t size = 0;
    for (int64_t k = 0; k < t.segment_count; ++k) {
      segments[k].offset = in.next();
      segments[k].size = in.next();
      size += size_t(segments[k].size);
    }
    t.segments = segments;
    t.data = t.direction == 0 ? in.take(size) : bytes{reserve(size), size};
  }
}

int run(session &s) {
  return model_run(s.context, const_cast<const void *const *>(s.inputs), s.outputs);
}

/// STEM with an ending, in a place of its own.
const char *file_name(const char *stem, const char *ending) {
  const size_t length = strlen(stem);
  char *name = reinterpret_cast<char *>(reserve(length + strlen(ending) + 1));
  memcpy(name, stem, length);
  memcpy(name + length, ending, strlen(ending));
  return name;
}

} // namespace

int board_main(const char *stem) {
  reader in(read_file(file_name(stem, ".manifest")), read_file(file_name(stem, ".data")));
  for (int i = 0; i < 4; ++i)
    in.next(); // threads, timed runs, warm-up, budget
  const int64_t profile_steps = in.next();
  in.next(); // contexts

  session s{};
  model_model *model = nullptr;
  check("opening the model", model_model_open(nullptr, &model));
  const size_t needed = model_model_context_bytes(model);
  check("placing the context", model_context_place(model, reserve(needed), needed, &s.context));
  set_dims(s, in);
  const int64_t input_count = in.next();
  s.inputs = table<void *>(input_count + 1);
  for (int64_t i = 0; i < input_count; ++i) {
    const bytes data = in.take(size_t(in.next()));
    in.next(); // no text
    s.inputs[i] = reserve(data.size);
    memcpy(s.inputs[i], data.data, data.size);
  }
  const int64_t output_count = in.next();
  s.outputs = table<void *>(output_count + 1);
  int64_t *sizes = table<int64_t>(output_count), *ranks = table<int64_t>(output_count);
  for (int64_t i = 0; i < output_count; ++i) {
    sizes[i] = in.next();
    ranks[i] = in.next();
    in.next(); // no text
    s.outputs[i] = reserve(size_t(sizes[i]));
  }
  read_transfers(s, in);
  s.counter.start();

#if defined(TENON_TRACE)
  model_set_trace(s.context, s.transfer_count ? on_step : nullptr, &s);
#endif
  const int64_t before = s.counter.ticks();
  const int code = run(s);
  const double instructions = s.counter.since(before);
  check("run", code);

  output_file results(file_name(stem, ".results"));
  for (int64_t i = 0; i < output_count; ++i)
    for (int64_t axis = 0; axis < ranks[i]; ++axis)
      results.put(model_output_dim(s.context, int(i), int(axis)));
  for (int64_t i = 0; i < output_count; ++i)
    results.put(s.outputs[i], size_t(sizes[i]));
  for (int64_t i = 0; i < s.transfer_count; ++i)
    if (s.transfers[i].direction == 1) {
      results.put(s.transfers[i].done);
      results.put(s.transfers[i].data.data, s.transfers[i].data.size);
    }

  int64_t profiled = 0;
#if defined(TENON_TRACE)
  if (profile_steps) {
    s.step_instructions = table<double>(profile_steps);
    model_set_trace(s.context, on_step, &s);
    check("profile", run(s));
    profiled = 1;
  }
#endif
  results.put_real(0); // creation
  results.put_real(instructions);
  results.put(int64_t(0)); // timed runs
  results.put(profiled);
  results.put(profiled ? profile_steps : 0);
  if (profiled)
    results.put(s.step_instructions, size_t(profile_steps) * sizeof(double));
  results.close();
  return 0;
}

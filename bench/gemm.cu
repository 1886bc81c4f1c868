// Times the contraction kernels of runtime/cuda against cuBLAS and cuDNN on one GPU: squares from
// 512 to 8192, and every convolution and product that the networks of bench/networks.py contain,
// for the kernels of the sm_80 generation (mma) and of sm_90a (wgmma). For tuning schedules, not a
// test, though every result is checked first.
//
//   nvcc -std=c++17 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -split-compile 0 -t 0
//        -I runtime bench/gemm.cu bench/gemm/mma.cu bench/gemm/wgmma.cu bench/gemm/winograd.cu
//        -lcublasLt -o gemm && ./gemm
//
// -DGEMM_PRECISION=0 (fp16, default), 1 (bf16), 2 (tf32x3), 3 (fp32), 4 (tf32) says what is built.
//
// usage: gemm [--csv=FILE] [--only=TEXT] [--schedule=TEXT] [--set=squares|networks] [--batch=1,8]
//             [--seconds=S] [--choices=FILE] [--tables=DIR] [--plain]
//   --csv       every schedule's time, not only the best
//   --only      rows whose name or networks contain TEXT
//   --schedule  schedules whose name contains TEXT: `mma `, `wgmma `, `winograd `, `128x256` ...
//   --set       the squares alone, or the networks' shapes alone
//   --seconds   stops after S seconds; the summary says how many rows are missing
//   --choices   schedules that the compiler would choose, by bench/gemm/layers.py choices: rows
//               that it gives to other kernels (gemv, conv_patch) are left out, the others say
//               what its choice costs
//   --tables    the folder of layers.csv and library_h200.csv, bench/gemm by default
//   --plain     without programmatic dependent launch
//
// Before timing, each schedule runs once on fresh random operands into a poisoned result, which is
// compared with cuBLAS's (of convolutions: on the unfolded matrix). A time is the median of replays
// of a graph of 20 launches that walk over more sets of operands than the second-level cache holds.
// Of products the library's fastest and the fastest of ours are timed once more, in turn.
// Of the library the fastest counts: of products cuBLAS's first eight heuristic choices, measured
// here, and cuDNN's best algorithm as it was recorded in bench/gemm/library_h200.csv (by
// bench/gemm/layers.py on one H200). Of tf32x3 and tf32 the library multiplies in fp32.
#include "gemm/library.h"
#include "gemm/results.h"

using namespace bench;

namespace {

struct options {
  const char *csv = nullptr, *only = "", *schedule = "", *set = "", *choices = "";
  const char *tables = "bench/gemm";
  std::vector<long> batches = {1, 8};
  double seconds = 1e9;
  bool programmatic = true;
};

early_starts facts_of_device() {
  early_starts facts{};
  CHECK(cuda::read_facts(facts, 0));
  return facts;
}

/// False where `s` gives no result or a wrong one.
bool is_right(const problem &p, const schedule &s, data &d, const early_starts &early,
              cudaStream_t stream) {
  const auto function = p.is_product() ? s.product : s.conv;
  const std::string what = p.name + ", " + s.name;
  issue configure = issue::configure(232448, &early),
        to = issue::launch_on(stream, nullptr, nullptr);
  const operands o = d.packed_set(s);
  d.poison();
  CHECK(cudaDeviceSynchronize());
  status e = function(p, o, configure);
  if (e == cuda::ok)
    e = function(p, o, to);
  if (e != cuda::ok) {
    printf("%s: %s\n", what.c_str(), cuda::message(e));
    return false;
  }
  wait_or_leave(stream, what);
  std::string why;
  const bool right = d.right(why);
  if (!right)
    printf("%s: WRONG: %s\n", what.c_str(), why.c_str());
  return right;
}

class bench_run {
public:
  bench_run(const options &opt, cudaStream_t stream) : opt_(opt), stream_(stream), lib_(stream) {
    for (const auto &list : {mma_schedules(), wgmma_schedules(), winograd_schedules()})
      for (const schedule &s : list)
        if (s.name.find(opt.schedule) != std::string::npos)
          schedules_.push_back(s);
    csv_ = opt.csv ? fopen(opt.csv, "w") : nullptr;
    if (csv_)
      fprintf(csv_, "precision;problem;schedule;us;tflops;peer_us\n");
  }
  ~bench_run() {
    if (csv_)
      fclose(csv_);
  }
  bench_run(const bench_run &) = delete;
  bench_run &operator=(const bench_run &) = delete;

  void time(const problem &p) {
    data_.set_problem(p, unsigned(std::chrono::steady_clock::now().time_since_epoch().count()));
    lib_.make_reference(p, data_);
    row r;
    r.of = p;
    r.peer_us = p.recorded_us;
    const auto library = p.is_product() ? lib_.fastest(p, data_) : nullptr;
    for (const schedule &s : schedules_) {
      if (!s.suits(p, early_.multiprocessors))
        continue;
      if (!is_right(p, s, data_, early_, stream_)) {
        good_ = false;
        continue;
      }
      r.times.push_back({s.name, launches_of(p, s)->time()});
    }
    r.sort();
    if (library && r.best())
      compare(p, r, *library);
    if (csv_)
      for (const timed &t : r.times)
        fprintf(csv_, "%s;%s;%s;%.3f;%.1f;%.3f\n", kPrecisionName, p.name.c_str(),
                t.schedule.c_str(), t.us, p.flops() / t.us * 1e-6, r.peer_us);
    r.print();
    rows_.push_back(std::move(r));
  }
  bool good() const { return good_; }
  const std::vector<row> &rows() const { return rows_; }

private:
  std::unique_ptr<launches> launches_of(const problem &p, const schedule &s) const {
    const auto function = p.is_product() ? s.product : s.conv;
    issue to = issue::launch_on(stream_, opt_.programmatic ? &early_ : nullptr, nullptr);
    return std::make_unique<launches>(stream_, p.name + ", " + s.name,
                                      [&](int i) { CHECK(function(p, data_.set(i), to)); });
  }
  /// Times the library's product and our fastest in turn.
  void compare(const problem &p, row &r, const launches &library) const {
    timed &ours = r.times.front();
    const auto of = std::find_if(schedules_.begin(), schedules_.end(),
                                 [&](const schedule &s) { return s.name == ours.schedule; });
    const auto [library_us, us] = times_in_turn(library, *launches_of(p, *of));
    r.peer_us = r.peer_us > 0 ? std::min(library_us, r.peer_us) : library_us;
    ours.us = us;
  }

  const options &opt_;
  cudaStream_t stream_;
  library lib_;
  data data_;
  std::vector<schedule> schedules_;
  std::vector<row> rows_;
  const early_starts early_ = facts_of_device();
  bool good_ = true;
  FILE *csv_ = nullptr;
};

std::vector<problem> problems(const options &opt) {
  std::vector<problem> all, kept;
  if (!strstr("squares", opt.set) && strcmp(opt.set, "networks"))
    fprintf(stderr, "gemm: --set: expected squares or networks\n"), exit(2);
  if (strcmp(opt.set, "networks"))
    for (long n : {512, 1024, 2048, 4096, 8192})
      all.push_back(product("square " + std::to_string(n), n, n, n));
  if (strcmp(opt.set, "squares"))
    for (const problem &p : network_problems(opt.tables, opt.choices, kPrecisionName, opt.batches))
      all.push_back(p);
  for (const problem &p : all)
    if (p.name.find(opt.only) != std::string::npos ||
        p.networks.find(opt.only) != std::string::npos)
      kept.push_back(p);
  return kept;
}

options read_options(int count, char **arguments) {
  options opt;
  for (int i = 1; i < count; ++i) {
    const char *a = arguments[i];
    const auto value = [a](const char *name) {
      const size_t length = strlen(name);
      return strncmp(a, name, length) ? nullptr : a + length;
    };
    if (const char *v = value("--csv="))
      opt.csv = v;
    else if (const char *v = value("--only="))
      opt.only = v;
    else if (const char *v = value("--schedule="))
      opt.schedule = v;
    else if (const char *v = value("--set="))
      opt.set = v;
    else if (const char *v = value("--choices="))
      opt.choices = v;
    else if (const char *v = value("--tables="))
      opt.tables = v;
    else if (const char *v = value("--seconds="))
      opt.seconds = atof(v);
    else if (const char *v = value("--batch=")) {
      opt.batches.clear();
      for (const std::string &b : bench::detail::split(v, ','))
        opt.batches.push_back(atol(b.c_str()));
    } else if (!strcmp(a, "--plain"))
      opt.programmatic = false;
    else
      fprintf(stderr, "gemm: unknown option '%s'\n", a), exit(2);
  }
  return opt;
}

} // namespace

int main(int count, char **arguments) {
  const options opt = read_options(count, arguments);
  const std::vector<problem> all = problems(opt);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto start = std::chrono::steady_clock::now();
  bench_run run(opt, stream);
  printf(
      "%s; problem, library us and TFLOP/s | the fastest mma | the fastest wgmma | library / ours"
      " | the compiler's choice\n",
      kPrecisionName);
  int elsewhere = 0, missing = 0;
  for (const problem &p : all) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > opt.seconds)
      ++missing;
    else if (is_run_elsewhere(p))
      ++elsewhere;
    else
      run.time(p);
  }
  print_summary(run.rows(), elsewhere, missing);
  return run.good() ? 0 : 1;
}

// Implements compiled models: the shared library of a generated file, its functions found by name,
// a model and its contexts. Addresses come and go as numbers; the Python code keeps the arrays
// alive.
#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

/// A function of the generated interface refused or failed.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Addresses = std::vector<std::uintptr_t>;

/// The generated <prefix>_weights_piece.
struct WeightsPiece {
  std::size_t offset, bytes;
  const void *data;
};

/// The generated <prefix>_options; programs of earlier versions take it where what they do not know
/// is not set.
struct Options {
  std::size_t size = sizeof(Options);
  const char *weightsPath = nullptr;
  const void *weights = nullptr;
  std::size_t weightsBytes = 0;
  int device = 0, threads = 0;
  void *(*allocate)(void *, std::size_t, std::size_t) = nullptr;
  void (*release)(void *, void *) = nullptr;
  void *user = nullptr;
  const WeightsPiece *shared = nullptr;
  std::size_t sharedCount = 0;
};

/// The generated <prefix>_sampling.
struct Sampling {
  float temperature;
  int topK;
  float topP;
  unsigned long seed;
  const int *stop;
  int stopCount;
};

/// A shared library with one model, and that model on one device.
class Program {
public:
  /// Offset among the weights, bytes, and the address where they lie.
  using Piece = std::tuple<std::size_t, std::size_t, std::uintptr_t>;

  /// `weights`: the file that holds them, where one does. `device`: a GPU's number; none: the
  /// processor. `shared`: pieces of the weights that lie there, in memory that `holds` keeps.
  Program(const std::string &path, const std::string &prefix, std::optional<std::string> weights,
          std::optional<int> device, const std::vector<Piece> &shared, nb::object holds)
      : prefix_(prefix), isCuda_(device.has_value()), holds_(std::move(holds)) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_)
      throw RunError(dlerror());
    Options options;
    options.weightsPath = weights ? weights->c_str() : nullptr;
    options.device = device.value_or(0);
    std::vector<WeightsPiece> pieces;
    for (const auto &[offset, bytes, address] : shared)
      pieces.push_back({offset, bytes, reinterpret_cast<const void *>(address)});
    options.shared = pieces.empty() ? nullptr : pieces.data();
    options.sharedCount = pieces.size();
    check(find<int(const Options *, void **)>("model_open")(&options, &model_));
  }
  // The library stays loaded: threads and exit handlers of a CUDA runtime may still be in it.
  ~Program() {
    if (model_)
      find<void(void *)>("model_close")(model_);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  bool isCuda() const { return isCuda_; }
  void *model() const { return model_; }

  /// The address of <prefix>_<name>.
  template <class Function> Function *find(const char *name) const {
    const std::string symbol = prefix_ + "_" + name;
    void *address = dlsym(library_, symbol.c_str());
    if (!address)
      throw RunError("the compiled model has no function '" + symbol + "'");
    return reinterpret_cast<Function *>(address);
  }

  static constexpr int kOk = 0, kStateFull = 6;
  void check(int code) const {
    if (code != kOk)
      throw RunError(find<const char *(int)>("error_message")(code));
  }

private:
  const std::string prefix_;
  const bool isCuda_;
  const nb::object holds_;
  void *library_ = nullptr, *model_ = nullptr;
};

/// The memory of one run at a time.
class Context {
public:
  explicit Context(std::shared_ptr<Program> program) : program_(std::move(program)) {
    nb::gil_scoped_release release;
    program_->check(
        program_->find<int(const void *, void **)>("context_create")(program_->model(), &context_));
    run_ = program_->find<Run>("run");
    extent_ = program_->find<long(const void *, int, int)>("output_dim");
    if (program_->isCuda())
      enqueue_ = program_->find<Enqueue>("enqueue");
  }
  ~Context() {
    if (context_)
      program_->find<void(void *)>("context_destroy")(context_);
  }
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  void run(const Addresses &inputs, const Addresses &outputs) {
    nb::gil_scoped_release release;
    program_->check(run_(context_, pointers<const void>(inputs), pointers<void>(outputs)));
  }

  void enqueue(const Addresses &inputs, const Addresses &outputs, std::uintptr_t stream) {
    nb::gil_scoped_release release;
    program_->check(enqueue_(context_, pointers<const void>(inputs), pointers<void>(outputs),
                             reinterpret_cast<void *>(stream)));
  }

  void setDim(int dim, long extent) {
    program_->check(program_->find<int(void *, int, long)>("set_dim")(context_, dim, extent));
  }
  void prepare() {
    nb::gil_scoped_release release;
    program_->check(program_->find<int(void *)>("prepare")(context_));
  }
  void setThreads(int threads) {
    program_->check(program_->find<int(void *, int)>("context_set_threads")(context_, threads));
  }
  void reset() { program_->check(program_->find<int(void *)>("reset")(context_)); }

  /// Of a decoder: appends tokens; the logits of the last `rows` at an address of host memory.
  void runTokens(const std::vector<int> &tokens, const Addresses &inputs, std::uintptr_t logits,
                 int rows) {
    const auto run =
        program_->find<int(void *, const int *, int, const void *const *, void *, int)>(
            "run_tokens");
    nb::gil_scoped_release release;
    program_->check(run(context_, tokens.data(), int(tokens.size()), pointers<const void>(inputs),
                        reinterpret_cast<void *>(logits), rows));
  }
  /// Draws up to `count` tokens and appends them. It ends before a token of `stop`, and where the
  /// caches are full.
  std::vector<int> generate(int count, float temperature, int topK, float topP, unsigned long seed,
                            const std::vector<int> &stop, const Addresses &inputs) {
    const auto run =
        program_->find<int(void *, const Sampling *, int, const void *const *, int *, int *)>(
            "run_generate");
    const Sampling how{temperature, topK, topP, seed, stop.data(), int(stop.size())};
    std::vector<int> tokens(static_cast<std::size_t>(count));
    int made = 0;
    nb::gil_scoped_release release;
    const int code = run(context_, &how, count, pointers<const void>(inputs), tokens.data(), &made);
    if (code != Program::kStateFull)
      program_->check(code);
    tokens.resize(static_cast<std::size_t>(made));
    return tokens;
  }
  long length() const {
    long length = 0;
    program_->check(program_->find<int(void *, long *)>("length")(context_, &length));
    return length;
  }
  void setLength(long length) {
    program_->check(program_->find<int(void *, long)>("set_length")(context_, length));
  }

  nb::tuple outputShape(int output) const {
    nb::list shape;
    for (int axis = 0;; ++axis) {
      const long extent = extent_(context_, output, axis);
      if (extent < 0)
        return nb::tuple(shape);
      shape.append(extent);
    }
  }

private:
  using Run = int(void *, const void *const *, void *const *);
  using Enqueue = int(void *, const void *const *, void *const *, void *);

  template <class Pointee> static Pointee *const *pointers(const Addresses &addresses) {
    static_assert(sizeof(std::uintptr_t) == sizeof(void *));
    return reinterpret_cast<Pointee *const *>(addresses.data());
  }

  std::shared_ptr<Program> program_;
  void *context_ = nullptr;
  Run *run_ = nullptr;
  Enqueue *enqueue_ = nullptr;
  long (*extent_)(const void *, int, int) = nullptr;
};

} // namespace

void bindPrograms(nb::module_ &m) {
  // The class is that of the Python code, where all of the package's errors have their base.
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const RunError &error) {
      PyErr_SetString(nb::module_::import_("tenon.errors").attr("RunError").ptr(), error.what());
    }
  });
  nb::class_<Program>(m, "Program", "A compiled model, loaded.")
      .def(nb::init<const std::string &, const std::string &, std::optional<std::string>,
                    std::optional<int>, const std::vector<Program::Piece> &, nb::object>(),
           "path"_a, "prefix"_a, "weights"_a, "device"_a, "shared"_a, "holds"_a)
      .def_prop_ro("is_cuda", &Program::isCuda);
  nb::class_<Context>(m, "Context", "The memory of one run at a time.")
      .def(nb::init<std::shared_ptr<Program>>(), "program"_a)
      .def("run", &Context::run, "inputs"_a, "outputs"_a,
           "Runs on addresses of host memory, and waits.")
      .def("enqueue", &Context::enqueue, "inputs"_a, "outputs"_a, "stream"_a,
           "Runs on a stream, on addresses of device memory.")
      .def("set_dim", &Context::setDim, "dim"_a, "extent"_a)
      .def("prepare", &Context::prepare)
      .def("set_threads", &Context::setThreads, "threads"_a)
      .def("reset", &Context::reset)
      .def("run_tokens", &Context::runTokens, "tokens"_a, "inputs"_a, "logits"_a, "rows"_a)
      .def("generate", &Context::generate, "count"_a, "temperature"_a, "top_k"_a, "top_p"_a,
           "seed"_a, "stop"_a, "inputs"_a)
      .def("length", &Context::length)
      .def("set_length", &Context::setLength, "length"_a)
      .def("output_shape", &Context::outputShape, "output"_a);
}

} // namespace tenon::python

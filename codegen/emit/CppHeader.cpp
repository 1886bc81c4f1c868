// Implements the C++ header, section by section.
#include "codegen/emit/CppHeader.h"

#include "codegen/emit/SourceWriter.h"

#include <set>

namespace tenon {
namespace {

/// The C++ type of an element, or of the bytes that hold several.
std::string elementType(const std::string &prefix, Element e) {
  switch (e) {
  case Element::F32: return "float";
  case Element::F64: return "double";
  case Element::F16:
  case Element::BF16: return "std::uint16_t"; // its bits
  case Element::I8: return "std::int8_t";
  case Element::I16: return "std::int16_t";
  case Element::U16: return "std::uint16_t";
  case Element::I32: return "std::int32_t";
  case Element::U32: return "std::uint32_t";
  case Element::I64: return "std::int64_t";
  case Element::U64: return "std::uint64_t";
  case Element::C64: return "std::complex<float>";
  case Element::C128: return "std::complex<double>";
  case Element::String: return "::" + prefix + "_text";
  default: return "std::uint8_t";
  }
}

class CppHeaderWriter {
public:
  CppHeaderWriter(const Module &module, const InterfaceInfo &info, const CompileOptions &options,
                  const DimSpelling &dims, bool queue)
      : module_(module), info_(info), options_(options), dims_(dims), queue_(queue) {}

  std::string run() {
    opening();
    results();
    spans();
    ports(info_.inputs, true);
    ports(info_.outputs, false);
    if (!dims_.symbols().empty())
      dimensions();
    if (info_.decoder)
      sampling();
    models();
    contexts();
    write("} // namespace @\n"
          "\n"
          "#endif\n");
    return w_.take();
  }

private:
  void write(llvm::StringRef text) {
    std::string s;
    for (char c : text)
      s += c == '@' ? info_.prefix : c == '$' ? info_.upper : std::string(1, c);
    w_.raw(s);
  }

  void opening() {
    w_.line("// C++17 interface of the model '" + commentSafe(module_.name) +
            "', compiled by tenon " TENON_VERSION ".");
    write(R"(// Generated; belongs to its user. SPDX-License-Identifier: Apache-2.0
//
// Stands on the C interface alone, allocates nothing and throws nothing: it serves wherever the C header
// does, microcontrollers and -fno-exceptions included.
//
//   auto model = @::model::open();
//   auto context = @::context::create(*model);    // on failure: context.error().message()
//   if (!context) ...
//   @::status done = context->run({inputs...}, {outputs...});
#ifndef $_HPP
#define $_HPP

)");
    w_.line("#include \"" + options_.stem + ".h\"");
    write("\n");
    if (info_.hasComplex)
      w_.line("#include <complex>");
    if (info_.decoder)
      w_.line("#include <climits>");
    write(R"(#include <cstddef>
#include <cstdint>
#include <utility>

namespace @ {

)");
  }

  void results() {
    write(R"(/// What a function returned: $_OK, or why not.
class [[nodiscard]] status {
public:
  constexpr status(int code = $_OK) noexcept : code_(code) {}
  constexpr bool ok() const noexcept { return code_ == $_OK; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  constexpr int code() const noexcept { return code_; }
  const char *message() const noexcept { return @_error_message(code_); }

private:
  int code_;
};

/// A value, or the status that says why there is none; then the value is an empty one, whose functions
/// return $_INVALID_ARGUMENT.
template <class T> class [[nodiscard]] expected {
public:
  expected(T &&value) noexcept : value_(std::move(value)) {}
  expected(status why) noexcept : status_(why) {}
  bool has_value() const noexcept { return status_.ok(); }
  explicit operator bool() const noexcept { return has_value(); }
  T &operator*() noexcept { return value_; }
  const T &operator*() const noexcept { return value_; }
  T *operator->() noexcept { return &value_; }
  const T *operator->() const noexcept { return &value_; }
  status error() const noexcept { return status_; }

private:
  T value_{};
  status status_;
};

)");
  }

  void spans() {
    write(
        R"(/// Elements of a caller's that lie one after another: a pointer and their number, an array, or whatever
/// has data() and size().
template <class T> class span {
public:
  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <class Container, class = decltype(static_cast<T *>(std::declval<Container &>().data()))>
  constexpr span(Container &&container) noexcept : data_(container.data()), size_(container.size()) {}
  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

)");
  }

  static bool isFixed(const Port &p) {
    return llvm::all_of(p.type.shape(), [](Dim d) { return d.isConstant(); });
  }
  /// Elements of the span: bytes where several elements share one.
  std::string count(const Port &p) const {
    return info_.upper + "_" + p.identifier + (bitWidth(p.type.element()) < 8 ? "_BYTES" : "_SIZE");
  }
  static std::string member(const Port &p) {
    const std::string name = llvm::StringRef(p.identifier).lower();
    static const std::set<std::string> taken = {"fits", "addresses", "pointers", "at",
                                                "span", "inputs",    "outputs",  "std"};
    return taken.count(name) ? name + "_" : name;
  }

  void ports(llvm::ArrayRef<Port> list, bool input) {
    const std::string pointer = input ? "const void *" : "void *";
    write(input ? "/// What a run reads" : "/// Where a run writes");
    write(", in the order of the model. Of tensors whose shape is fixed, fits() asks for as\n"
          "/// many elements as they have; of others the header states the largest number.\n");
    w_.open(input ? "struct inputs" : "struct outputs");
    for (const Port &p : list)
      w_.line("span<" + std::string(input ? "const " : "") +
              elementType(info_.prefix, p.type.element()) + "> " + member(p) + "; // " + shape(p));
    w_.line("");
    std::string fits, pointers;
    for (const Port &p : list) {
      if (isFixed(p))
        fits += (fits.empty() ? "" : " && ") + member(p) + ".size() == " + count(p);
      pointers += (pointers.empty() ? "" : ", ") + member(p) + ".data()";
    }
    w_.line("bool fits() const noexcept { return " + (fits.empty() ? "true" : fits) + "; }");
    if (!list.empty()) {
      w_.line("struct pointers {");
      w_.line("  " + pointer + "at[" + std::to_string(list.size()) + "];");
      w_.line("};");
      w_.line("pointers addresses() const noexcept { return {{" + pointers + "}}; }");
    }
    w_.close("};");
    w_.line("");
  }

  std::string shape(const Port &p) const {
    return toString(p.type) + (isFixed(p) ? "" : ", see " + count(p));
  }

  void dimensions() {
    write("/// Dimensions that are set before a run.\n");
    w_.open("enum class dim : int");
    for (Dim d : dims_.symbols()) {
      const std::string id = cIdentifier(d.symbol());
      w_.line(id + " = " + info_.upper + "_DIM_" + llvm::StringRef(id).upper() + ",");
    }
    w_.close("};");
    w_.line("");
  }

  void sampling() {
    write(R"(/// How generate() draws a token.
struct sampling {
  float temperature = 0;   // 0: the largest logit; 1: the model's own distribution
  int top_k = 0;           // from so many of the likeliest tokens; 0: from all
  float top_p = 1;         // from the likeliest tokens that have this share together; 1: from all
  unsigned long seed = 0;  // its low 32 bits: the same gives the same text
  span<const int> stop{};  // tokens that end the text and are not part of it
};

)");
  }

  void models() {
    write(R"(/// Options with their defaults.
inline @_options options() noexcept {
  @_options o = $_OPTIONS_INIT;
  return o;
}

/// The weights; any number of threads may share it. Outlives its contexts.
class model {
public:
  model() noexcept = default;
  model(model &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  model &operator=(model &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~model() {
    if (handle_)
      @_model_close(handle_);
  }
  static expected<model> open(const @_options &options = @::options()) noexcept {
    model m;
    const status s = @_model_open(&options, &m.handle_);
    return s.ok() ? expected<model>(std::move(m)) : expected<model>(s);
  }
  std::size_t context_bytes() const noexcept { return @_model_context_bytes(handle_); }
  const @_model *get() const noexcept { return handle_; }

private:
  @_model *handle_ = nullptr;
};

)");
  }

  void contexts() {
    write(R"(/// The memory of one run at a time: one for each thread or stream.
class context {
public:
  context() noexcept = default;
  context(context &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  context &operator=(context &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~context() {
    if (handle_)
      @_context_destroy(handle_);
  }
  static expected<context> create(const model &m) noexcept {
    context c;
    return c.made(@_context_create(m.get(), &c.handle_));
  }
  /// In memory that outlives the context, of at least model.context_bytes() bytes.
  static expected<context> place(const model &m, void *memory, std::size_t bytes) noexcept {
    context c;
    return c.made(@_context_place(m.get(), memory, bytes, &c.handle_));
  }

  status set_threads(int threads) noexcept { return @_context_set_threads(handle_, threads); }
  int threads() const noexcept { return @_context_threads(handle_); }
)");
    if (!dims_.symbols().empty())
      write("  status set_dim(dim d, long value) noexcept { return @_set_dim(handle_, int(d), "
            "value); "
            "}\n"
            "  status prepare() noexcept { return @_prepare(handle_); }\n");
    if (info_.states)
      write("  status reset() noexcept { return @_reset(handle_); }\n");
    write("  /// Extent of output number `output` along `axis`; -1: there is none.\n"
          "  long output_dim(int output, int axis) const noexcept {\n"
          "    return @_output_dim(handle_, output, axis);\n"
          "  }\n\n");
    runs();
    if (info_.decoder)
      decoder();
    write("\n  @_context *get() const noexcept { return handle_; }\n"
          "\n"
          "private:\n");
    if (knowsRoom())
      room();
    write("  expected<context> made(status s) noexcept {\n"
          "    if (s.ok())\n"
          "      return std::move(*this);\n"
          "    handle_ = nullptr;\n"
          "    return s;\n"
          "  }\n"
          "\n"
          "  @_context *handle_ = nullptr;\n"
          "};\n\n");
  }

  /// Whether some output's shape is known before a run, and only then.
  bool knowsRoom() const {
    return !info_.followsData && info_.lengths.empty() &&
           !llvm::all_of(info_.outputs, [](const Port &p) { return isFixed(p); });
  }
  void room() {
    w_.raw("  /// Whether the outputs hold what the run-time dimensions say.\n"
           "  bool has_room(const outputs &out) const noexcept {\n"
           "    bool enough = handle_ != nullptr;\n");
    for (size_t i = 0; i < info_.outputs.size(); ++i) {
      const Port &p = info_.outputs[i];
      if (isFixed(p) || bitWidth(p.type.element()) < 8)
        continue;
      w_.raw("    enough = enough && out." + member(p) + ".size() >= std::size_t(");
      for (unsigned d = 0; d < p.type.rank(); ++d)
        w_.raw((d ? " * " : "") + std::string("output_dim(") + std::to_string(i) + ", " +
               std::to_string(d) + ")");
      w_.raw(");\n");
    }
    w_.raw("    return enough;\n"
           "  }\n");
  }

  /// A function that hands addresses over: in C++ there are no arrays without elements.
  void run(const std::string &comment, const std::string &signature, const std::string &function,
           bool in, bool out, const std::string &more) {
    const bool hasInputs = in && !info_.inputs.empty(), hasOutputs = out && !info_.outputs.empty();
    std::string fits, body;
    if (in)
      fits = "!in.fits()";
    if (out)
      fits += std::string(fits.empty() ? "" : " || ") + "!out.fits()" +
              (knowsRoom() ? " || !has_room(out)" : "");
    write("  /// " + comment + "\n  status " + signature + " noexcept {\n    if (" + fits +
          ")\n      return $_INVALID_ARGUMENT;\n");
    if (hasInputs)
      write("    const auto from = in.addresses();\n");
    if (hasOutputs)
      write("    const auto to = out.addresses();\n");
    write("    return @_" + function + "(handle_" +
          (in ? hasInputs ? ", from.at" : ", nullptr" : "") +
          (out ? hasOutputs ? ", to.at" : ", nullptr" : "") + more + ");\n  }\n");
  }

  void runs() {
    run("Once, on host memory.", "run(const inputs &in, const outputs &out)", "run", true, true,
        "");
    run(queue_ ? "On a stream, on device memory." : "The same; there are no streams here.",
        "enqueue(const inputs &in, const outputs &out, @_stream stream)", "enqueue", true, true,
        ", stream");
    if (!queue_)
      return;
    run("Starts an inference on host memory; at most two are under way.",
        "submit(const inputs &in)", "submit", true, false, "");
    run("Waits for the oldest one.", "collect(const outputs &out)", "collect", false, true, "");
  }

  /// Tokens in and out, for one sequence without padding; on host memory. A model's other inputs,
  /// where it has some, are handed over as those of run() are.
  void decoder() {
    const DecoderInfo &d = *info_.decoder;
    const bool others = info_.inputs.size() > 1;
    std::string unfit;
    for (size_t i = 0; i < info_.inputs.size(); ++i)
      if (const Port &p = info_.inputs[i]; i != d.tokens && isFixed(p))
        unfit += " || in." + member(p) + ".size() != " + count(p);
    const std::string also = others ? ", const inputs &in" : "",
                      handed = others ? "from.at" : "nullptr",
                      fetch = others ? "    const auto from = in.addresses();\n" : "",
                      invalid = unfit + ")\n      return $_INVALID_ARGUMENT;\n" + fetch;
    write("\n  /// Appends tokens to the sequence, any number at once. `logits` gets those of the "
          "last\n"
          "  /// ones; its size says of how many: a multiple of $_VOCABULARY, ");
    write(d.lastLogits ? "0 to 16 times; each\n  /// beside the last one takes a pass of its own.\n"
                       : "at most that of all.\n");
    if (others)
      write("  /// `in`: the model's other inputs; its tokens are passed over.\n");
    write("  /// $_STATE_FULL where the caches lack room for all of them: nothing changes.\n"
          "  status run_tokens(span<const int> tokens" +
          also + ", span<" + elementType(info_.prefix, d.logit) + R"(> logits = {}) noexcept {
    const std::size_t rows = logits.size() / $_VOCABULARY;
    if (tokens.size() > std::size_t(INT_MAX) || logits.size() % $_VOCABULARY != 0 ||
        rows > tokens.size())" +
          invalid + "    return @_run_tokens(handle_, tokens.data(), int(tokens.size()), " +
          handed + R"(, logits.data(),
                        int(rows));
  }
  /// Draws tokens one after the other until `tokens` is full, and appends them. `made` says how many
  /// there are: fewer where one of how.stop was drawn, and with $_STATE_FULL.
  status generate(span<int> tokens, int &made)" +
          also + R"(, const sampling &how = {}) noexcept {
    made = 0;
    if (tokens.size() > std::size_t(INT_MAX) || how.stop.size() > std::size_t(INT_MAX))" +
          invalid + R"(    @_sampling c{};
    c.temperature = how.temperature;
    c.top_k = how.top_k;
    c.top_p = how.top_p;
    c.seed = how.seed;
    c.stop = how.stop.data();
    c.stop_count = int(how.stop.size());
    return @_run_generate(handle_, &c, int(tokens.size()), )" +
          handed + R"(, tokens.data(), &made);
  }
  /// Tokens that the caches hold.
  expected<long> length() const noexcept {
    long tokens = 0;
    const status s = @_length(handle_, &tokens);
    return s.ok() ? expected<long>(std::move(tokens)) : expected<long>(s);
  }
  /// Takes the last tokens back, so that `length` of them stay.
  status set_length(long length) noexcept { return @_set_length(handle_, length); }
)");
  }

  const Module &module_;
  const InterfaceInfo &info_;
  const CompileOptions &options_;
  const DimSpelling &dims_;
  const bool queue_;
  SourceWriter w_;
};

} // namespace

std::string writeCppHeader(const Module &module, const InterfaceInfo &info,
                           const CompileOptions &options, const DimSpelling &dims, bool queue) {
  return CppHeaderWriter(module, info, options, dims, queue).run();
}

} // namespace tenon

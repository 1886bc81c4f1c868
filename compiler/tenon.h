// Defines Tenon as a library: a model in, the files of a C++ or CUDA program out, all in memory;
// and models on its interpreter.
//
// C++17 over the standard library alone. compile() prints nothing, writes no file, changes nothing
// of the process and keeps no state: any number of threads may call it at once, and the same
// request gives the same bytes each time, those that `tenon compile` writes for the same options.
// External data is mapped, not copied: it must stay as it is until compile() returns. What changed
// is an error in the end; a file that gets shorter meanwhile raises SIGBUS, which is the process's
// to handle.
//
//   tenon::Request request;
//   request.model = tenon::Source::memory(bytes);
//   request.target = "cpu:x86-64-v3";
//   std::vector<tenon::Message> messages;
//   if (auto output = tenon::compile(request, messages))
//     use(output->files);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

/// One thing that is said about a model or a setting.
struct Message {
  /// Whatever has an error gives no output.
  enum class Severity { Error, Warning, Remark } severity = Severity::Error;
  /// Settings appear by the name of their option on the command line: `--workspace`.
  std::string text;
  /// The model's nodes that it is about, and their operator; often none.
  std::vector<std::string> nodes;
  std::string op;
  std::vector<std::string> notes;
};
/// As the command prints it: a line, and one for each note, without the last line's end.
std::string toString(const Message &message);

/// A file, or what one would hold.
struct Source {
  /// Where the file is. Of bytes: a name for messages; one that ends with ".tn" says that they are
  /// Tenon's text and no ONNX model.
  std::string path;
  std::optional<std::string> bytes;
  /// Of bytes: the folder in which external data of an ONNX model lies; empty: there is none.
  std::string folder;
  /// Of a text as bytes: its large literals, which a file has beside it (PATH.data).
  std::string literals;

  static Source file(std::string path) { return {std::move(path), std::nullopt, "", ""}; }
  static Source memory(std::string bytes, std::string name = "model.onnx") {
    return {std::move(name), std::move(bytes), "", ""};
  }
};

/// What shapes the program beside model and target. The comments name the options of `tenon
/// compile`; its --help and the guide say more of them.
struct Settings {
  /// A number, or a symbol or sum of symbols such as "past+1".
  using Extent = std::variant<std::int64_t, std::string>;
  struct Range {
    std::int64_t low = 0, high = 0;
  };
  struct Interval {
    double low = 0, high = 0;
  };
  struct State {
    std::string output;
    /// The axis at which the run's output is appended; none: it replaces what was there.
    std::optional<std::int64_t> appendAxis = std::nullopt;
  };
  struct Pool {
    std::string name;
    std::int64_t bytes = 0;
  };

  // The model's interface.
  std::map<std::string, Extent> bind;                ///< --bind: values of symbolic dimensions
  std::map<std::string, std::string> constants;      ///< --bind NAME=@FILE: .npy or .pb files
  std::map<std::string, std::vector<Extent>> shapes; ///< --shape: whole shapes of inputs
  std::map<std::string, Range> ranges;               ///< --range: dimensions that stay open
  std::map<std::string, State> states;               ///< --state: by input
  std::string decoder;                   ///< --decoder, as in "4096,prefill=128:512"; empty: none
  std::map<std::string, std::string> io; ///< --io: by port, as in "f16,nhwc"
  std::optional<bool> quantizedIo;       ///< --io=quantized or --io=float
  std::map<std::string, Interval> inputRanges; ///< --input-range
  std::vector<Source> operators;               ///< --op: operators of the user's

  // The passes.
  unsigned level = 2;                     ///< -O: 0 to 3
  std::vector<std::string> disable, only; ///< --disable, --only: ids or globs
  std::vector<std::string> debugCounters; ///< --debug-counter: ID=SKIP[+COUNT]
  bool verifyEach = false;                ///< --verify-each

  // The kernels.
  enum class Search { None, Heuristic };
  enum class Optimize { Default, Speed, Size };
  std::string precision = "fp32";        ///< --precision, as in "fp16,/head/*=fp32"
  Search search = Search::Heuristic;     ///< --search; `tenon tune` measures
  std::vector<Source> tuning;            ///< --tuning: what `tenon tune` wrote
  std::optional<std::int64_t> workspace; ///< --workspace: bytes
  std::int64_t kernels = 60;             ///< --kernels
  std::int64_t threads = 1;              ///< --threads: of a context, 1 to 64
  Optimize optimize = Optimize::Default; ///< --optimize: microcontrollers
  std::optional<std::int64_t> ramLimit;  ///< --ram-limit: bytes; microcontrollers
  std::vector<Pool> pools;               ///< --pool: fastest first; microcontrollers

  // The text.
  enum class Weights { Auto, Inline, Incbin, File };
  enum class Runtime { Embed, Include };
  std::string name = "model";       ///< -o: files are called so, with their suffixes
  std::string prefix;               ///< --prefix; empty: made of the name
  Weights weights = Weights::Auto;  ///< --weights
  Runtime runtime = Runtime::Embed; ///< --runtime
  std::int64_t textBytes = 1 << 16; ///< --text-bytes
  bool hooks = false;               ///< --hooks
};

struct Request {
  Source model;
  /// As `tenon targets` and targets() list them; cuda levels may be joined: "cuda:sm_80+sm_90a".
  std::string target = "cpu:native";
  Settings settings;
};

/// One file that `tenon compile` would write.
struct File {
  std::string name, bytes;
};

/// A fusion that was made, or why it was not (--report=fusion).
struct Fusion {
  std::string id;
  bool accepted = false;
  std::vector<std::string> nodes; ///< of both sides, producer first
  std::string reason;             ///< why not
  std::int64_t bytesSaved = 0;    ///< of memory traffic, or what would have been
  std::string variant;            ///< the machine level that it is for; empty: all
  /// Of what was decided by time: microseconds of one kernel and of several; else 0.
  double together = 0, apart = 0;
};

/// One step of the program (--report=kernels).
struct Kernel {
  std::string variant; ///< the machine level that it is for
  int step = 0;
  std::string schedule; ///< the kernel and its parameters
  std::vector<std::string> nodes;
  double operations = 0; ///< 2 for a multiply-add
  std::int64_t trafficBytes = 0, scratchBytes = 0;
};

/// What a program takes and gives, as the C interface shows it: values carried from run to run are
/// left out.
struct Interface {
  /// One extent of a port: an expression over constants and symbols in postfix order, such as
  /// {"N", "2", "*"}; the operations are + * // min max. `most` is the largest value.
  struct Extent {
    std::int64_t most = 0;
    std::vector<std::string> formula;
  };
  struct Port {
    std::string name;
    std::string type; ///< of its elements: "f32", "i64", "bf16", "str"
    std::vector<Extent> shape;
  };
  /// A dimension known at run time, in the order of the C interface's numbers.
  struct Symbol {
    std::string name;
    std::int64_t low = 0, high = 0;
    bool carried = false; ///< the length of what is carried from run to run: each run sets it
  };
  std::vector<Port> inputs, outputs;
  std::vector<Symbol> symbols;
  bool states = false; ///< values are carried from run to run
  /// A language model's functions that take tokens (Settings::decoder).
  struct Decoder {
    std::int64_t tokens = 0;     ///< the input's place
    std::int64_t capacity = 0;   ///< tokens that the caches hold
    std::int64_t vocabulary = 0; ///< logits of a token
    std::string logits;          ///< type of their elements
    bool lastLogits = true;      ///< a run has those of its last token alone
    bool shortens = true;        ///< the last tokens can be taken back one by one
  };
  std::optional<Decoder> decoder;
};

/// A constant's bytes among the weights of a CUDA program: `offset` counts from the first byte
/// behind the weights file's header of 32 bytes.
struct Weight {
  std::string name; ///< of the tensor, spelled as an identifier
  std::int64_t offset = 0, bytes = 0;
};

struct Output {
  Interface interface;
  /// The C++ or CUDA source first, then its header, and weights where they are a file.
  std::vector<File> files;
  /// The target with `native` resolved, and the model's own name.
  std::string target, model;
  std::int64_t nodes = 0, kernelCount = 0;
  std::int64_t weightBytes = 0, arenaBytes = 0, stateBytes = 0;
  std::vector<Weight> weights;      ///< of CUDA programs, in order of their offsets
  double estimatedMicroseconds = 0; ///< of one run; 0: unknown
  std::vector<Fusion> fusions;
  std::vector<Kernel> kernels;
  /// Files that were read beside those of the request: external data.
  std::vector<std::string> filesRead;
};

/// None after errors, which stand among the messages; they are added to those that are there.
std::optional<Output> compile(const Request &request, std::vector<Message> &messages);

/// A dense, row-major tensor. Elements below a byte are packed, the first in the low bits.
struct Array {
  std::string type; ///< of its elements, as in Interface::Port
  std::vector<std::int64_t> shape;
  std::string bytes;              ///< little-endian
  std::vector<std::string> texts; ///< the elements of type "str", in place of bytes
};

/// A model on Tenon's interpreter: it runs what was imported, before any pass, without a compiler.
/// It is what generated code is compared with, and slow. One run at a time.
class InterpretedModel {
public:
  /// Null after errors. Of the settings those count that shape the model's interface; the target is
  /// not looked at.
  static std::unique_ptr<InterpretedModel> load(const Request &request,
                                                std::vector<Message> &messages);
  ~InterpretedModel();

  const Interface &interface() const;
  /// Outputs of one run, in order; none after errors.
  std::optional<std::vector<Array>> run(const std::vector<Array> &inputs,
                                        std::vector<Message> &messages);
  /// Clears the values carried from run to run.
  void reset();

private:
  class Implementation;
  explicit InterpretedModel(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

/// "0.1.0".
const char *version();

struct TargetInfo {
  std::string name, summary;
};
/// What can be compiled for, without `native`.
std::vector<TargetInfo> targets();

} // namespace tenon

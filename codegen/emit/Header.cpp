// Implements the header, section by section.
#include "codegen/emit/Header.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/DecoderText.h"
#include "codegen/emit/SelfTest.h"
#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Pools.h"
#include "common/status_codes.h"

#include <cstdio>
#include <tuple>

namespace tenon {
namespace {

llvm::StringRef cTypeName(Element e) {
  switch (e) {
  case Element::F32: return "float";
  case Element::F64: return "double";
  case Element::F16: return "IEEE half precision, 2 bytes";
  case Element::BF16: return "bfloat16, 2 bytes";
  case Element::Bool: return "one byte, 0 or 1";
  case Element::I8: return "signed char";
  case Element::U8: return "unsigned char";
  case Element::I16: return "16-bit signed integer";
  case Element::U16: return "16-bit unsigned integer";
  case Element::I32: return "32-bit signed integer";
  case Element::U32: return "32-bit unsigned integer";
  case Element::I64: return "64-bit signed integer";
  case Element::U64: return "64-bit unsigned integer";
  case Element::I4: return "4-bit signed integers, two to a byte, the first in the low bits";
  case Element::U4: return "4-bit unsigned integers, two to a byte, the first in the low bits";
  case Element::I2: return "2-bit signed integers, four to a byte, the first in the low bits";
  case Element::U2: return "2-bit unsigned integers, four to a byte, the first in the low bits";
  case Element::F4E2M1: return "FP4 E2M1, two to a byte, the first in the low bits";
  case Element::F8E4M3: return "FP8 E4M3FN, 1 byte";
  case Element::F8E4M3Z: return "FP8 E4M3FNUZ, 1 byte";
  case Element::F8E5M2: return "FP8 E5M2, 1 byte";
  case Element::F8E5M2Z: return "FP8 E5M2FNUZ, 1 byte";
  case Element::F8E8M0: return "FP8 E8M0, 1 byte";
  case Element::C64: return "two floats each, real and imaginary part";
  case Element::C128: return "two doubles each, real and imaginary part";
  case Element::String: return "text, 16 bytes each";
  default: return "packed";
  }
}

/// What --io changed, for the port's comment.
std::string ownForm(const Port &port) {
  if (!port.own)
    return "";
  std::string text = port.own->channelsLast ? "; channels last" : "";
  if (port.own->element != port.type.element())
    text += "; the model has " + cTypeName(port.own->element).str();
  return text;
}

/// A float constant of C89.
std::string floatText(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9e", v);
  return std::string(text) + "f";
}

/// The C type of an integer that floats become.
std::string integerType(Element e) {
  const bool byte = bitWidth(e) == 8;
  return std::string(isUnsignedInt(e) ? "unsigned "
                     : byte           ? "signed "
                                      : "") +
         (byte ? "char" : "short");
}

std::string upperIdentifier(llvm::StringRef s) { return llvm::StringRef(cIdentifier(s)).upper(); }

class HeaderWriter {
public:
  HeaderWriter(const Module &module, const InterfaceInfo &info, const Target &target,
               const DimSpelling &dims, const CompileOptions &options,
               const CompileSummary &summary)
      : module_(module), info_(info), target_(target), dims_(dims), options_(options),
        summary_(summary), pools_(poolsOf(module)), cuda_(target.family->facts.device),
        heap_(target.family->facts.hosted) {}

  std::string run() {
    opening();
    ports(info_.inputs, "INPUT", "input");
    ports(info_.outputs, "OUTPUT", "output");
    sizes();
    dimensions();
    statusCodes();
    types();
    write("#ifdef __cplusplus\n"
          "extern \"C\" {\n"
          "#endif\n"
          "\n");
    versions();
    models();
    contexts();
    dimensionFunctions();
    runs();
    if (info_.decoder)
      decoder();
    conversions();
    selfTest();
    hooks();
    oldNames();
    write("\n"
          "#ifdef __cplusplus\n"
          "}\n"
          "#endif\n"
          "\n"
          "#endif\n");
    return w_.take();
  }

private:
  /// Lines in which @ stands for the prefix and $ for its upper case; the last one ends with \n.
  void write(llvm::StringRef text) {
    while (!text.empty()) {
      llvm::StringRef line;
      std::tie(line, text) = text.split('\n');
      std::string s;
      for (char c : line)
        s += c == '@' ? info_.prefix : c == '$' ? info_.upper : std::string(1, c);
      w_.line(s);
    }
  }
  void define(const std::string &name, const std::string &value) {
    w_.line("#define " + name + " " + value);
  }
  void define(const std::string &name, int64_t value) { define(name, std::to_string(value)); }

  void opening() {
    w_.line("/* C interface of the model '" + commentSafe(module_.name) +
            "', compiled by tenon " TENON_VERSION);
    w_.line(" * for " + target_.name + ". Generated; belongs to its user. Valid C89, and C++.");
    write(R"( * SPDX-License-Identifier: Apache-2.0
 *
 * A model holds the weights, is immutable and may be shared between threads. A context
 * holds the memory of one run at a time: one for each thread or stream. Functions return 0
 * or an error code that @_error_message explains. Tensors are dense, row-major, in the
 * shape that the macros state (the largest one where a dimension is settable). Any address that
 * is a multiple of their elements' size is correct; multiples of 16 bytes and more are fast.
 *
 *   @_model *model;
 *   @_context *context;
 *   int code = @_model_open(NULL, &model);
 *   if (code == $_OK) code = @_context_create(model, &context);
 *   if (code == $_OK) code = @_run(context, inputs, outputs);
 *   ... @_context_destroy(context); @_model_close(model);
 *
 * These names and numbers are the same for processors, GPUs and microcontrollers, so that
 * one program serves all; what a target cannot do returns $_UNSUPPORTED. */
#ifndef $_H
#define $_H

#include <stddef.h>

/* Of the interface. A new version adds; it changes nothing that stands here. */
#define $_INTERFACE_VERSION 1

)");
  }

  void ports(llvm::ArrayRef<Port> list, llvm::StringRef kind, llvm::StringRef lower) {
    define(info_.upper + "_" + kind.str() + "_COUNT", int64_t(list.size()));
    for (size_t i = 0; i < list.size(); ++i) {
      w_.line("");
      w_.line("/* " + lower.str() + " " + std::to_string(i) + ": '" + commentSafe(list[i].name) +
              "', " + cTypeName(list[i].type.element()).str() + ownForm(list[i]) + " */");
      port(list[i], int64_t(i));
    }
    w_.line("");
  }

  void port(const Port &port, int64_t index) {
    const std::string stem = info_.upper + "_" + port.identifier;
    define(stem + "_INDEX", index);
    define(stem + "_NAME", "\"" + stringSafe(port.name) + "\"");
    define(stem + "_TYPE", "\"" + name(port.type.element()).str() + "\"");
    define(stem + "_RANK", int64_t(port.type.rank()));
    std::string shape;
    for (int64_t d : port.type.upperShape())
      shape += (shape.empty() ? "" : ", ") + std::to_string(d);
    define(stem + "_SHAPE", "{" + (shape.empty() ? "1" : shape) + "}");
    define(stem + "_SIZE", port.type.upperElements());
    define(stem + "_BYTES", byteSize(port.type.element(), port.type.upperElements()));
    if (!port.quantization)
      return;
    const int64_t classes = port.quantization->softmax;
    w_.line("/* the model's float is (integer - zero point) * scale" +
            (classes ? ", then a softmax over each " + std::to_string(classes) : std::string()) +
            " */");
    define(stem + "_SCALE", floatText(port.quantization->scale));
    define(stem + "_ZERO_POINT", port.quantization->zero);
  }

  /// Of the memory that contexts need.
  void sizes() {
    define(info_.upper + "_ARENA_BYTES", summary_.arenaBytes);
    define(info_.upper + "_WEIGHT_BYTES", summary_.weightBytes);
    write("/* Name of the file that holds the weights, beside this header; NULL: the program does. "
          "*/\n");
    define(info_.upper + "_WEIGHTS_FILE",
           info_.weightsFile.empty() ? "NULL" : "\"" + stringSafe(info_.weightsFile) + "\"");
    write("/* Threads of a context where options do not say (--threads). */\n");
    define(info_.upper + "_THREADS", int64_t(heap_ && !cuda_ ? std::max(options_.threads, 1u) : 1));
    write("/* Alignment of memory for @_context_place. */\n");
    define(info_.upper + "_CONTEXT_ALIGNMENT", int64_t(cuda_ ? 256 : 1));
    if (!cuda_) {
      auto padded = [](int64_t n) { return (n + 63) / 64 * 64; };
      define(info_.upper + "_STATE_BYTES", summary_.stateBytes);
      if (summary_.textBytes) {
        write(
            "/* The most that one run may spell of text that no input holds (--text-bytes). */\n");
        define(info_.upper + "_TEXT_BYTES", summary_.textBytes);
      }
      write("/* What @_model_context_bytes returns, for memory reserved when linking. */\n");
      const int64_t arena = pools_.empty() ? padded(summary_.arenaBytes) : 0;
      const int64_t count = int64_t(dims_.symbols().size()),
                    dims = count > 16 ? padded(count * 8) : 0;
      define(info_.upper + "_CONTEXT_BYTES",
             64 + 256 + dims + arena + padded(summary_.stateBytes) + padded(summary_.textBytes) +
                 (info_.decoder ? padded(decoderBytes(*info_.decoder)) : 0));
      if (!pools_.empty())
        poolSizes();
    }
    w_.line("");
  }

  /// What elements of text are.
  void textType() {
    write("\n"
          "/* One element of text: `size` bytes of UTF-8 at `data`, any of which may be 0; no 0 "
          "behind\n"
          " * them is needed, and `data` may be null where `size` is 0. Outputs refer to bytes of "
          "the\n"
          " * inputs, of the program (labels, behind which a 0 stands) and of the context: they "
          "last\n"
          " * as long as the inputs do and no other run with the context has begun. */\n"
          "typedef struct @_text {\n"
          "  const char *data;\n"
          "  size_t size;\n"
          "} @_text;\n");
  }

  void poolSizes() {
    const std::vector<int64_t> used = poolUse(planMemory(module_.graph()), pools_);
    write("\n"
          "/* The arena is split over these memories. Each context is given its own by\n"
          " * @_context_set_pool, or, where the build defines a macro such as\n");
    w_.line(" * TENON_POOL_" + upperIdentifier(pools_[0].name) +
            "_SECTION, the file has one for all contexts. */");
    define(info_.upper + "_POOL_COUNT", int64_t(pools_.size()));
    for (size_t i = 0; i < pools_.size(); ++i) {
      const std::string stem = info_.upper + "_POOL_" + upperIdentifier(pools_[i].name);
      define(stem, int64_t(i));
      define(stem + "_BYTES", used[i]);
    }
  }

  std::string dimMacro(llvm::StringRef symbol) const {
    return info_.upper + "_DIM_" + upperIdentifier(symbol);
  }

  void dimensions() {
    if (dims_.symbols().empty())
      return;
    write("/* Dimensions known at run time; the initial value is the upper bound. */\n");
    for (const std::string &name : info_.lengths) {
      const std::string stem = dimMacro(name);
      w_.line("/* " + stem + " is the length of what is carried from run to run: " + stem +
              "_MIN after creation");
      write(" * and @_reset, more after each run. @_set_dim shortens it; a run that finds it\n");
      w_.line(" * beyond " + stem + "_MAX does nothing and says so. */");
    }
    for (size_t i = 0; i < dims_.symbols().size(); ++i) {
      const Dim d = dims_.symbols()[i];
      const std::string stem = dimMacro(d.symbol());
      define(stem, int64_t(i));
      define(stem + "_MIN", d.lower());
      define(stem + "_MAX", d.upper());
    }
    w_.line("");
  }

  void statusCodes() {
    write("/* What functions return. */\n"
          "enum @_status {\n");
    std::vector<std::tuple<std::string, int, llvm::StringRef>> rows;
#define TENON_STATUS_ROW(name, number, message) rows.emplace_back(#name, number, message);
    TENON_STATUS_CODES(TENON_STATUS_ROW)
    TENON_TEXT_STATUS_CODES(TENON_STATUS_ROW)
    TENON_DECODER_STATUS_CODES(TENON_STATUS_ROW)
    TENON_DEVICE_STATUS_CODES(TENON_STATUS_ROW)
#undef TENON_STATUS_ROW
    llvm::sort(rows, [](auto &a, auto &b) { return std::get<int>(a) < std::get<int>(b); });
    for (const auto &[name, number, message] : rows)
      w_.line("  " + info_.upper + "_" + llvm::StringRef(name).upper() + " = " +
              std::to_string(number) + (&name == &std::get<0>(rows.back()) ? "" : ",") + " /* " +
              message.str() + " */");
    write("};\n\n");
  }

  void types() {
    write("typedef struct @_model @_model;\n"
          "typedef struct @_context @_context;\n");
    write(cuda_ ? "/* A cudaStream_t, or CUstream of the driver's interface. */\n"
                  "typedef struct CUstream_st *@_stream;\n"
                : "/* A device's queue of work; this target has none: NULL. */\n"
                  "typedef struct @_stream_of_no_device *@_stream;\n");
    if (info_.hasText)
      textType();
    write(R"(
/* A piece of the weights that lies in a GPU's memory already. */
typedef struct @_weights_piece {
  size_t offset; /* among the weights, a multiple of 64 */
  size_t bytes;
  const void *data; /* the same bytes; its address is a multiple of 256 */
} @_weights_piece;

/* How a model is opened. Begin with $_OPTIONS_INIT, which sets `size`; later versions add
 * members at the end, and a program and a caller of different versions understand each
 * other. What is 0 or NULL is the default. */
typedef struct @_options {
  size_t size; /* sizeof(@_options) */
  /* Where $_WEIGHTS_FILE is: its path, or, where `weights` is not NULL, its bytes, which
   * outlive the model. Ignored where that macro is NULL. */
  const char *weights_path;
  const void *weights;
  size_t weights_bytes;
  /* The GPU's number; 0 where there is none. */
  int device;
  /* Threads that a context of the model computes with, at most: a build without threads
   * takes one. 0: $_THREADS. */
  int threads;
  /* Memory for weights and contexts: device memory on a GPU (with its device current), else
   * host memory. `allocate` returns NULL where there is none. Both or neither;
   * $_UNSUPPORTED on microcontrollers, whose contexts are placed. */
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *block);
  void *user;
  /* On a GPU: pieces of the weights in order of their offsets, which are not copied but read
   * where they lie. They outlive the model and stay as they are. */
  const @_weights_piece *shared;
  size_t shared_count;
} @_options;
#define $_OPTIONS_INIT {sizeof(@_options), NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 0}

)");
  }

  void versions() {
    write("/* $_INTERFACE_VERSION of the program that was linked or loaded. */\n"
          "int @_interface_version(void);\n"
          "/* What a code means; never NULL. */\n"
          "const char *@_error_message(int code);\n"
          "\n");
  }

  void models() {
    write(
        heap_
            ? "/* Loads the weights. `options` may be NULL. Several models may be open. */\n"
            : "/* The model stands in the image and needs no memory. `options` may be NULL. */\n");
    write("int @_model_open(const @_options *options, @_model **out);\n"
          "/* Comes after the destruction of its contexts. */\n"
          "void @_model_close(@_model *model);\n");
    if (!heap_)
      write("/* The same model, for programs that make no other. */\n"
            "const @_model *@_model_get(void);\n");
    w_.line("");
  }

  void contexts() {
    if (heap_)
      write("/* A context in memory of the options' allocator or of the target. */\n");
    else
      write("/* The context that the image has memory for: one at a time, else "
            "$_OUT_OF_MEMORY.\n"
            " * Images that do not call it lack that memory, when linked with --gc-sections or\n"
            " * built with -DTENON_NO_STATIC_CONTEXT. */\n");
    write("int @_context_create(const @_model *model, @_context **out);\n"
          "void @_context_destroy(@_context *context);\n");
    write(cuda_ ? "/* A context in memory of the caller that outlives it: device memory of at "
                  "least\n"
                  " * @_model_context_bytes() bytes, aligned to $_CONTEXT_ALIGNMENT. */\n"
                : "/* A context in memory of the caller that outlives it: at least\n"
                  " * @_model_context_bytes() bytes. It computes with one thread and needs no\n"
                  " * destruction, unless @_context_set_threads gives it more. */\n");
    write("size_t @_model_context_bytes(const @_model *model);\n"
          "int @_context_place(const @_model *model, void *memory, size_t bytes, @_context "
          "**out);\n");
    if (!cuda_ && !pools_.empty())
      write("/* Gives a context one of its memories, aligned to 16, before its first run. */\n"
            "int @_context_set_pool(@_context *context, int pool, void *memory, size_t bytes);\n");
    write("/* So many threads compute in the next runs. $_UNSUPPORTED where the target or the "
          "build\n"
          " * has no more than one (--threads=2 or more writes what has, and so does building "
          "with\n"
          " * -DTENON_THREADS -pthread). */\n"
          "int @_context_set_threads(@_context *context, int threads);\n"
          "int @_context_threads(const @_context *context);\n"
          "\n");
  }

  void dimensionFunctions() {
    if (!dims_.symbols().empty()) {
      write("/* Sets a run-time dimension for the next runs. */\n"
            "int @_set_dim(@_context *context, int dim, long value);\n");
      write(cuda_
                ? "/* Builds the launches for the dimensions as they are; needed before @_enqueue "
                  "after a\n"
                  " * change, and done by @_run itself. */\n"
                : "/* Does nothing on this target; a GPU needs it between @_set_dim and "
                  "@_enqueue. */\n");
      write("int @_prepare(@_context *context);\n");
    }
    write("/* Extent of an output along an axis: after a run for data-dependent ones. */\n"
          "long @_output_dim(const @_context *context, int output, int axis);\n");
    if (info_.states)
      write("/* Clears the values carried from run to run. */\n"
            "int @_reset(@_context *context);\n");
    w_.line("");
  }

  void runs() {
    write("/* Runs the model once on host memory; inputs and outputs in the order of the macros "
          "above. */\n"
          "int @_run(@_context *context, const void *const *inputs, void *const *outputs);\n");
    write(!cuda_ ? "/* The same on a stream: NULL here, where it has run when the function "
                   "returns. */\n"
          : info_.followsData
              ? "/* Runs on `stream` with device pointers; waits for what sizes and conditions "
                "depend on, and\n"
                " * returns when the rest is issued. No part of a captured graph. */\n"
              : "/* Runs on `stream` with device pointers; returns at once. */\n");
    write("int @_enqueue(@_context *context, const void *const *inputs, void *const *outputs, "
          "@_stream stream);\n");
    if (!cuda_)
      return;
    write("\n"
          "/* GPUs alone. A sequence of inferences on host memory whose copies overlap with "
          "computing:\n"
          " * at most two are under way. @_collect waits for the oldest one and copies its "
          "outputs. A\n"
          " * null pointer among inputs or outputs, or in their place, means pinned memory: what\n"
          " * @_host_input gave before the submission; what @_host_output gives from the "
          "collection\n"
          " * to the next submission. */\n"
          "#define $_HAS_QUEUE 1\n"
          "int @_submit(@_context *context, const void *const *inputs);\n"
          "int @_collect(@_context *context, void *const *outputs);\n"
          "void *@_host_input(@_context *context, int input);\n"
          "const void *@_host_output(@_context *context, int output);\n");
  }

  /// Of a language model.
  void decoder() {
    const DecoderInfo &d = *info_.decoder;
    w_.line("");
    define(info_.upper + "_CAPACITY", d.capacity);
    define(info_.upper + "_VOCABULARY", d.vocabulary);
    write("/* Tokens that one pass over the weights takes at most; more run in pieces. */\n");
    define(info_.upper + "_PIECE", d.count.upper());
    write(
        "/* How a token is chosen. */\n"
        "typedef struct @_sampling {\n"
        "  float temperature;  /* 0: the largest logit */\n"
        "  int top_k;          /* 0: all */\n"
        "  float top_p;        /* 1: all */\n"
        "  unsigned long seed; /* its low 32 bits */\n"
        "  const int *stop;    /* tokens that end the text */\n"
        "  int stop_count;\n"
        "} @_sampling;\n"
        "/* One sequence without padding, on host memory. Appends `count` tokens to the context's "
        "caches\n"
        " * and gives the logits of the last `rows` of them,\n");
    write(d.lastLogits
              ? " * 0 to 16: where there are more than one, each takes a pass of its own.\n"
              : " * 0 to `count`.\n");
    write(
        " * `inputs`: those of the model in its order, where it has others than the tokens, whose "
        "place\n"
        " * is passed over; else NULL. $_STATE_FULL where the caches lack room for all: nothing "
        "changes. */\n"
        "int @_run_tokens(@_context *context, const int *tokens, int count, const void *const "
        "*inputs,\n"
        "                 void *logits, int rows);\n"
        "/* Draws up to `count` tokens one after the other, the first from the logits of the last "
        "token,\n"
        " * and appends them. `made` says how many; a stop token ends it and is not among them. "
        "*/\n"
        "int @_run_generate(@_context *context, const @_sampling *how, int count, const void "
        "*const *inputs,\n"
        "                   int *tokens, int *made);\n"
        "/* How many tokens the caches hold; and takes the last ones back. */\n"
        "int @_length(@_context *context, long *length);\n"
        "int @_set_length(@_context *context, long length);\n");
  }

  /// Of the interface before version 1: they differ between families of targets.
  void oldNames() {
    write("\n"
          "/* Deprecated: names from before version 1, which the next release leaves out. */\n"
          "#ifndef $_NO_DEPRECATED\n");
    if (cuda_)
      write("int @_model_create(@_model **out, const char *weights_path, int device); /* "
            "@_model_open */\n");
    else if (heap_)
      write("int @_model_create(@_model **out, const char *weights_path); /* @_model_open */\n");
    if (heap_)
      write("void @_model_destroy(@_model *model); /* @_model_close */\n");
    write(cuda_ ? "size_t @_context_bytes(const @_model *model); /* @_model_context_bytes */\n"
                : "size_t @_context_bytes(void); /* @_model_context_bytes */\n");
    write("#endif\n");
  }

  /// Between the model's floats and the interface's integers.
  void conversions() {
    for (bool input : {true, false})
      for (const Port &port : input ? info_.inputs : info_.outputs)
        if (port.quantization) {
          w_.line("");
          w_.line("/* The model's floats of '" + commentSafe(port.name) + "' " +
                  (input ? "to" : "from") + " the integers of this interface. */");
          w_.line(conversionSignature(info_.prefix, port, input) + ";");
        }
  }

  void selfTest() {
    if (!options_.selfTest)
      return;
    w_.line("");
    w_.line("/* In " + options_.stem +
            "_self_test.c: runs the model on one set of inputs. 0 when the outputs are as");
    w_.line(" * expected, the code of a run that failed, 100 + i when output i differs. */");
    w_.line(selfTestSignature(info_.prefix) + ";");
  }

  void hooks() {
    if (!options_.hooks)
      return;
    write("\n"
          "/* Yours to define: called before and after each of the $_LAYER_COUNT layers of a\n"
          " * run, with its number and the names of the nodes that it computes. */\n");
    define(info_.upper + "_LAYER_COUNT", int64_t(summary_.kernels));
    write("void @_before_layer(int layer, const char *nodes);\n"
          "void @_after_layer(int layer, const char *nodes);\n");
  }

  const Module &module_;
  const InterfaceInfo &info_;
  const Target &target_;
  const DimSpelling &dims_;
  const CompileOptions &options_;
  const CompileSummary &summary_;
  const std::vector<Pool> pools_;
  const bool cuda_, heap_;
  SourceWriter w_;
};

} // namespace

std::string conversionSignature(const std::string &prefix, const Port &port, bool input) {
  const std::string integer = integerType(port.type.element());
  return "void " + prefix + (input ? "_quantize_" : "_dequantize_") +
         llvm::StringRef(port.identifier).lower() + "(const " + (input ? "float" : integer) +
         " *from, " + (input ? integer : "float") + " *to, size_t count)";
}

std::string writeHeader(const Module &module, const InterfaceInfo &info, const Target &target,
                        const DimSpelling &dims, const CompileOptions &options,
                        const CompileSummary &summary) {
  return HeaderWriter(module, info, target, dims, options, summary).run();
}

} // namespace tenon

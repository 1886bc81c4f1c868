// Implements the C functions of C++ files.
#include "codegen/cpu/program/EntryPoints.h"

#include "codegen/emit/DecoderText.h"
#include "codegen/emit/Header.h"

namespace tenon {
namespace {

class EntryPoints {
public:
  EntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
              llvm::ArrayRef<Pool> pools, const std::string &space)
      : w_(w), info_(info), dims_(dims), pools_(pools), space_(space), prefix_(info.prefix),
        model_(prefix_ + "_model"), context_(prefix_ + "_context") {}

  void write(bool heap) {
    writeHandles(w_, info_, rt_);
    w_.line("extern \"C\" {").line();
    w_.function("int " + prefix_ + "_interface_version(void)",
                "return " + info_.upper + "_INTERFACE_VERSION;");
    w_.open("const char *" + prefix_ + "_error_message(int code)");
    w_.line("return " +
            errorMessage(info_, rt_ + "weights_unreadable", rt_ + "status_message(code)") + ";");
    w_.close().line();
    if (heap)
      lifetimes();
    else
      onlyModel();
    placement();
    if (!pools_.empty())
      poolMemory();
    if (!heap)
      onlyContext();
    threads(heap);
    runs();
    if (info_.decoder)
      writeDecoderFunctions(w_, info_, space_ + "::", space_ + "::",
                            rt_ + "decoder_machine{" + program_ + ", opened(context)}");
    conversions();
    oldNames(heap);
    trace();
    w_.line("} // extern \"C\"");
  }

private:
  void lifetimes() {
    w_.function("int " + prefix_ + "_model_open(const " + prefix_ + "_options *options, " + model_ +
                    " **out)",
                "return " + rt_ + "open_model(" + program_ + ", options, " + newModel_ + ");");
    w_.function("void " + prefix_ + "_model_close(" + model_ + " *model)",
                rt_ + "close_model(opened(model));");
    w_.function(
        "int " + prefix_ + "_context_create(const " + model_ + " *model, " + context_ + " **out)",
        "return " + rt_ + "create_context(" + program_ + ", opened(model), " + newContext_ + ");");
    w_.function("void " + prefix_ + "_context_destroy(" + context_ + " *context)",
                rt_ + "destroy_context(opened(context));");
  }

  void onlyModel() {
    w_.line("static const " + rt_ + "model " + prefix_ + "_only_model = {" + program_ +
            ".weights};")
        .line();
    w_.function("int " + prefix_ + "_model_open(const " + prefix_ + "_options *options, " + model_ +
                    " **out)",
                "return " + rt_ + "open_only_model(options, &" + prefix_ + "_only_model, " +
                    newModel_ + ");");
    w_.open("void " + prefix_ + "_model_close(" + model_ + " *)").close().line();
    w_.function("const " + model_ + " *" + prefix_ + "_model_get(void)",
                "return reinterpret_cast<const " + model_ + " *>(&" + prefix_ + "_only_model);");
  }

  /// The context that the image has memory for, where it is linked at all.
  void onlyContext() {
    w_.line("#if !defined(TENON_NO_STATIC_CONTEXT)");
    w_.comment("The one context of " + prefix_ + "_context_create. Where nothing calls that, " +
               "--gc-sections drops its memory.");
    w_.line("static " + rt_ + "only_context<" + info_.upper + "_CONTEXT_BYTES> " + prefix_ +
            "_only_context TENON_SECTION(\".bss." + prefix_ + "_only_context\");")
        .line();
    w_.open("TENON_SECTION(\".text." + prefix_ + "_context_create\") int " + prefix_ +
            "_context_create(const " + model_ + " *model, " + context_ + " **out)");
    w_.line("return " + prefix_ + "_only_context.create(" + prefix_ +
            "_context_place, model, out);");
    w_.close().line();
    w_.open("TENON_SECTION(\".text." + prefix_ + "_context_destroy\") void " + prefix_ +
            "_context_destroy(" + context_ + " *context)");
    w_.line(prefix_ + "_only_context.destroy(context);");
    w_.close().line();
    w_.line("#endif").line();
  }

  void threads(bool heap) {
    w_.function("int " + prefix_ + "_context_set_threads(" + context_ + " *context, int threads)",
                heap ? "return " + rt_ + "set_threads(opened(context), threads);"
                     : "return !context || threads < 1 ? " + rt_ +
                           "invalid_argument : threads == 1 ? " + rt_ + "ok : " + rt_ +
                           "unsupported;");
    w_.function("int " + prefix_ + "_context_threads(const " + context_ +
                    (heap ? " *context)" : " *)"),
                heap ? "return " + rt_ + "thread_count(opened(context));" : "return 1;");
  }

  void placement() {
    w_.function("size_t " + prefix_ + "_model_context_bytes(const " + model_ + " *model)",
                "return model ? " + rt_ + "context_bytes(" + program_ + ") : 0;");
    const std::string place =
        rt_ + "place_context(" + program_ + ", opened(model), memory, bytes, " + newContext_ + ")";
    w_.open("int " + prefix_ + "_context_place(const " + model_ +
            " *model, void *memory, size_t bytes, " + context_ + " **out)");
    if (pools_.empty()) {
      w_.line("return " + place + ";");
    } else {
      w_.line("const int code = " + place + ";");
      w_.line("#if TENON_POOLS");
      for (size_t i = 0; i < pools_.size(); ++i)
        w_.line("if (code == 0) opened(*out)->pools[" + std::to_string(i) + "] = " + space_ +
                "::pool_" + cIdentifier(pools_[i].name) + ";");
      w_.line("#endif");
      w_.line("return code;");
    }
    w_.close().line();
  }

  void poolMemory() {
    w_.line("#if TENON_POOLS");
    w_.function("int " + prefix_ + "_context_set_pool(" + context_ +
                    " *context, int pool, void *memory, size_t bytes)",
                "return " + rt_ +
                    "set_pool(opened(context), pool, memory, bytes, pool >= 0 && pool < " +
                    std::to_string(pools_.size()) + " ? " + space_ + "::pool_bytes[pool] : 0);");
    w_.line("#endif").line();
  }

  void runs() {
    if (!dims_.symbols().empty()) {
      w_.function("int " + prefix_ + "_set_dim(" + context_ + " *context, int dim, long value)",
                  "return " + rt_ + "set_dim(" + program_ + ", opened(context), dim, value);");
      w_.function("int " + prefix_ + "_prepare(" + context_ + " *context)",
                  "return context ? " + rt_ + "ok : " + rt_ + "invalid_argument;");
    }
    w_.function("long " + prefix_ + "_output_dim(const " + context_ +
                    " *context, int output, int axis)",
                "return context ? " + space_ +
                    "::output_extent(opened(context)->dims, output, axis) : -1;");
    if (info_.states)
      w_.function("int " + prefix_ + "_reset(" + context_ + " *context)",
                  "return " + rt_ + "reset_context(" + program_ + ", opened(context));");
    w_.function("int " + prefix_ + "_run(" + context_ +
                    " *context, const void *const *inputs, void *const *outputs)",
                "return " + rt_ + "run_context(" + program_ +
                    ", opened(context), inputs, outputs);");
    w_.function("int " + prefix_ + "_enqueue(" + context_ +
                    " *context, const void *const *inputs, void *const *outputs, " + prefix_ +
                    "_stream stream)",
                "return stream ? " + rt_ + "unsupported : " + prefix_ +
                    "_run(context, inputs, outputs);");
  }

  /// What quantises inputs and dequantises outputs (--io quantized).
  void conversions() {
    for (bool input : {true, false})
      for (const Port &port : input ? info_.inputs : info_.outputs) {
        if (!port.quantization)
          continue;
        const std::string stem = info_.upper + "_" + port.identifier;
        const int64_t row = port.quantization->softmax;
        w_.function(conversionSignature(prefix_, port, input),
                    rt_ +
                        (input ? "quantize_values"
                         : row ? "dequantize_softmax"
                               : "dequantize_values") +
                        "(from, to, count, " + stem + "_SCALE, " + stem + "_ZERO_POINT" +
                        (row ? ", " + std::to_string(row) : "") + ");");
      }
  }

  /// Of the interface before version 1, for one release.
  void oldNames(bool heap) {
    if (heap) {
      w_.open("int " + prefix_ + "_model_create(" + model_ + " **out, const char *weights_path)");
      w_.line(prefix_ + "_options options = " + info_.upper + "_OPTIONS_INIT;");
      w_.line("options.weights_path = weights_path;");
      w_.line("return " + prefix_ + "_model_open(&options, out);");
      w_.close().line();
      w_.function("void " + prefix_ + "_model_destroy(" + model_ + " *model)",
                  prefix_ + "_model_close(model);");
    }
    w_.function("size_t " + prefix_ + "_context_bytes(void)",
                "return " + rt_ + "context_bytes(" + program_ + ");");
  }

  void trace() {
    w_.line("#if defined(TENON_TRACE)");
    w_.open("void " + prefix_ + "_set_trace(" + context_ + " *context, " + rt_ +
            "trace_hook hook, void *user)");
    w_.line("opened(context)->trace = hook;");
    w_.line("opened(context)->trace_user = user;");
    w_.close();
    w_.line("#endif").line();
  }

  SourceWriter &w_;
  const InterfaceInfo &info_;
  const DimSpelling &dims_;
  const llvm::ArrayRef<Pool> pools_;
  const std::string &space_, &prefix_;
  const std::string model_, context_;
  const std::string rt_ = space_ + "::rt::", program_ = space_ + "::the_program";
  const std::string newModel_ = "reinterpret_cast<" + rt_ + "model **>(out)";
  const std::string newContext_ = "reinterpret_cast<" + rt_ + "context **>(out)";
};

} // namespace

void writeCppEntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
                         llvm::ArrayRef<Pool> pools, const std::string &space, bool heap) {
  EntryPoints(w, info, dims, pools, space).write(heap);
}

} // namespace tenon

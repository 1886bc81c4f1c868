// Implements the C functions of CUDA files.
#include "codegen/cuda/program/EntryPoints.h"

#include "codegen/emit/DecoderText.h"

namespace tenon {
namespace {

class EntryPoints {
public:
  EntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
              const std::string &scope)
      : w_(w), info_(info), dims_(dims), scope_(scope), prefix_(info.prefix),
        model_(prefix_ + "_model"), context_(prefix_ + "_context") {}

  void write() {
    writeHandles(w_, info_, "tenon::cuda::");
    w_.line("extern \"C\" {").line();
    lifetimes();
    dimensions();
    runs();
    if (info_.decoder)
      writeDecoderFunctions(w_, info_, scope_,
                            "tenon::", "tenon::cuda::decoder_machine{opened(context)}");
    oldNames();
    observers();
    w_.line("} // extern \"C\"");
  }

private:
  void lifetimes() {
    const std::string newContext = "reinterpret_cast<tenon::cuda::context **>(out)";
    w_.function("int " + prefix_ + "_interface_version(void)",
                "return " + info_.upper + "_INTERFACE_VERSION;");
    w_.open("const char *" + prefix_ + "_error_message(int code)");
    w_.line("return " +
            errorMessage(info_, "tenon::cuda::weights_unreadable", "tenon::cuda::message(code)") +
            ";");
    w_.close().line();
    w_.function("int " + prefix_ + "_model_open(const " + prefix_ + "_options *options, " + model_ +
                    " **out)",
                "return tenon::cuda::open(reinterpret_cast<tenon::cuda::model **>(out), " + scope_ +
                    "the_program, options);");
    w_.function("void " + prefix_ + "_model_close(" + model_ + " *model)",
                "tenon::cuda::destroy(opened(model));");
    w_.function("int " + prefix_ + "_context_create(const " + model_ + " *model, " + context_ +
                    " **out)",
                "return tenon::cuda::create(" + newContext + ", opened(model));");
    w_.function("void " + prefix_ + "_context_destroy(" + context_ + " *context)",
                "tenon::cuda::destroy(opened(context));");
    w_.function("size_t " + prefix_ + "_model_context_bytes(const " + model_ + " *model)",
                "return tenon::cuda::context_bytes(opened(model));");
    w_.function("int " + prefix_ + "_context_place(const " + model_ +
                    " *model, void *memory, size_t bytes, " + context_ + " **out)",
                "return tenon::cuda::place(" + newContext + ", opened(model), memory, bytes);");
    w_.function("int " + prefix_ + "_context_set_threads(" + context_ + " *context, int threads)",
                "return tenon::cuda::set_threads(opened(context), threads);");
    w_.function("int " + prefix_ + "_context_threads(const " + context_ + " *)", "return 1;");
  }

  /// Of the interface before version 1, for one release.
  void oldNames() {
    w_.open("int " + prefix_ + "_model_create(" + model_ +
            " **out, const char *weights_path, int device)");
    w_.line(prefix_ + "_options options = " + info_.upper + "_OPTIONS_INIT;");
    w_.line("options.weights_path = weights_path;");
    w_.line("options.device = device;");
    w_.line("return " + prefix_ + "_model_open(&options, out);");
    w_.close().line();
    w_.function("void " + prefix_ + "_model_destroy(" + model_ + " *model)",
                prefix_ + "_model_close(model);");
    w_.function("size_t " + prefix_ + "_context_bytes(const " + model_ + " *model)",
                "return " + prefix_ + "_model_context_bytes(model);");
  }

  void dimensions() {
    if (!dims_.symbols().empty()) {
      w_.function("int " + prefix_ + "_set_dim(" + context_ + " *context, int dim, long value)",
                  "return tenon::cuda::set_dim(opened(context), dim, value);");
      w_.function("int " + prefix_ + "_prepare(" + context_ + " *context)",
                  "return tenon::cuda::prepare(opened(context));");
    }
    w_.function(
        "long " + prefix_ + "_output_dim(const " + context_ + " *context, int output, int axis)",
        "return context ? " + scope_ + "output_extent(opened(context)->dims, output, axis) : -1;");
    if (info_.states)
      w_.function("int " + prefix_ + "_reset(" + context_ + " *context)",
                  "return tenon::cuda::reset(opened(context));");
  }

  void runs() {
    const std::string io = "const void *const *inputs, void *const *outputs";
    w_.function("int " + prefix_ + "_enqueue(" + context_ + " *context, " + io + ", " + prefix_ +
                    "_stream stream)",
                "return tenon::cuda::enqueue(opened(context), inputs, outputs, stream);");
    w_.function("int " + prefix_ + "_run(" + context_ + " *context, " + io + ")",
                "return tenon::cuda::run(opened(context), inputs, outputs);");
    w_.function("int " + prefix_ + "_submit(" + context_ + " *context, const void *const *inputs)",
                "return tenon::cuda::submit(opened(context), inputs);");
    w_.function("int " + prefix_ + "_collect(" + context_ + " *context, void *const *outputs)",
                "return tenon::cuda::collect(opened(context), outputs);");
    w_.function("void *" + prefix_ + "_host_input(" + context_ + " *context, int input)",
                "return tenon::cuda::host_input(opened(context), input);");
    w_.function("const void *" + prefix_ + "_host_output(" + context_ + " *context, int output)",
                "return tenon::cuda::host_output(opened(context), output);");
  }

  /// Tracing and profiling, for builds that ask for them.
  void observers() {
    w_.line("#if defined(TENON_TRACE)");
    w_.open("int " + prefix_ + "_set_trace(" + context_ +
            " *context, tenon::cuda::trace_function hook, void *user)");
    w_.line("return tenon::cuda::set_trace(opened(context), hook, user);");
    w_.close();
    w_.line("#endif");
    w_.line("#if defined(TENON_PROFILE)");
    w_.function("int " + prefix_ + "_start_profile(" + context_ + " *context)",
                "return tenon::cuda::start_profile(opened(context));");
    w_.function("int " + prefix_ + "_read_profile(" + context_ +
                    " *context, unsigned long long *times)",
                "return tenon::cuda::read_profile(opened(context), times);");
    w_.line("#endif");
    w_.line("");
  }

  SourceWriter &w_;
  const InterfaceInfo &info_;
  const DimSpelling &dims_;
  const std::string &scope_, &prefix_;
  const std::string model_, context_;
};

} // namespace

void writeCudaEntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
                          const std::string &scope) {
  EntryPoints(w, info, dims, scope).write();
}

} // namespace tenon

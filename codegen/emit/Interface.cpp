// Implements the generated interface and the parts that C++ and CUDA files share.
#include "codegen/emit/Interface.h"

#include "codegen/emit/SelfTest.h"

#include "codegen/Packing.h"
#include "codegen/Pools.h"
#include "codegen/Work.h"
#include "codegen/emit/SourceWriter.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <set>

#ifndef TENON_VERSION
#define TENON_VERSION "unknown"
#endif

namespace tenon {
namespace {

std::string upperCase(llvm::StringRef s) { return s.upper(); }

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
  default: return "packed";
  }
}

} // namespace

std::vector<Growth> growthsOf(Graph &graph) {
  std::vector<Growth> out;
  for (const State &s : graph.states) {
    if (s.appendAxis < 0)
      continue;
    const auto axis = unsigned(s.appendAxis);
    const Growth g{graph.body().argument(s.input)->type().dim(axis),
                   graph.returnOp()->operand(s.output)->type().dim(axis)};
    if (llvm::none_of(out, [&](const Growth &known) { return known.length == g.length; }))
      out.push_back(g);
  }
  return out;
}

bool isBorn(Graph &graph, Dim symbol) {
  return llvm::none_of(graph.body().arguments(),
                       [&](Value *a) { return llvm::is_contained(a->type().shape(), symbol); });
}

std::string advanceFunction(llvm::ArrayRef<Growth> growths, const DimSpelling &dims) {
  SourceWriter w;
  w.comment("Lengths of what is carried, after a run.");
  w.open("static void advance(index_t *dims)");
  auto next = [&](const Growth &g) {
    return "next_" + std::to_string(dims.indexOf(g.length.symbol()));
  };
  for (const Growth &g : growths)
    w.line("const index_t " + next(g) + " = " + dims.value(g.next, "dims") + ";");
  for (const Growth &g : growths)
    w.line("dims[" + std::to_string(dims.indexOf(g.length.symbol())) + "] = " + next(g) + ";");
  w.close();
  w.line("");
  return w.take();
}

InterfaceInfo describeInterface(Graph &graph, const CompileOptions &options) {
  InterfaceInfo info;
  info.prefix = cIdentifier(options.prefix);
  info.upper = upperCase(info.prefix);
  info.states = !graph.states.empty();
  graph.body().walk(
      [&](Operation *op) { info.followsData |= op->isAny(Op::NonZero, Op::If, Op::Loop); });
  for (const Growth &g : growthsOf(graph))
    info.lengths.push_back(g.length.symbol().str());
  // Stems of the header's other macros.
  std::set<std::string> used = {"INPUT", "OUTPUT",  "DIM",   "ARENA", "WEIGHT",
                                "STATE", "CONTEXT", "LAYER", "POOL"};
  auto add = [&](std::vector<Port> &ports, const std::string &name, Type type) {
    Port p;
    p.name = name;
    p.type = type;
    p.quantization = portQuantization(graph.module(), name);
    p.own = portForm(graph.module(), name);
    std::string base = upperCase(cIdentifier(name)), id = base;
    for (int n = 1; !used.insert(id).second; ++n)
      id = base + "_" + std::to_string(n);
    p.identifier = id;
    ports.push_back(p);
  };
  auto carried = [&](auto member, unsigned i) {
    return llvm::any_of(graph.states, [&](const State &s) { return s.*member == i; });
  };
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!carried(&State::input, i))
      add(info.inputs, graph.inputNames[i], graph.body().argument(i)->type());
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!carried(&State::output, i))
      add(info.outputs, graph.outputNames[i], graph.returnOp()->operand(i)->type());
  return info;
}

/// What --io changed, for the header's comment.
static std::string ownForm(const Port &port) {
  if (!port.own)
    return "";
  std::string text = port.own->channelsLast ? "; channels last" : "";
  if (port.own->element != port.type.element())
    text += "; the model has " + cTypeName(port.own->element).str();
  return text;
}

/// A float constant of C89.
static std::string floatText(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9e", v);
  return std::string(text) + "f";
}

/// The C type of an integer that floats become.
static std::string integerType(Element e) {
  return (isUnsignedInt(e)   ? "unsigned "
          : bitWidth(e) == 8 ? "signed "
                             : "") +
         std::string(bitWidth(e) == 8 ? "char" : "short");
}

std::string conversionSignature(const std::string &prefix, const Port &port, bool input) {
  const std::string integer = integerType(port.type.element());
  return "void " + prefix + (input ? "_quantize_" : "_dequantize_") +
         llvm::StringRef(port.identifier).lower() + "(const " + (input ? "float" : integer) +
         " *from, " + (input ? integer : "float") + " *to, size_t count)";
}

/// Declarations of the sequence of inferences on host memory.
static void hostQueue(SourceWriter &w, const std::string &p) {
  w.line("");
  w.line(
      "/* A sequence of inferences on host memory whose copies overlap with computing: at most two "
      "are");
  w.line(" * under way. " + p +
         "_collect waits for the oldest one and copies its outputs. A null "
         "pointer among");
  w.line(" * inputs or outputs, or in their place, means pinned memory: what " + p +
         "_host_input gave before");
  w.line(" * the submission; what " + p +
         "_host_output gives from the collection to the next "
         "submission. */");
  w.line("int " + p + "_submit(" + p + "_context *context, const void *const *inputs);");
  w.line("int " + p + "_collect(" + p + "_context *context, void *const *outputs);");
  w.line("void *" + p + "_host_input(" + p + "_context *context, int input);");
  w.line("const void *" + p + "_host_output(" + p + "_context *context, int output);");
}

std::string writeHeader(const Module &module, const InterfaceInfo &info, const Target &target,
                        const DimSpelling &dims, const CompileOptions &options,
                        const CompileSummary &summary) {
  SourceWriter w;
  const std::string &p = info.prefix, &u = info.upper;
  const bool cuda = target.family == Family::Cuda, heap = target.family != Family::Mcu;
  w.line("/* C interface of the model '" + commentSafe(module.name) +
         "', compiled by tenon " TENON_VERSION);
  w.line(" * for " + target.name + ". Generated; belongs to its user. Valid C89.");
  w.line(" *");
  w.line(" * A model holds the weights, is immutable and may be shared between threads. A context");
  w.line(" * holds the memory of one run at a time: one for each thread or stream. Functions "
         "return 0");
  w.line(" * or an error code that " + p +
         "_error_message explains. Tensors are dense, row-major, in the");
  w.line(" * shape that the macros state (the largest one where a dimension is settable). Any "
         "alignment");
  w.line(" * is correct; 16 bytes and more are fast. */");
  w.line("#ifndef " + u + "_H");
  w.line("#define " + u + "_H");
  w.line("");
  w.line("#include <stddef.h>");
  w.line("");
  auto ports = [&](const std::vector<Port> &list, const char *kind, const char *lower) {
    w.line("#define " + u + "_" + kind + "_COUNT " + std::to_string(list.size()));
    for (size_t i = 0; i < list.size(); ++i) {
      const Port &port = list[i];
      w.line("");
      w.line("/* " + std::string(lower) + " " + std::to_string(i) + ": '" + commentSafe(port.name) +
             "', " + cTypeName(port.type.element()).str() + ownForm(port) + " */");
      const std::string stem = u + "_" + port.identifier;
      w.line("#define " + stem + "_INDEX " + std::to_string(i));
      w.line("#define " + stem + "_NAME \"" + stringSafe(port.name) + "\"");
      w.line("#define " + stem + "_TYPE \"" + name(port.type.element()).str() + "\"");
      w.line("#define " + stem + "_RANK " + std::to_string(port.type.rank()));
      std::string shape;
      for (int64_t d : port.type.upperShape())
        shape += (shape.empty() ? "" : ", ") + std::to_string(d);
      w.line("#define " + stem + "_SHAPE {" + (shape.empty() ? "1" : shape) + "}");
      w.line("#define " + stem + "_SIZE " + std::to_string(port.type.upperElements()));
      w.line("#define " + stem + "_BYTES " +
             std::to_string(byteSize(port.type.element(), port.type.upperElements())));
      if (port.quantization) {
        w.line("/* the model's float is (integer - zero point) * scale" +
               (port.quantization->softmax
                    ? ", then a softmax over each " + std::to_string(port.quantization->softmax)
                    : std::string()) +
               " */");
        w.line("#define " + stem + "_SCALE " + floatText(port.quantization->scale));
        w.line("#define " + stem + "_ZERO_POINT " + std::to_string(port.quantization->zero));
      }
    }
    w.line("");
  };
  ports(info.inputs, "INPUT", "input");
  ports(info.outputs, "OUTPUT", "output");
  w.line("#define " + u + "_ARENA_BYTES " + std::to_string(summary.arenaBytes));
  w.line("#define " + u + "_WEIGHT_BYTES " + std::to_string(summary.weightBytes));
  if (!cuda) {
    auto padded = [](int64_t n) { return (n + 63) / 64 * 64; };
    w.line("#define " + u + "_STATE_BYTES " + std::to_string(summary.stateBytes));
    w.line("/* What " + p + "_context_bytes() returns, for memory reserved when linking. */");
    const std::vector<Pool> pools = poolsOf(module);
    const int64_t arena = pools.empty() ? padded(summary.arenaBytes) : 0;
    w.line("#define " + u + "_CONTEXT_BYTES " +
           std::to_string(64 + 256 + arena + padded(summary.stateBytes)));
    if (!pools.empty()) {
      const std::vector<int64_t> used = poolUse(planMemory(module.graph()), pools);
      w.line("");
      w.line("/* The arena is split over these memories. Each context is given its own by");
      w.line(" * " + p + "_context_set_pool, or, where the build defines a macro such as");
      w.line(" * TENON_POOL_" + llvm::StringRef(cIdentifier(pools[0].name)).upper() +
             "_SECTION, the file has one for all contexts. */");
      w.line("#define " + u + "_POOL_COUNT " + std::to_string(pools.size()));
      for (size_t i = 0; i < pools.size(); ++i) {
        const std::string stem = u + "_POOL_" + upperCase(cIdentifier(pools[i].name));
        w.line("#define " + stem + " " + std::to_string(i));
        w.line("#define " + stem + "_BYTES " + std::to_string(used[i]));
      }
    }
  }
  w.line("");
  if (!dims.symbols().empty()) {
    w.line("/* Dimensions known at run time; the initial value is the upper bound. */");
    for (const std::string &name : info.lengths) {
      const std::string stem = u + "_DIM_" + upperCase(cIdentifier(name));
      w.line("/* " + stem + " is the length of what is carried from run to run: " + stem +
             "_MIN after creation");
      w.line(" * and " + p + "_reset, more after each run. " + p +
             "_set_dim shortens it; a run that finds it");
      w.line(" * beyond " + stem + "_MAX does nothing and says so. */");
    }
    for (size_t i = 0; i < dims.symbols().size(); ++i) {
      Dim d = dims.symbols()[i];
      const std::string stem = u + "_DIM_" + upperCase(cIdentifier(d.symbol()));
      w.line("#define " + stem + " " + std::to_string(i));
      w.line("#define " + stem + "_MIN " + std::to_string(d.lower()));
      w.line("#define " + stem + "_MAX " + std::to_string(d.upper()));
    }
    w.line("");
  }
  w.line("#ifdef __cplusplus");
  w.line("extern \"C\" {");
  w.line("#endif");
  w.line("");
  w.line("typedef struct " + p + "_model " + p + "_model;");
  w.line("typedef struct " + p + "_context " + p + "_context;");
  if (cuda)
    w.line("struct CUstream_st;");
  w.line("");
  w.line("/* What a code means; never null. */");
  w.line("const char *" + p + "_error_message(int code);");
  w.line("");
  if (heap) {
    w.line(
        "/* Loads the weights. The path is read only when the weights are kept in a file of their");
    w.line(" * own (" + options.stem + ".weights); it may be null otherwise. */");
    w.line("int " + p + "_model_create(" + p + "_model **out, const char *weights_path" +
           (cuda ? ", int device" : "") + ");");
    w.line("void " + p + "_model_destroy(" + p + "_model *model);");
    w.line("");
    w.line("int " + p + "_context_create(const " + p + "_model *model, " + p + "_context **out);");
    w.line("void " + p + "_context_destroy(" + p + "_context *context);");
  } else {
    w.line("/* The only model; it needs no memory. */");
    w.line("const " + p + "_model *" + p + "_model_get(void);");
  }
  if (cuda) {
    w.line("/* A context in device memory of the caller: at least " + p +
           "_context_bytes() bytes, aligned to");
    w.line(" * 256, which outlive it. */");
    w.line("size_t " + p + "_context_bytes(const " + p + "_model *model);");
    w.line("int " + p + "_context_place(const " + p +
           "_model *model, void *memory, size_t bytes, " + p + "_context **out);");
  } else {
    w.line("");
    w.line("/* A context in memory of the caller, of at least " + p +
           "_context_bytes() bytes. It needs no");
    w.line(" * destruction. */");
    w.line("size_t " + p + "_context_bytes(void);");
    w.line("int " + p + "_context_place(const " + p +
           "_model *model, void *memory, size_t bytes, " + p + "_context **out);");
    if (!poolsOf(module).empty()) {
      w.line("/* Gives a context one of its memories, aligned to 16, before its first run. */");
      w.line("int " + p + "_context_set_pool(" + p +
             "_context *context, int pool, void *memory, size_t bytes);");
    }
    if (heap) {
      w.line(
          "/* Worker threads of the next runs (files built with -DTENON_THREADS; 1 otherwise). */");
      w.line("int " + p + "_context_set_threads(" + p + "_context *context, int threads);");
    }
  }
  w.line("");
  if (!dims.symbols().empty()) {
    w.line("/* Sets a run-time dimension for the next runs. */");
    w.line("int " + p + "_set_dim(" + p + "_context *context, int dim, long value);");
    if (cuda) {
      w.line("/* Builds the launches for the dimensions as they are; needed before " + p +
             "_enqueue after a");
      w.line(" * change, and done by " + p + "_run itself. */");
      w.line("int " + p + "_prepare(" + p + "_context *context);");
    }
  }
  w.line("/* Extent of an output along an axis: after a run for data-dependent ones. */");
  w.line("long " + p + "_output_dim(const " + p + "_context *context, int output, int axis);");
  if (info.states) {
    w.line("/* Clears the values carried from run to run. */");
    w.line("int " + p + "_reset(" + p + "_context *context);");
  }
  w.line("");
  if (cuda) {
    w.line(info.followsData
               ? "/* Runs on `stream` with device pointers; waits for what sizes and conditions "
                 "depend "
                 "on, and\n * returns when the rest is issued. No part of a captured graph. */"
               : "/* Runs on `stream` with device pointers; returns at once. */");
    w.line("int " + p + "_enqueue(" + p +
           "_context *context, const void *const *inputs, void *const *outputs, struct CUstream_st "
           "*stream);");
    w.line("/* Runs with host pointers and waits. */");
  } else {
    w.line("/* Runs the model once; inputs and outputs in the order of the macros above. */");
  }
  w.line("int " + p + "_run(" + p +
         "_context *context, const void *const *inputs, void *const *outputs);");
  if (cuda)
    hostQueue(w, p);
  for (bool input : {true, false})
    for (const Port &port : input ? info.inputs : info.outputs)
      if (port.quantization) {
        w.line("");
        w.line("/* The model's floats of '" + commentSafe(port.name) + "' " +
               (input ? "to" : "from") + " the integers of this interface. */");
        w.line(conversionSignature(p, port, input) + ";");
      }
  if (options.selfTest) {
    w.line("");
    w.line("/* In " + options.stem +
           "_self_test.c: runs the model on one set of inputs. 0 when the " + "outputs are as");
    w.line(" * expected, the code of a run that failed, 100 + i when output i differs. */");
    w.line(selfTestSignature(p) + ";");
  }
  if (options.hooks) {
    w.line("");
    w.line("/* Yours to define: called before and after each of the " + u +
           "_LAYER_COUNT layers of a");
    w.line(" * run, with its number and the names of the nodes that it computes. */");
    w.line("#define " + u + "_LAYER_COUNT " + std::to_string(summary.kernels));
    w.line("void " + p + "_before_layer(int layer, const char *nodes);");
    w.line("void " + p + "_after_layer(int layer, const char *nodes);");
  }
  w.line("");
  w.line("#ifdef __cplusplus");
  w.line("}");
  w.line("#endif");
  w.line("");
  w.line("#endif");
  return w.take();
}

std::string fileHead(const Module &module, const Target &target, const CompileOptions &options,
                     const std::string &buildCommand) {
  SourceWriter w;
  w.line("// " + buildCommand); // one line, to be copied
  w.comment("");
  w.comment("Generated by tenon " TENON_VERSION " for " + target.name + " from '" +
            commentSafe(module.name) + "'.");
  auto sha = module.facts.find("sha256");
  if (sha != module.facts.end())
    w.comment("Model SHA-256: " + sha->second);
  if (!options.commandLine.empty())
    w.comment("Options: " + commentSafe(options.commandLine));
  w.comment("This file belongs to its user; the embedded runtime is Apache-2.0.");
  return w.take();
}

std::vector<std::string> stepNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const Step &s : plan.steps) {
    std::string stem;
    if (!s.op->loc().empty()) {
      llvm::StringRef last = s.op->loc().front();
      if (last.contains('/'))
        last = last.rsplit('/').second.empty() ? last : llvm::StringRef(last);
      stem = sanitizedStem(last);
    }
    names.push_back("step" + std::to_string(s.number) + (stem.empty() ? "" : "_" + stem));
  }
  return names;
}

std::string stepHeading(const Step &step) {
  SourceWriter w;
  const Operation &op = *step.op;
  std::string title = describe(op.loc());
  if (const Attribute *a = op.find("schedule"))
    if (const Schedule *s = a->get<Schedule>()) {
      title += " | " + s->tactic + "<";
      for (size_t i = 0; i < s->params.size(); ++i)
        title += (i ? ", " : "") + s->params[i].first + "=" + std::to_string(s->params[i].second);
      title += ">";
    }
  w.comment(title);
  std::string facts;
  for (Value *v : op.results())
    facts += (facts.empty() ? "" : ", ") + describe(v->type());
  const Work work = workOf(op);
  facts += "; " + formatCount(work.flops) + "FLOP, " + formatCount(double(work.bytes)) + "B";
  w.comment(facts);
  return w.take();
}

std::string outputDimCases(const InterfaceInfo &info, const DimSpelling &dims) {
  SourceWriter w;
  for (size_t i = 0; i < info.outputs.size(); ++i)
    for (unsigned d = 0; d < info.outputs[i].type.rank(); ++d)
      w.line("case " + std::to_string(i * 16 + d) + ": return " +
             dims.value(info.outputs[i].type.dim(d), "dims") + ";");
  return w.take();
}

std::string weightBytes(const Plan &plan) {
  std::string bytes(size_t(plan.weightBytes), '\0');
  for (Value *v : plan.constants)
    packConstant(storedElements(*v->def()), storedType(*v->def()), bytes.data() + plan[v].at);
  return bytes;
}

std::string weightLiteral(const std::string &name, llvm::StringRef bytes) {
  std::string s = "alignas(64) static const unsigned char " + name + "[" +
                  std::to_string(bytes.size() + 1) + "] =\n    \"";
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (column > 90) {
      s += "\"\n    \"";
      column = 0;
    }
    const size_t before = s.size();
    const bool digitNext = i + 1 < bytes.size() && bytes[i + 1] >= '0' && bytes[i + 1] <= '7';
    if (c >= 32 && c < 127 && c != '"' && c != '\\' && c != '?') {
      s += char(c);
    } else {
      char text[8];
      // Octal escapes take up to three digits: all three when a digit follows.
      snprintf(text, sizeof text, digitNext ? "\\%03o" : "\\%o", unsigned(c));
      s += text;
    }
    column += s.size() - before;
  }
  return s + "\";\n";
}

} // namespace tenon

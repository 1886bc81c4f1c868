// Implements the text of self-tests. The comparison itself is runtime/firmware/self_test.h.
#include "codegen/emit/SelfTest.h"

#include "codegen/emit/Amalgamate.h"
#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

/// Bytes as words, little-endian: aligned, and the same for every element type.
void defineWords(SourceWriter &w, const std::string &name, llvm::ArrayRef<uint8_t> bytes) {
  const size_t words = std::max<size_t>(1, (bytes.size() + 3) / 4);
  w.open("static const unsigned int " + name + "[" + std::to_string(words) + "] =");
  std::string line;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    for (size_t k = 0; k < 4 && 4 * i + k < bytes.size(); ++k)
      word |= uint32_t(bytes[4 * i + k]) << (8 * k);
    line += std::to_string(word) + "u,";
    if (line.size() > 85 || i + 1 == words) {
      w.line(line);
      line.clear();
    }
  }
  w.close("};");
}

std::string join(llvm::ArrayRef<std::string> items) {
  std::string text;
  for (const std::string &item : items)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

} // namespace

std::string selfTestSignature(llvm::StringRef prefix) {
  const std::string p = prefix.str();
  return "int " + p + "_self_test(" + p + "_context *context)";
}

std::string writeSelfTest(Module &module, const Target &target, const CompileOptions &options,
                          llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                          Diagnostics &diagnostics) {
  Graph &graph = module.graph();
  const InterfaceInfo info = describeInterface(graph, options);
  SourceWriter w;
  w.line("/* Self-test of the model '" + commentSafe(module.name) + "', written by tenon " +
         TENON_VERSION + " for " + target.name + ".");
  w.line(" * Link it beside " + options.stem +
         ".cpp, and call what it defines on the device. C89.");
  w.line(" * SPDX-License-Identifier: Apache-2.0 */");
  w.line("#include \"" + options.stem + ".h\"");
  w.line("");
  w.raw(runtimeFile("firmware/self_test.h")).line("");

  std::vector<std::string> pointers, found, rows;
  for (unsigned i = 0, port = 0; i < inputs.size(); ++i) {
    if (graph.stateOfInput(i))
      continue;
    const std::string name = "input_" + std::to_string(port);
    w.line("/* '" + commentSafe(info.inputs[port++].name) + "' */");
    defineWords(w, name, inputs[i].bytes());
    pointers.push_back(name);
  }
  for (unsigned i = 0, port = 0; i < outputs.size(); ++i) {
    if (graph.stateOfOutput(i))
      continue;
    const std::string number = std::to_string(port), expected = "expected_" + number;
    const Element e = outputs[i].element();
    if (isFloat(e) && e != Element::F32) {
      diagnostics.error("--self-test compares integers and f32; output '" +
                        info.outputs[port].name + "' is " + name(e).str());
      return "";
    }
    w.line("/* '" + commentSafe(info.outputs[port++].name) + "' */");
    defineWords(w, expected, outputs[i].bytes());
    w.line("static unsigned int found_" + number + "[sizeof " + expected + " / sizeof(int)];");
    found.push_back("found_" + number);
    rows.push_back("{" + expected + ", found_" + number + ", " +
                   std::to_string(outputs[i].bytes().size()) + ", " + (isFloat(e) ? "1" : "0") +
                   "}");
  }
  w.line("");
  w.open(selfTestSignature(info.prefix));
  w.line("static const void *const inputs[] = {" + (pointers.empty() ? "0" : join(pointers)) +
         "};");
  w.line("static void *const outputs[] = {" + join(found) + "};");
  w.line("static const struct tenon_output compared[] = {" + join(rows) + "};");
  w.line("int code;");
  if (info.states) {
    w.line("code = " + info.prefix + "_reset(context);");
    w.line("if (code != 0) return code;");
  }
  w.line("code = " + info.prefix + "_run(context, inputs, outputs);");
  w.line("if (code != 0) return code;");
  w.line("return tenon_compare(compared, " + std::to_string(rows.size()) + ");");
  w.close();
  return w.take();
}

} // namespace tenon

// Implements the file of --self-test.
#include "tools/SelfTestFile.h"

#include "codegen/emit/CppText.h"
#include "codegen/emit/SelfTest.h"
#include "tools/CalibrationSet.h"
#include "tools/Oracle.h"

namespace tenon {

bool addSelfTest(ToolHost &host, Compiler &compiler, const Target &target,
                 const CompileOptions &options, llvm::StringRef folder,
                 std::vector<CompiledFile> &files, std::vector<std::string> &read) {
  Diagnostics &diagnostics = compiler.diagnostics();
  Graph &graph = compiler.module().graph();
  if (!DimSpelling(compiler.module()).symbols().empty()) {
    diagnostics.error("--self-test needs extents known when compiling; give them with --bind "
                      "or --shape");
    return false;
  }
  auto isText = [](Value *v) { return v->type().element() == Element::String; };
  if (llvm::any_of(graph.body().arguments(), isText) ||
      llvm::any_of(graph.returnOp()->operands(), isText)) {
    diagnostics.error("--self-test compares numbers; this model's interface has text");
    return false;
  }
  DataSet data;
  std::vector<Tensor> inputs;
  if ((folder != "seeded" && !readFirstSample("--self-test", folder, compiler.inputs(),
                                              compiler.outputs(), data, diagnostics)) ||
      !graphInputs(graph, compiler.inputs(), data.inputs, folder == "seeded", inputs, diagnostics))
    return false;
  read = data.files;
  for (const State &s : graph.states) // the first run finds zeros
    inputs[s.input] = Tensor(inputs[s.input].element(), inputs[s.input].shape());
  host.progress("interpreting");
  OracleRun expected;
  if (!interpretGraph(graph, inputs, expected, diagnostics))
    return false;
  files.push_back({"_self_test.c", writeSelfTest(compiler.module(), target, options, inputs,
                                                 expected.outputs, diagnostics)});
  return !diagnostics.hasErrors();
}

} // namespace tenon

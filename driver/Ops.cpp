// Implements `tenon ops`: the operations of the IR, and with --onnx what can be imported.
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "frontend/Import.h"
#include "ir/Op.h"
#include "ir/OpDocs.h"
#include "ir/Scalar.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Unicode.h"

#include <climits>

namespace tenon {
namespace {

struct OpsOptions {
  ConsoleOptions console;
  bool onnx = false;
  bool markdown = false;
};

std::string operandList(const OpInfo &info) {
  std::string s;
  for (llvm::StringRef o : info.operands)
    s += (s.empty() ? "" : ", ") + o.str();
  return s;
}

/// The width of a column with these names and two spaces.
unsigned columnOf(llvm::ArrayRef<llvm::StringRef> names) {
  size_t width = 0;
  for (llvm::StringRef name : names)
    width = std::max(width, name.size());
  return unsigned(width) + 2;
}

void printText(llvm::raw_ostream &os) {
  std::vector<llvm::StringRef> structured, scalars;
  int signatureColumn = 0;
  for (Op op : allOps())
    if (const ScalarInfo *s = scalarInfo(op)) {
      scalars.push_back(s->name);
      const int width = llvm::sys::unicode::columnWidthUTF8(name(s->signature));
      signatureColumn = std::max(signatureColumn, width + 2);
    } else if (!(opInfo(op).traits & OpTrait::Scalar)) {
      structured.push_back(opInfo(op).name);
    }
  const unsigned ops = columnOf(structured), functions = columnOf(scalars);
  os << "structured operations\n";
  for (Op op : allOps()) {
    const OpInfo &info = opInfo(op);
    if (info.traits & OpTrait::Scalar)
      continue;
    os << "  " << llvm::left_justify(info.name, ops) << info.summary << '\n';
    os << "    (" << operandList(info) << ')';
    const char *open = " {";
    for (const AttrInfo &a : info.attributes) {
      os << open << a.name << (a.required ? "" : "?");
      open = ", ";
    }
    os << (info.attributes.empty() ? "" : "}") << '\n';
  }
  os << "\nscalar functions, in bodies of map and reduce\n";
  for (Op op : allOps())
    if (const ScalarInfo *s = scalarInfo(op)) {
      llvm::StringRef signature = name(s->signature);
      os << "  " << llvm::left_justify(s->name, functions) << signature;
      const int width = llvm::sys::unicode::columnWidthUTF8(signature);
      os.indent(unsigned(signatureColumn - width)) << s->summary << '\n';
    }
}

void printJson(llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.array([&] {
    for (Op op : allOps()) {
      const OpInfo &info = opInfo(op);
      const ScalarInfo *s = scalarInfo(op);
      json.object([&] {
        json.attribute("name", s ? s->name : info.name);
        json.attribute("kind", s ? "scalar" : "structured");
        json.attribute("summary", s ? s->summary : info.summary);
        json.attributeArray("operands", [&] {
          for (llvm::StringRef o : info.operands)
            json.value(o);
        });
        json.attributeArray("attributes", [&] {
          for (const AttrInfo &a : info.attributes)
            json.object([&] {
              json.attribute("name", a.name);
              json.attribute("required", a.required);
              json.attribute("summary", a.summary);
            });
        });
      });
    }
  });
  os << '\n';
}

void printOnnx(llvm::raw_ostream &os, bool asJson) {
  const std::vector<SupportedOperator> rows = supportedOperators();
  if (asJson) {
    llvm::json::OStream json(os, 1);
    json.array([&] {
      for (const SupportedOperator &r : rows)
        json.object([&] {
          json.attribute("domain", r.domain);
          json.attribute("name", r.name);
          json.attribute("since", r.since);
          if (r.until != INT_MAX)
            json.attribute("until", r.until);
        });
    });
    os << '\n';
    return;
  }
  for (const SupportedOperator &r : rows) {
    os << (r.domain == "ai.onnx" ? "" : r.domain.str() + "::") << r.name << "  opset " << r.since;
    if (r.until == INT_MAX)
      os << " and later\n";
    else
      os << " to " << r.until << '\n';
  }
}

/// The ONNX operators, with the opsets in which each is read and what it takes besides numbers.
void printOnnxDocs(llvm::raw_ostream &os) {
  os << "\n## ONNX operators\n\n"
        "[`frontend/onnx/Table.cpp`](../frontend/onnx/Table.cpp): what a model may hold, besides "
        "its "
        "own functions and operators of the user. Each becomes the operations above; those on text "
        "run in the interpreter and in C++ ([text.md](text.md)), sequences and optionals are "
        "lowered to their tensors. "
        "[onnx.md](onnx.md) has the element types, operations and targets of each.\n\n"
        "| operator | opsets | besides numbers |\n|---|---|---|\n";
  for (const SupportedOperator &r : supportedOperators()) {
    os << "| `" << (r.domain == "ai.onnx" ? "" : r.domain.str() + ".") << r.name << "` | "
       << r.since;
    if (r.until == INT_MAX)
      os << " and later";
    else if (r.until != r.since)
      os << " to " << r.until;
    os << " | " << r.takes << " |\n";
  }
}

int run(const OpsOptions &options) {
  if (options.markdown) {
    printOpDocs(llvm::outs());
    printOnnxDocs(llvm::outs());
  } else if (options.onnx)
    printOnnx(llvm::outs(), options.console.json);
  else if (options.console.json)
    printJson(llvm::outs());
  else
    printText(llvm::outs());
  return Done;
}

} // namespace

void declareOps(CommandLine &app) {
  auto options = std::make_shared<OpsOptions>();
  CommandLine sub = app.command("ops", "lists the operations of the IR");
  sub.flag("--onnx", options->onnx, "the ONNX operators that can be imported");
  sub.flag("--markdown", options->markdown,
           "the reference of operations and ONNX operators, as in docs/ops.md");
  declare(sub, options->console);
  sub.runs([options, sub] {
    const std::string why = "--markdown is the whole reference, in that form alone";
    if (!Console(options->console)
             .accepts(sub.givenInVain(
                 {{"--onnx", options->markdown, why}, {"--json", options->markdown, why}})))
      return int(Usage);
    return run(*options);
  });
}

} // namespace tenon

// Defines what `compile` and `inspect` say about a compilation, as text and as JSON.
#pragma once

#include "compiler/Compiler.h"

#include "llvm/Support/JSON.h"

namespace tenon {

/// The kinds of --report.
enum class ReportKind { Fusion, Memory, Kernels, Passes };
llvm::StringRef name(ReportKind kind);
std::vector<ReportKind> reportKinds(llvm::ArrayRef<std::string> words);

/// A name for people: where it is longer than 60 bytes, its beginning and its end, which both tell
/// more than the middle.
std::string shortName(llvm::StringRef name);
/// The first nodes of a kernel, and how many more there are: `a, b, c +2`.
std::string nodesText(llvm::ArrayRef<std::string> nodes);

/// Text of the model's with what is no plain character escaped.
std::string escaped(llvm::StringRef text);

/// The one-screen summary after a compilation.
void printSummary(llvm::raw_ostream &os, Compiler &compiler, const Target &target,
                  const CompileSummary &summary, llvm::ArrayRef<std::string> files);
void writeSummary(llvm::json::OStream &json, Compiler &compiler, const Target &target,
                  const CompileSummary &summary, llvm::ArrayRef<std::string> files);

void printReport(llvm::raw_ostream &os, ReportKind kind, Compiler &compiler);
/// One attribute of the object that is open, named after the kind.
void writeReport(llvm::json::OStream &json, ReportKind kind, Compiler &compiler);

} // namespace tenon

// Defines Console: everything a command says to a person.
#pragma once

#include "driver/Options.h"
#include "tools/ToolHost.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace tenon {

class ProgressLine;

class Console : public ToolHost {
public:
  explicit Console(const ConsoleOptions &options);
  ~Console() override;

  bool quiet() const { return options_.quiet; }
  bool verbose() const { return options_.verbose; }
  bool json() const { return options_.json; }

  /// Prints to standard error, errors and warnings in colour on a terminal. Under -q, errors only.
  void report(const Diagnostics &diagnostics) override;
  void error(llvm::StringRef message);
  void note(llvm::StringRef message);
  /// Reports wrong usage: whether there is none.
  bool accepts(llvm::ArrayRef<std::string> complaints);
  /// Says what makes no difference, and goes on.
  void warn(llvm::ArrayRef<std::string> messages);
  /// Replaces the line of progress on a terminal; silent elsewhere. Once the command has run for
  /// two seconds the line says for how long.
  void progress(llvm::StringRef text) override;
  /// Takes the line of progress away.
  void endProgress() override;
  llvm::raw_ostream *printed() override {
    endProgress();
    return &llvm::errs();
  }

private:
  void severity(llvm::StringRef line);
  ConsoleOptions options_;
  bool color_;
  std::unique_ptr<ProgressLine> line_; // none where there is no terminal
};

} // namespace tenon

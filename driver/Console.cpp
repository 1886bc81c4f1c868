// Implements Console.
#include "driver/Console.h"

#include "llvm/Support/Process.h"

namespace tenon {

Console::Console(const ConsoleOptions &options) : options_(options) {
  const bool terminal = llvm::errs().is_displayed();
  color_ = options.color == "always" ||
           (options.color == "auto" && terminal && !llvm::sys::Process::GetEnv("NO_COLOR"));
  progress_ = terminal && !options.quiet;
}

void Console::severity(llvm::StringRef line) {
  static const std::pair<llvm::StringRef, const char *> kColors[] = {
      {"error:", "\033[1;31m"}, {"warning:", "\033[1;35m"}, {"remark:", "\033[1;36m"}};
  if (color_)
    for (auto &[word, escape] : kColors)
      if (line.startswith(word)) {
        llvm::errs() << escape << word << "\033[0m" << line.drop_front(word.size()) << '\n';
        return;
      }
  llvm::errs() << line << '\n';
}

void Console::report(const Diagnostics &diagnostics) {
  endProgress();
  Diagnostics shown;
  for (const Diagnostic &d : diagnostics.list())
    if (d.severity == Severity::Error ||
        (!quiet() && (d.severity == Severity::Warning || verbose())))
      shown.report(d.severity, "") = d;
  std::string text;
  llvm::raw_string_ostream os(text);
  shown.print(os);
  os.flush();
  llvm::StringRef rest(text);
  while (!rest.empty()) {
    auto [line, tail] = rest.split('\n');
    severity(line);
    rest = tail;
  }
}

void Console::error(llvm::StringRef message) {
  endProgress();
  severity(("error: " + message).str());
}

void Console::progress(llvm::StringRef text) {
  if (!progress_)
    return;
  llvm::errs() << "\r\033[K" << text.take_front(100);
  llvm::errs().flush();
  shown_ = true;
}

void Console::endProgress() {
  if (!shown_)
    return;
  llvm::errs() << "\r\033[K";
  llvm::errs().flush();
  shown_ = false;
}

} // namespace tenon

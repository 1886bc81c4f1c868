// Implements Console.
#include "driver/Console.h"

#include "llvm/Support/Process.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tenon {

/// The last line of the terminal, and the thread that keeps its seconds current.
class ProgressLine {
public:
  ~ProgressLine() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    if (clock_.joinable())
      clock_.join();
  }

  void show(llvm::StringRef text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    text_ = text.take_front(100).str();
    draw();
    if (!clock_.joinable())
      clock_ = std::thread([this] { run(); });
  }

  void takeAway() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (text_.empty())
      return;
    text_.clear();
    llvm::errs() << "\r\033[K";
    llvm::errs().flush();
  }

private:
  using Clock = std::chrono::steady_clock;

  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ends_) {
      wake_.wait_for(lock, std::chrono::seconds(1));
      if (!ends_ && !text_.empty())
        draw();
    }
  }

  void draw() {
    llvm::errs() << "\r\033[K" << text_;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
    if (seconds >= 2)
      llvm::errs() << ", " << seconds << " s";
    llvm::errs().flush();
  }

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread clock_;
  std::string text_;
  bool ends_ = false;
};

Console::Console(const ConsoleOptions &options) : options_(options) {
  const bool terminal = llvm::errs().is_displayed();
  color_ = options.color == "always" ||
           (options.color == "auto" && terminal && !llvm::sys::Process::GetEnv("NO_COLOR"));
  if (terminal && !options.quiet)
    line_ = std::make_unique<ProgressLine>();
}

Console::~Console() = default;

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

void Console::note(llvm::StringRef message) { severity(("note: " + message).str()); }

bool Console::accepts(llvm::ArrayRef<std::string> complaints) {
  for (const std::string &complaint : complaints)
    error(complaint);
  return complaints.empty();
}

void Console::warn(llvm::ArrayRef<std::string> messages) {
  for (const std::string &message : messages)
    if (!quiet())
      severity("warning: " + message);
}

void Console::progress(llvm::StringRef text) {
  if (line_)
    line_->show(text);
}

void Console::endProgress() {
  if (line_)
    line_->takeAway();
}

} // namespace tenon

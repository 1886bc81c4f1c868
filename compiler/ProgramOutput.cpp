// Implements the asking of programs.
#include "compiler/ProgramOutput.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tenon {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

/// Starts the program with both of its streams at `output`; 0 where that fails.
pid_t start(const std::string &program, llvm::ArrayRef<llvm::StringRef> words, int output) {
  std::vector<std::string> texts{program};
  for (llvm::StringRef word : words)
    texts.push_back(word.str());
  std::vector<char *> arguments;
  arguments.reserve(texts.size() + 1);
  for (std::string &text : texts)
    arguments.push_back(text.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ) != 0)
    child = 0;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

/// Reads until the other end closes; false when that takes too long.
bool readAll(int input, std::string &text) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (char bytes[4096];;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd waiting = {input, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&waiting, 1, int(left.count())) : 0;
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0)
      return false;
    const ssize_t size = read(input, bytes, sizeof bytes);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return size == 0;
    text.append(bytes, size_t(size));
  }
}

} // namespace

llvm::Optional<std::string> outputOf(llvm::StringRef program,
                                     llvm::ArrayRef<llvm::StringRef> words) {
  int ends[2];
  if (program.empty() || pipe2(ends, O_CLOEXEC) != 0)
    return llvm::None;
  const pid_t child = start(program.str(), words, ends[1]);
  close(ends[1]);
  std::string text;
  const bool complete = child != 0 && readAll(ends[0], text);
  close(ends[0]);
  if (child == 0)
    return llvm::None;
  if (!complete)
    kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return llvm::None;
  if (!complete || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return llvm::None;
  return llvm::StringRef(text).rtrim().str();
}

} // namespace tenon

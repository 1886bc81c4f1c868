// Implements LostPagesReport: a handler of SIGBUS that finds the file in the process's list of
// mappings.
//
// The access may be any thread's in the middle of any loop, where nothing can be unwound; so the
// handler undoes what lies outside of the process, its temporaries, and exits. It belongs to the
// command alone, since the signals of a process that uses the library are not ours.
#include "tools/LostPages.h"

#include "compiler/Options.h"
#include "tools/Files.h"

#include "llvm/Support/Signals.h"

#include <atomic>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace tenon {
namespace {

// Everything below runs in a handler: only what POSIX allows there, and no memory but the stack.

/// The characters of a file.
class Characters {
public:
  explicit Characters(const char *path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Characters() { close(descriptor_); }

  /// The next one; 0 at the end.
  char next() {
    if (at_ == size_) {
      const ssize_t count = read(descriptor_, buffer_, sizeof(buffer_));
      if (count <= 0)
        return 0;
      size_ = size_t(count);
      at_ = 0;
    }
    return buffer_[at_++];
  }

private:
  int descriptor_;
  char buffer_[4096];
  size_t at_ = 0, size_ = 0;
};

/// Reads a hexadecimal number and the character behind it.
uint64_t hexadecimal(Characters &in) {
  uint64_t n = 0;
  for (char c = in.next(); (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); c = in.next())
    n = n * 16 + uint64_t(c <= '9' ? c - '0' : c - 'a' + 10);
  return n;
}

/// What a file's byte at an address is.
struct MappedByte {
  char path[PATH_MAX] = {};
  uint64_t offset = 0;
};

/// Looks for a mapping of a file to read from, in lines such as
/// "7f00-7f10 r--p 00001000 fd:01 1234   /path".
bool find(uint64_t address, MappedByte &found) {
  Characters in("/proc/self/maps");
  for (;;) {
    const uint64_t begin = hexadecimal(in), end = hexadecimal(in);
    if (end == 0)
      return false;
    const bool readOnly = in.next() == 'r' && in.next() == '-' && in.next() == '-';
    while (in.next() > ' ') {
    }
    const uint64_t offset = hexadecimal(in);
    char c = in.next();
    while (c != '/' && c != '\n' && c != 0)
      c = in.next();
    size_t size = 0;
    for (; c != '\n' && c != 0; c = in.next())
      if (size + 1 < sizeof(found.path))
        found.path[size++] = c;
    found.path[size] = 0;
    if (address >= begin && address < end) {
      found.offset = offset + (address - begin);
      return readOnly && size > 0;
    }
  }
}

class Line {
public:
  Line &operator<<(const char *text) {
    for (; *text && size_ < sizeof(buffer_); ++text)
      buffer_[size_++] = *text;
    return *this;
  }
  Line &operator<<(uint64_t n) {
    char digits[21] = {};
    size_t at = sizeof(digits) - 1;
    do
      digits[--at] = char('0' + n % 10);
    while (n /= 10);
    return *this << digits + at;
  }
  void print() const {
    for (size_t at = 0; at < size_;) {
      const ssize_t count = write(STDERR_FILENO, buffer_ + at, size_ - at);
      if (count < 0 && errno != EINTR)
        return;
      at += count < 0 ? 0 : size_t(count);
    }
  }

private:
  char buffer_[PATH_MAX + 512];
  size_t size_ = 0;
};

std::atomic_flag ending = ATOMIC_FLAG_INIT;
std::atomic<const struct sigaction *> beneath;

[[noreturn]] void end(const MappedByte &byte) {
  while (ending.test_and_set()) // one thread speaks for all
    pause();
  removeUnfinished();
  struct stat now = {};
  const uint64_t size = stat(byte.path, &now) == 0 ? uint64_t(now.st_size) : 0;
  Line line;
  struct termios terminal;
  if (tcgetattr(STDERR_FILENO, &terminal) == 0)
    line << "\r\033[K"; // the line of progress
  line << "error: '" << byte.path << "' ";
  if (size > byte.offset)
    line << "cannot be read at byte " << byte.offset << ": its device fails\n";
  else
    line << "was cut while it was read: expected more than " << byte.offset
         << " bytes, found a file of " << size
         << "; run the command again when nothing writes the file\n";
  line.print();
  _exit(Failed);
}

void onBusError(int signal, siginfo_t *info, void *) {
  MappedByte byte;
  const bool access = info->si_code > 0; // else somebody sent it
  if (access && find(reinterpret_cast<uintptr_t>(info->si_addr), byte))
    end(byte);
  sigaction(signal, beneath, nullptr); // the access is made again
  if (!access)
    raise(signal);
}

} // namespace

LostPagesReport::LostPagesReport() : outer_(beneath) {
  llvm::sys::SetInterruptFunction(nullptr); // LLVM's handlers first, else they would lie above
  struct sigaction own = {};
  own.sa_sigaction = onBusError;
  own.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &own, &before_);
  beneath = &before_;
}

LostPagesReport::~LostPagesReport() {
  sigaction(SIGBUS, &before_, nullptr);
  beneath = outer_;
}

} // namespace tenon

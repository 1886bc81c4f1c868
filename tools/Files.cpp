// Implements writing through temporaries, and temporary folders.
#include "tools/Files.h"

#include "codegen/core/CompileOptions.h"
#include "ir/Text.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

namespace tenon {

namespace {

llvm::SmallString<128> temporaryPlace() {
  llvm::SmallString<128> place;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, place);
  return place;
}

/// Why a file cannot be written. A full disk has a remedy, which differs for temporary files:
/// nobody has named their place.
std::string whyUnwritten(llvm::StringRef path, std::error_code code) {
  std::string text = "cannot write '" + path.str() + "': " + code.message();
  if (code != std::errc::no_space_on_device)
    return text;
  return text + (path.startswith((temporaryPlace() + "/tenon").str())
                     ? std::string("; ") + kFullPlaceRemedy
                     : "; free some of the disk, or name a file on another one");
}

} // namespace

const char *const kFullPlaceRemedy = "free some of that disk, or name another place in TMPDIR";

OutputFiles::~OutputFiles() {
  for (const File &f : files_)
    discard(f.temporary);
}

void OutputFiles::discard(llvm::StringRef temporary) {
  llvm::sys::fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

bool OutputFiles::add(llvm::StringRef path, llvm::StringRef bytes) {
  return add(path, [&](llvm::raw_pwrite_stream &os) { os << bytes; });
}

bool OutputFiles::add(const std::vector<CompiledFile> &files,
                      llvm::function_ref<std::string(const CompiledFile &)> pathOf) {
  return llvm::all_of(writingOrder(files),
                      [&](size_t i) { return add(pathOf(files[i]), files[i]); });
}

bool OutputFiles::add(llvm::StringRef path, const CompiledFile &file) {
  return add(path, [&](llvm::raw_pwrite_stream &os) { file.write(os); });
}

bool OutputFiles::add(llvm::StringRef path,
                      llvm::function_ref<void(llvm::raw_pwrite_stream &)> write) {
  int descriptor = -1;
  std::error_code code;
  llvm::sys::fs::file_status status;
  // A device or a pipe is written to; a rename would replace it.
  const bool inPlace = !llvm::sys::fs::status(path, status) &&
                       status.type() != llvm::sys::fs::file_type::regular_file;
  if (inPlace) {
    code = llvm::sys::fs::openFileForWrite(path, descriptor);
  } else {
    llvm::SmallString<128> temporary;
    code = llvm::sys::fs::createUniqueFile(path + ".%%%%%%.tmp", descriptor, temporary,
                                           llvm::sys::fs::OF_None,
                                           llvm::sys::fs::all_read | llvm::sys::fs::owner_write);
    if (!code) {
      files_.push_back({path.str(), temporary.str().str()});
      llvm::sys::RemoveFileOnSignal(temporary);
    }
  }
  if (!code) {
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    if (!os.supportsSeeking()) { // what depends on all bytes and stands before them is known then
      llvm::raw_null_ostream nowhere;
      write(nowhere);
    }
    write(os);
    os.close();
    code = os.error();
    os.clear_error();
  }
  if (code)
    diagnostics_.error(whyUnwritten(path, code));
  return !code;
}

bool OutputFiles::commit() {
  for (const File &f : files_) {
    if (std::error_code code = llvm::sys::fs::rename(f.temporary, f.path)) {
      diagnostics_.error(whyUnwritten(f.path, code));
      return false;
    }
    llvm::sys::DontRemoveFileOnSignal(f.temporary);
  }
  files_.clear();
  return true;
}

bool addModule(OutputFiles &files, const Module &module, llvm::StringRef path,
               llvm::StringRef head) {
  std::string text = head.str(), data;
  llvm::raw_string_ostream os(text);
  PrintOptions options;
  options.data = &data;
  print(module, os, options);
  return (data.empty() || files.add((path + ".data").str(), data)) && files.add(path, os.str());
}

namespace {

/// The folders that a signal removes. Entries are strings of their own, since a handler reads them.
constexpr size_t kMostFolders = 8;
std::atomic<const char *> interruptedFolders[kMostFolders];

} // namespace

void removeUnfinished() {
  llvm::sys::RunInterruptHandlers();
  for (auto &slot : interruptedFolders)
    if (const char *path = slot.exchange(nullptr)) {
      const pid_t child = fork();
      if (child == 0) {
        execl("/bin/rm", "rm", "-rf", path, static_cast<char *>(nullptr));
        _exit(127);
      }
      if (child > 0)
        waitpid(child, nullptr, 0);
    }
}

namespace {

/// Lets the signal end the process.
void onInterrupt(int signal) {
  removeUnfinished();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void handleInterrupts() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {}, own = {};
    own.sa_handler = onInterrupt;
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) // as under nohup
      sigaction(signal, &own, nullptr);
  }
}

void removeWhenInterrupted(llvm::StringRef path) {
  handleInterrupts();
  char *copy = strdup(path.str().c_str());
  for (auto &slot : interruptedFolders) {
    const char *none = nullptr;
    if (slot.compare_exchange_strong(none, copy))
      return;
  }
  free(copy); // more folders than anybody makes: this one would stay
}

void keepWhenInterrupted(llvm::StringRef path) {
  for (auto &slot : interruptedFolders)
    if (const char *held = slot.load(); held && path == held) {
      slot.store(nullptr);
      free(const_cast<char *>(held));
    }
}

} // namespace

TemporaryFolder::TemporaryFolder() {
  error_ = llvm::sys::fs::createUniqueDirectory("tenon", path_);
  if (error_)
    path_.clear();
  else
    removeWhenInterrupted(path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (!valid() || keep_)
    return;
  keepWhenInterrupted(path_);
  llvm::sys::fs::remove_directories(path_);
}

void TemporaryFolder::keep() {
  keep_ = true;
  keepWhenInterrupted(path_);
}

std::string TemporaryFolder::whyNot() const {
  return ("cannot create a temporary folder in '" + temporaryPlace() + "': " + error_.message() +
          "; name another place in TMPDIR")
      .str();
}

namespace {

/// Why no file can be made at `path`: one is made under another name, and removed.
std::error_code refusedPlace(const llvm::Twine &path) {
  int descriptor = -1;
  llvm::SmallString<128> temporary;
  if (std::error_code code =
          llvm::sys::fs::createUniqueFile(path + ".%%%%%%.tmp", descriptor, temporary))
    return code;
  close(descriptor);
  return llvm::sys::fs::remove(temporary);
}

} // namespace

bool canWriteFile(llvm::StringRef path, Diagnostics &diagnostics) {
  llvm::sys::fs::file_status status;
  std::error_code code;
  if (llvm::sys::fs::status(path, status) ||
      status.type() == llvm::sys::fs::file_type::regular_file)
    code = refusedPlace(path);
  else if (llvm::sys::fs::is_directory(status)) // a device or a pipe is not asked
    code = std::make_error_code(std::errc::is_a_directory);
  if (code)
    diagnostics.error(whyUnwritten(path, code));
  return !code;
}

bool canWriteFolder(llvm::StringRef path, Diagnostics &diagnostics) {
  llvm::SmallString<128> place(path);
  llvm::sys::fs::make_absolute(place);
  while (!llvm::sys::fs::exists(place) && llvm::sys::path::has_parent_path(place))
    llvm::sys::path::remove_filename(place);
  const std::error_code code = refusedPlace(place + "/tenon");
  if (code)
    diagnostics.error("cannot write to folder '" + path.str() + "': " + code.message());
  return !code;
}

bool makeFolder(llvm::StringRef path, Diagnostics &diagnostics) {
  const std::error_code code = llvm::sys::fs::create_directories(path);
  if (code)
    diagnostics.error("cannot create folder '" + path.str() + "': " + code.message());
  return !code;
}

} // namespace tenon

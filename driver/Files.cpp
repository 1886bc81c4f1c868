// Implements writing through temporaries, and temporary folders.
#include "driver/Files.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {

OutputFiles::~OutputFiles() {
  for (const File &f : files_)
    discard(f.temporary);
}

void OutputFiles::discard(llvm::StringRef temporary) {
  llvm::sys::fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

bool OutputFiles::add(llvm::StringRef path, llvm::StringRef bytes) {
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
    os << bytes;
    os.close();
    code = os.error();
    os.clear_error();
  }
  if (code)
    diagnostics_.error("cannot write '" + path.str() + "': " + code.message());
  return !code;
}

bool OutputFiles::commit() {
  for (const File &f : files_) {
    if (std::error_code code = llvm::sys::fs::rename(f.temporary, f.path)) {
      diagnostics_.error("cannot write '" + f.path + "': " + code.message());
      return false;
    }
    llvm::sys::DontRemoveFileOnSignal(f.temporary);
  }
  files_.clear();
  return true;
}

TemporaryFolder::TemporaryFolder() {
  if (llvm::sys::fs::createUniqueDirectory("tenon", path_))
    path_.clear();
}

TemporaryFolder::~TemporaryFolder() {
  if (valid() && !keep_)
    llvm::sys::fs::remove_directories(path_);
}

bool makeFolder(llvm::StringRef path, Diagnostics &diagnostics) {
  const std::error_code code = llvm::sys::fs::create_directories(path);
  if (code)
    diagnostics.error("cannot create folder '" + path.str() + "': " + code.message());
  return !code;
}

} // namespace tenon

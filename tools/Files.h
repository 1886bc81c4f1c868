// Defines how files are written: through temporaries beside their final places that are renamed
// together, so that nothing half-written ever stays.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"

#include <string>
#include <system_error>
#include <vector>

namespace llvm {
class raw_pwrite_stream;
} // namespace llvm

namespace tenon {
struct CompiledFile;

/// Files that appear together or not at all.
class OutputFiles {
public:
  explicit OutputFiles(Diagnostics &diagnostics) : diagnostics_(diagnostics) {}
  OutputFiles(const OutputFiles &) = delete;
  /// Removes the temporaries of whatever was not committed.
  ~OutputFiles();

  /// Writes `bytes` to a temporary beside `path`; false after reporting what went wrong.
  bool add(llvm::StringRef path, llvm::StringRef bytes);
  /// Generated files, each at the path that `pathOf` says.
  bool add(const std::vector<CompiledFile> &files,
           llvm::function_ref<std::string(const CompiledFile &)> pathOf);
  bool add(llvm::StringRef path, const CompiledFile &file);
  /// The same of what `write` writes, twice where nothing can be written over: pipes.
  bool add(llvm::StringRef path, llvm::function_ref<void(llvm::raw_pwrite_stream &)> write);
  /// Renames everything into place.
  bool commit();

private:
  struct File {
    std::string path, temporary;
  };
  static void discard(llvm::StringRef temporary);
  Diagnostics &diagnostics_;
  std::vector<File> files_;
};

/// Adds a module and its side file of large literals; `head` is text before it.
bool addModule(OutputFiles &files, const Module &module, llvm::StringRef path,
               llvm::StringRef head = "");

/// A folder for intermediate files that disappears with the object, and when the process is
/// interrupted.
class TemporaryFolder {
public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  ~TemporaryFolder();
  /// Keeps the folder for a look at what is in it.
  void keep();
  bool valid() const { return !path_.empty(); }
  /// What went wrong and what to do, where it is not valid.
  std::string whyNot() const;
  llvm::StringRef path() const { return path_; }
  std::string file(llvm::StringRef name) const { return (llvm::Twine(path_) + "/" + name).str(); }

private:
  llvm::SmallString<128> path_;
  std::error_code error_;
  bool keep_ = false;
};

/// What to do when the place of temporary folders is full.
extern const char *const kFullPlaceRemedy;

/// Removes the temporaries of this process, files and folders, before it ends by a signal: only
/// what POSIX allows in a handler.
void removeUnfinished();

/// Whether a file may appear at `path`, or files in a folder of that name, which is made later:
/// found by trying, before work whose result would be lost. Reports why not; nothing stays.
bool canWriteFile(llvm::StringRef path, Diagnostics &diagnostics);
bool canWriteFolder(llvm::StringRef path, Diagnostics &diagnostics);

/// Creates a folder and its parents; reports when that cannot be done.
bool makeFolder(llvm::StringRef path, Diagnostics &diagnostics);

} // namespace tenon

// Implements suggestions for files that are not there.
#include "ir/NearFile.h"

#include "ir/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <vector>

namespace tenon {

std::string nearFile(llvm::StringRef path) {
  if (path.empty() || llvm::sys::fs::exists(path))
    return "";
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  std::vector<std::string> names;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(folder.empty() ? "." : folder, code), end;
       !code && it != end; it.increment(code))
    if (llvm::sys::fs::is_regular_file(it->path()))
      names.push_back(llvm::sys::path::filename(it->path()).str());
  llvm::sort(names); // folders list in any order
  return didYouMean(llvm::sys::path::filename(path),
                    std::vector<llvm::StringRef>(names.begin(), names.end()));
}

} // namespace tenon

// Defines access to tensor data outside the model file, kept inside the model's folder.
#pragma once

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tenon::frontend {

class ExternalFolder {
public:
  /// `folder` is where files may stand; empty allows none.
  explicit ExternalFolder(llvm::StringRef folder) : folder_(folder) {}

  /// Reads `size` bytes at `offset` of the file `location`, a relative path that must stay inside
  /// the folder after symbolic links are followed. None with a message otherwise.
  llvm::Optional<std::vector<uint8_t>> read(llvm::StringRef location, uint64_t offset,
                                            uint64_t size, std::string &error) const;

  /// Paths of the files that were read.
  const std::set<std::string> &filesRead() const { return filesRead_; }

private:
  std::string folder_;
  mutable std::set<std::string> filesRead_; // a record, no part of what the folder is
};

} // namespace tenon::frontend

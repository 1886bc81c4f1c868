// Defines access to tensor data outside the model file, kept inside the model's folder.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace llvm::sys::fs {
class mapped_file_region;
} // namespace llvm::sys::fs

namespace tenon::frontend {

class ExternalFolder {
public:
  /// `folder` is where files may stand; empty allows none.
  explicit ExternalFolder(llvm::StringRef folder) : folder_(folder) {}

  /// Pages of a file, which stay mapped as long as `mapping` lives.
  struct Pages {
    llvm::ArrayRef<uint8_t> bytes;
    std::shared_ptr<const void> mapping;
  };

  /// Maps `size` bytes at `offset` of the file `location`, a relative path that must stay inside
  /// the folder after symbolic links are followed. None with a message otherwise.
  llvm::Optional<Pages> map(llvm::StringRef location, uint64_t offset, uint64_t size,
                            std::string &error) const;

  /// Paths of the files that were read.
  const std::set<std::string> &filesRead() const { return filesRead_; }

private:
  std::string folder_;
  // A record and a cache, no part of what the folder is.
  mutable std::set<std::string> filesRead_;
  mutable std::map<std::string, std::shared_ptr<llvm::sys::fs::mapped_file_region>> mappings_;
};

} // namespace tenon::frontend

// Implements access to external tensor data.
#include "frontend/ExternalData.h"

#include "frontend/Proto.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace tenon::frontend {
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

llvm::Optional<ExternalFolder::Pages> ExternalFolder::map(llvm::StringRef location, uint64_t offset,
                                                          uint64_t size, std::string &error) const {
  auto fail = [&](const std::string &why) {
    error = "external data " + quoted(location) + " " + why;
    return llvm::None;
  };
  if (folder_.empty())
    return fail("cannot be read: the model was not loaded from a folder");
  if (location.empty() || location.contains('\0'))
    return fail("is not a file name");
  if (path::is_absolute(location) || location.contains('\\'))
    return fail("must be a relative path inside the model's folder");
  for (auto part = path::begin(location); part != path::end(location); ++part)
    if (*part == "..")
      return fail("must not leave the model's folder");

  llvm::SmallString<256> file(folder_), realFolder, realFile;
  path::append(file, location);
  if (fs::real_path(folder_, realFolder) || fs::real_path(file, realFile))
    return fail("does not exist in the model's folder");
  // The separator keeps /models2 from passing for a part of /models.
  llvm::StringRef inside = realFile;
  if (!inside.consume_front(realFolder) ||
      !(inside.startswith("/") || realFolder.str().endswith("/")))
    return fail("is a link that leaves the model's folder: copy the file there");
  fs::file_status status;
  if (fs::status(realFile, status) || !fs::is_regular_file(status))
    return fail("is not a regular file");
  if (offset > status.getSize() || size > status.getSize() - offset)
    return fail("is too short: expected " + std::to_string(size) + " bytes at offset " +
                std::to_string(offset) + ", found a file of " + std::to_string(status.getSize()));
  if (size == 0)
    return Pages();
  // One mapping a file: the space of addresses is cheaper than a mapping for each tensor.
  const std::string name = realFile.str().str();
  std::shared_ptr<fs::mapped_file_region> &region = mappings_[name];
  if (!region || offset + size > region->size()) {
    auto file = fs::openNativeFileForRead(name);
    if (!file) {
      llvm::consumeError(file.takeError());
      return fail("cannot be read");
    }
    std::error_code code;
    region = std::make_shared<fs::mapped_file_region>(*file, fs::mapped_file_region::readonly,
                                                      status.getSize(), 0, code);
    fs::closeFile(*file);
    if (code) {
      region.reset();
      return fail("cannot be read: " + code.message());
    }
  }
  filesRead_.insert(file.str().str());
  const auto *bytes = reinterpret_cast<const uint8_t *>(region->const_data()) + offset;
  return Pages{{bytes, size_t(size)}, region};
}

} // namespace tenon::frontend

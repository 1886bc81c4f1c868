// Implements reading of external tensor data.
#include "frontend/ExternalData.h"

#include "frontend/Proto.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace tenon::frontend {
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

llvm::Optional<std::vector<uint8_t>> ExternalFolder::read(llvm::StringRef location, uint64_t offset,
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
    return std::vector<uint8_t>();
  auto buffer = llvm::MemoryBuffer::getFileSlice(realFile, size, int64_t(offset));
  if (!buffer || (*buffer)->getBufferSize() != size)
    return fail("cannot be read");
  filesRead_.insert(file.str().str());
  const auto *bytes = reinterpret_cast<const uint8_t *>((*buffer)->getBufferStart());
  return std::vector<uint8_t>(bytes, bytes + size);
}

} // namespace tenon::frontend

// Implements the part of the zip format that numpy.savez and savez_compressed write: one disk,
// members below 4 GiB. The central directory at the end says where members are.
#include "tools/Npz.h"

#include "compiler/Npy.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"

#include <zlib.h>

namespace tenon {
namespace {

uint32_t word(llvm::StringRef bytes, size_t at) {
  return llvm::support::endian::read32le(bytes.data() + at);
}
uint16_t half(llvm::StringRef bytes, size_t at) {
  return llvm::support::endian::read16le(bytes.data() + at);
}

constexpr uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kLocal = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint16_t kStored = 0, kDeflated = 8;
/// Deflate makes at most so many bytes of one: what promises more is damaged.
constexpr uint64_t kMostDeflated = 1032;

/// `packed` as `size` bytes; false where the stream is damaged.
bool inflateBytes(llvm::StringRef packed, uint32_t size, std::string &out) {
  if (size > (packed.size() + 1) * kMostDeflated)
    return false;
  out.resize(size);
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return false;
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data()));
  stream.avail_in = uInt(packed.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = size;
  const int end = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return end == Z_STREAM_END && stream.avail_out == 0;
}

/// The position of the record that ends an archive; a comment of up to 64 KiB may follow it.
size_t findEnd(llvm::StringRef bytes) {
  for (size_t at = bytes.size() < kEndBytes ? 0 : bytes.size() - kEndBytes + 1, least = 0;
       at-- > least;)
    if (word(bytes, at) == kEnd)
      return at;
    else if (bytes.size() - at > 0x10000 + kEndBytes)
      break;
  return llvm::StringRef::npos;
}

} // namespace

llvm::Optional<NamedTensors> readNpz(llvm::StringRef path, Diagnostics &diagnostics) {
  auto fail = [&](const std::string &what) {
    diagnostics.error("cannot read '" + path.str() + "': " + what);
    return llvm::None;
  };
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(buffer.getError().message());
  const llvm::StringRef bytes = (*buffer)->getBuffer();
  const size_t end = findEnd(bytes);
  if (end == llvm::StringRef::npos)
    return fail("not a .npz file");
  NamedTensors out;
  size_t at = word(bytes, end + 16);
  for (unsigned left = half(bytes, end + 10); left > 0; --left) {
    if (at + kEntryBytes > end || word(bytes, at) != kEntry)
      return fail("its directory is damaged");
    const uint16_t method = half(bytes, at + 10), letters = half(bytes, at + 28);
    const uint32_t check = word(bytes, at + 16), packed = word(bytes, at + 20),
                   size = word(bytes, at + 24), local = word(bytes, at + 42);
    llvm::StringRef name = bytes.substr(at + kEntryBytes, letters);
    at += kEntryBytes + letters + half(bytes, at + 30) + half(bytes, at + 32);
    const std::string member = path.str() + ":" + name.str();
    if (packed == UINT32_MAX || size == UINT32_MAX || local == UINT32_MAX)
      return fail("'" + name.str() + "' has 4 GiB or more; save it as a .npy file");
    if (size_t(local) + kLocalBytes > end || word(bytes, local) != kLocal)
      return fail("its directory is damaged");
    const size_t start =
        size_t(local) + kLocalBytes + half(bytes, local + 26) + half(bytes, local + 28);
    if (start + packed > end)
      return fail("'" + name.str() + "' is cut short");
    llvm::StringRef data = bytes.substr(start, packed);
    std::string inflated;
    if (method == kDeflated) {
      if (!inflateBytes(data, size, inflated))
        return fail("'" + name.str() + "' is damaged");
      data = inflated;
    } else if (method != kStored) {
      return fail("'" + name.str() + "' is compressed by method " + std::to_string(method) +
                  "; expected what numpy.savez or savez_compressed writes");
    }
    if (data.size() != size ||
        crc32(0, reinterpret_cast<const Bytef *>(data.data()), uInt(data.size())) != check)
      return fail("'" + name.str() + "' is damaged");
    if (!name.consume_back(".npy"))
      return fail("'" + name.str() + "' is no .npy file");
    auto tensor = parseNpy(data, member, diagnostics);
    if (!tensor)
      return llvm::None;
    out.emplace_back(name.str(), std::move(*tensor));
  }
  return out;
}

} // namespace tenon

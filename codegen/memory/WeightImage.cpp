// Implements WeightImage.
#include "codegen/memory/WeightImage.h"

#include "ir/ops/Parallel.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

/// Pieces begin at multiples of so many bytes.
constexpr size_t kAlignment = 64;

/// A hash that tells contents apart: parts of a fixed size are hashed side by side.
uint64_t contentHash(llvm::StringRef bytes) {
  constexpr size_t kPart = 1 << 20;
  std::vector<uint64_t> parts(llvm::divideCeil(bytes.size(), kPart));
  parallelFor(
      int64_t(parts.size()), 1,
      [&](int64_t begin, int64_t end) {
        for (auto i = size_t(begin); i < size_t(end); ++i)
          parts[i] = hashBytes(bytes.substr(i * kPart, kPart));
      },
      kAllThreads);
  return hashBytes({reinterpret_cast<const char *>(parts.data()), parts.size() * sizeof(uint64_t)});
}

/// Zeros between the end of a piece and the next one.
size_t gap(size_t size) { return llvm::alignTo(size, kAlignment) - size; }

} // namespace

void WeightImage::merge(Plan &plan) {
  for (BufferInfo &b : plan.buffers) {
    if (b.home != Home::Weights)
      continue;
    const Value *v = b.values.front();
    b.at = int64_t(place(PackedConstant(*v->def()), v->hint()));
    for (Value *of : b.values) {
      Placement &p = plan.placements[of];
      p.at = b.at + p.offset;
    }
  }
  room_ = other_ = {};
}

size_t WeightImage::place(PackedConstant constant, llvm::StringRef name) {
  const llvm::StringRef packed = constant.bytes(room_);
  const uint64_t content = contentHash(packed);
  auto [begin, end] = byContent_.equal_range(content);
  for (auto it = begin; it != end; ++it) {
    const Piece &known = pieces_[it->second];
    const bool equal =
        known.constant.size() == packed.size() && known.constant.bytes(other_) == packed;
    known.constant.leaveMemory();
    if (equal) {
      constant.leaveMemory();
      return known.at;
    }
  }
  // The hash goes over the zeros behind the piece, too.
  const size_t words = packed.size() / kAlignment * kAlignment, at = size_;
  hash_.addWords(packed.take_front(words));
  if (gap(packed.size()) > 0) {
    std::string last = packed.drop_front(words).str();
    last.resize(kAlignment);
    hash_.addWords(last);
  }
  size_ += llvm::alignTo(packed.size(), kAlignment);
  constant.leaveMemory();
  byContent_.insert({content, pieces_.size()});
  pieces_.push_back({at, std::move(constant), name.str()});
  return at;
}

std::vector<WeightPiece> WeightImage::pieces() const {
  std::vector<WeightPiece> all;
  for (const Piece &p : pieces_)
    all.push_back({p.name, int64_t(p.at), int64_t(p.constant.size())});
  return all;
}

void WeightImage::write(llvm::raw_ostream &os) const {
  PackedConstant::Room room;
  for (const Piece &p : pieces_) {
    const llvm::StringRef packed = p.constant.bytes(room);
    os << packed;
    os.write_zeros(unsigned(gap(packed.size())));
    p.constant.leaveMemory();
  }
}

std::string WeightImage::bytes() const {
  std::string image;
  image.reserve(size_);
  llvm::raw_string_ostream os(image);
  write(os);
  return std::move(os.str());
}

void WeightImage::writeFile(llvm::raw_ostream &os) const {
  os << "TENONWT1";
  for (uint64_t field : {uint64_t(size_), hash(), uint64_t(0)})
    for (int i = 0; i < 8; ++i)
      os << char(field >> (8 * i));
  write(os);
}

} // namespace tenon

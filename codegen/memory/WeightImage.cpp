// Implements WeightImage.
#include "codegen/memory/WeightImage.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>

namespace tenon {
namespace {

/// Pieces begin at multiples of so many bytes.
constexpr size_t kAlignment = 64;

/// A hash of words and their places that tells contents apart, however they are split: the sum over
/// all parts.
uint64_t contentHash(llvm::StringRef part, uint64_t firstWord) {
  constexpr uint64_t kPlace = 0x9e3779b97f4a7c15ull, kMix = 0xd6e8feb86659fd93ull;
  const auto mixed = [](uint64_t word, uint64_t place) {
    const uint64_t x = (word ^ place) * kMix;
    return (x ^ x >> 32) * kMix;
  };
  uint64_t sum = 0, place = firstWord * kPlace;
  const size_t words = part.size() / 8;
  for (size_t i = 0; i < words; ++i, place += kPlace)
    sum += mixed(llvm::support::endian::read64le(part.data() + 8 * i), place);
  if (part.size() % 8 != 0) {
    char last[8] = {};
    std::copy(part.begin() + 8 * words, part.end(), last);
    sum += mixed(llvm::support::endian::read64le(last), place);
  }
  return sum;
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
}

size_t WeightImage::place(PackedConstant constant, llvm::StringRef name) {
  // Entries of a program and levels of a file have most constants in common.
  const auto [first, last] = bySource_.equal_range(constant.source());
  for (auto it = first; it != last; ++it)
    if (it->second.first.isMadeAlike(constant))
      return it->second.second;
  // The hash goes over the zeros behind the piece, too.
  BytesHash hash = hash_;
  std::atomic<uint64_t> content{0};
  size_t size = 0;
  constant.forParts([&](size_t at, llvm::StringRef part) { content += contentHash(part, at / 8); },
                    [&](llvm::StringRef part) {
                      size += part.size();
                      hash.addWords(part, size == constant.size() ? gap(size) : 0);
                    });
  size_t at = size_;
  const auto [begin, end] = byContent_.equal_range(content);
  const auto equal = std::find_if(begin, end, [&](const auto &known) {
    return pieces_[known.second].constant.hasBytesOf(constant);
  });
  if (equal != end) {
    at = pieces_[equal->second].at;
  } else {
    hash_ = hash;
    size_ += llvm::alignTo(size, kAlignment);
    byContent_.insert({content, pieces_.size()});
    pieces_.push_back({at, constant, name.str()});
  }
  const auto source = constant.source();
  bySource_.insert({source, {std::move(constant), at}});
  return at;
}

std::vector<WeightPiece> WeightImage::pieces() const {
  std::vector<WeightPiece> all;
  for (const Piece &p : pieces_)
    all.push_back({p.name, int64_t(p.at), int64_t(p.constant.size())});
  return all;
}

void WeightImage::write(llvm::raw_ostream &os) const {
  for (const Piece &p : pieces_) {
    p.constant.forParts([](size_t, llvm::StringRef) {}, [&](llvm::StringRef part) { os << part; });
    os.write_zeros(unsigned(gap(p.constant.size())));
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

// Implements WeightImage.
#include "codegen/memory/WeightImage.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

/// Pieces begin at multiples of so many bytes.
constexpr size_t kAlignment = 64;

/// A hash of some bytes in the middle, where constants that differ are least alike: those of equal
/// hashes are compared. It sees bytes alone, not how they came about.
uint64_t sampleHash(const PackedConstant &constant) {
  constexpr size_t kSample = 1 << 12;
  const size_t size = constant.size(), count = std::min(size, kSample);
  return hashBytes(constant.read((size - count) / 2, count)) + size;
}

} // namespace

WeightImage::WeightImage(const Plan &plan) : size_(size_t(plan.weightBytes)) {
  for (const Value *v : plan.constants)
    pieces_.push_back({size_t(plan[v].at), PackedConstant(*v->def()), v->hint().str()});
}

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
  size_t at = size_;
  const uint64_t sample = sampleHash(constant);
  const auto [begin, end] = byContent_.equal_range(sample);
  const auto equal = std::find_if(begin, end, [&](const auto &known) {
    return pieces_[known.second].constant.hasBytesOf(constant);
  });
  if (equal != end) {
    at = pieces_[equal->second].at;
  } else {
    size_ += llvm::alignTo(constant.size(), kAlignment);
    byContent_.insert({sample, pieces_.size()});
    pieces_.push_back({at, constant, name.str()});
    hash_.reset();
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

void WeightImage::forParts(llvm::function_ref<void(llvm::StringRef, size_t)> use) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece &p = pieces_[i];
    size_t left = p.constant.size();
    const size_t zeros = (i + 1 < pieces_.size() ? pieces_[i + 1].at : size_) - p.at - left;
    p.constant.forParts([&](llvm::StringRef part) {
      left -= part.size();
      use(part, left == 0 ? zeros : 0);
    });
  }
}

uint64_t WeightImage::hash() const {
  if (!hash_) {
    BytesHash hash;
    forParts([&](llvm::StringRef part, size_t zeros) { hash.addWords(part, zeros); });
    hash_ = hash.end();
  }
  return *hash_;
}

void WeightImage::write(llvm::raw_ostream &os) const {
  BytesHash hash;
  forParts([&](llvm::StringRef part, size_t zeros) {
    (os << part).write_zeros(unsigned(zeros));
    hash.addWords(part, zeros);
  });
  hash_ = hash.end();
}

std::string WeightImage::bytes() const {
  std::string image;
  image.reserve(size_);
  llvm::raw_string_ostream os(image);
  write(os);
  return std::move(os.str());
}

void WeightImage::writeFile(llvm::raw_pwrite_stream &os) const {
  constexpr size_t kHashAt = 16;
  const uint64_t begin = os.tell();
  const auto littleEndian = [](uint64_t field) {
    std::string bytes(sizeof(field), '\0');
    llvm::support::endian::write64le(&bytes[0], field);
    return bytes;
  };
  const bool known = hash_.hasValue();
  os << "TENONWT1" << littleEndian(size_) << littleEndian(known ? *hash_ : 0) << littleEndian(0);
  write(os);
  if (!known)
    os.pwrite(littleEndian(hash()).data(), sizeof(uint64_t), begin + kHashAt);
}

CompiledFile textAroundHash(std::string suffix, std::string before, std::string behind,
                            std::shared_ptr<const WeightImage> weights) {
  return {std::move(suffix), "",
          [before = std::move(before), behind = std::move(behind),
           weights = std::move(weights)](auto &os) { os << before << weights->hash() << behind; }};
}

} // namespace tenon

// Implements WeightImage.
#include "codegen/cuda/program/WeightImage.h"

#include "codegen/memory/Packing.h"

#include <algorithm>

namespace tenon {

void WeightImage::merge(Plan &plan) {
  file_.reserve(kHeaderBytes + variants_ * (size_t(plan.weightBytes) + 64));
  for (BufferInfo &b : plan.buffers) {
    if (b.home != Home::Weights)
      continue;
    Value *constant = b.values.front();
    b.at = place(storedElements(*constant->def()), storedType(*constant->def()));
    for (Value *v : b.values) {
      Placement &p = plan.placements[v];
      p.at = b.at + p.offset;
    }
  }
}

uint64_t WeightImage::hash() const {
  if (!hash_)
    hash_ = hashBytes(bytes());
  return *hash_;
}

std::string WeightImage::take() {
  std::string header = "TENONWT1";
  for (uint64_t field : {uint64_t(bytes().size()), hash(), uint64_t(0)})
    for (int i = 0; i < 8; ++i)
      header += char(field >> (8 * i));
  std::copy(header.begin(), header.end(), file_.begin());
  return std::move(file_);
}

int64_t WeightImage::place(const Tensor &tensor, Type type) {
  const size_t at = file_.size(), size = packedBytes(tensor, type);
  file_.resize(at + size);
  packConstant(tensor, type, &file_[at]);
  const llvm::StringRef packed = llvm::StringRef(file_).substr(at, size);
  const uint64_t hash = hashBytes(packed);
  auto [begin, end] = places_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (llvm::StringRef(file_).substr(it->second.at, it->second.size) == packed) {
      file_.resize(at);
      return int64_t(it->second.at - kHeaderBytes);
    }
  places_.insert({hash, {at, size}});
  file_.resize(kHeaderBytes + llvm::alignTo(at + size - kHeaderBytes, 64));
  return int64_t(at - kHeaderBytes);
}

} // namespace tenon

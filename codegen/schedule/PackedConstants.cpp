// Implements PackedConstants.
#include "codegen/schedule/PackedConstants.h"

#include "codegen/memory/Packing.h"

namespace tenon {

std::vector<PackedConstants::Form> &PackedConstants::formsOf(Literal content) {
  // Graphs that are made of one file refer to the same pages.
  const llvm::ArrayRef<uint8_t> bytes = content->bytes();
  const auto [known, isNew] = byBytes_.insert({{bytes.data(), bytes.size()}, constants_.size()});
  if (!isNew)
    return constants_[known->second].forms;
  // Of weights the beginning: what differs behind it only is told apart by comparing.
  constexpr size_t kBeginning = 1 << 16;
  const uint64_t hash =
      hashBytes({reinterpret_cast<const char *>(bytes.data()), std::min(bytes.size(), kBeginning)});
  const auto [begin, end] = byContent_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (constants_[it->second].content->sameBytes(*content)) {
      known->second = it->second;
      return constants_[it->second].forms;
    }
  byContent_.insert({hash, constants_.size()});
  constants_.push_back({std::move(content), {}});
  return constants_.back().forms;
}

llvm::ArrayRef<PackedConstants::Form> PackedConstants::formsOf(const Operation &constant) {
  Literal content = constantValue(constant.result());
  if (!content || isOpaque(content->element()))
    return {};
  return formsOf(std::move(content));
}

int64_t PackedConstants::add(Graph &graph) {
  int64_t fresh = 0;
  graph.body().walk([&](Operation *op) {
    const Literal content = op->is(Op::Constant) ? constantValue(op->result()) : nullptr;
    if (!content || isOpaque(content->element()))
      return;
    const Form form{op->result()->type(), op->wordAttr("stored").str()};
    std::vector<Form> &forms = formsOf(content);
    if (llvm::is_contained(forms, form))
      return;
    forms.push_back(form);
    fresh += storedBytes(*op);
  });
  return fresh;
}

} // namespace tenon

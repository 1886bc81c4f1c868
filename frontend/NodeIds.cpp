// Implements node ids.
#include "frontend/NodeIds.h"

#include "llvm/Support/ConvertUTF.h"

namespace tenon::frontend {

std::string validUtf8(llvm::StringRef text) {
  std::string s = text.str();
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(s.data());
  if (!llvm::isLegalUTF8String(&begin, begin + s.size()))
    for (char &c : s)
      if (c & 0x80)
        c = '?';
  return s;
}

std::vector<std::string>
NodeIds::assign(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                llvm::StringRef path) {
  std::vector<std::string> ids;
  for (int k = 0; k < nodes.size(); ++k) {
    const onnx::NodeProto &node = nodes[k];
    std::string base = validUtf8(node.name());
    if (base.empty())
      base = validUtf8(node.op_type()) + "_" + std::to_string(k);
    if (!path.empty())
      base = path.str() + "/" + base;
    std::string id = base;
    auto entry = taken_.insert(id);
    for (int suffix = 2; !entry.second; ++suffix) {
      id = base + "_" + std::to_string(suffix);
      entry = taken_.insert(id);
    }
    order_.push_back(entry.first->getKey());
    ids.push_back(std::move(id));
  }
  return ids;
}

void NodeIds::release(size_t taken) {
  while (order_.size() > taken) {
    taken_.erase(order_.back());
    order_.pop_back();
  }
}

} // namespace tenon::frontend

// Implements uniquing. Keys are the printed or packed form of what is uniqued: simple, and
// independent of addresses.
#include "ir/Context.h"

#include "ir/Type.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <deque>
#include <unordered_map>

namespace tenon {

struct Context::Impl {
  llvm::StringMap<char> strings;
  std::deque<DimNode> dims; // stable addresses
  llvm::StringMap<const DimNode *> symbols;
  std::unordered_map<int64_t, const DimNode *> constants;
  using Operands = std::pair<const DimNode *, const DimNode *>;
  llvm::DenseMap<std::pair<Operands, int>, const DimNode *> expressions; // by operands and kind
  std::deque<LayoutStorage> layouts;
  llvm::StringMap<const LayoutStorage *> layoutKeys;
  std::deque<TypeStorage> types;
  llvm::StringMap<const TypeStorage *> typeKeys;
};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

llvm::StringRef Context::intern(llvm::StringRef text) {
  return impl_->strings.insert({text, 0}).first->first();
}

namespace {
void appendKey(std::string &key, const void *pointer) {
  key.append(reinterpret_cast<const char *>(&pointer), sizeof(pointer));
}
void appendKey(std::string &key, int64_t value) {
  key.append(reinterpret_cast<const char *>(&value), sizeof(value));
}
} // namespace

Dim Context::dim(int64_t value) {
  const DimNode *&slot = impl_->constants[value];
  if (!slot) {
    DimNode n;
    n.kind = DimKind::Constant;
    n.value = n.lower = n.upper = value;
    n.context = this;
    slot = &impl_->dims.emplace_back(n);
  }
  return Dim(slot);
}

Dim Context::symbol(llvm::StringRef name) {
  const DimNode *&slot = impl_->symbols[name];
  if (!slot) {
    DimNode n;
    n.kind = DimKind::Symbol;
    n.symbol = intern(name);
    n.lower = 0;
    n.upper = int64_t(1) << 40;
    n.context = this;
    slot = &impl_->dims.emplace_back(n);
  }
  return Dim(slot);
}

Dim Context::symbol(llvm::StringRef name, int64_t lower, int64_t upper) {
  Dim d = symbol(name);
  auto *n = const_cast<DimNode *>(d.node());
  n->lower = lower;
  n->upper = upper;
  return d;
}

Dim Context::dimExpression(DimKind kind, Dim a, Dim b, int64_t lower, int64_t upper) {
  const DimNode *&slot = impl_->expressions[{{a.node(), b.node()}, int(kind)}];
  if (!slot) {
    DimNode n;
    n.kind = kind;
    n.lhs = a.node();
    n.rhs = b.node();
    n.lower = lower;
    n.upper = upper;
    n.context = this;
    slot = &impl_->dims.emplace_back(n);
  }
  return Dim(slot);
}

const LayoutStorage *Context::unique(LayoutStorage &&layout) {
  std::string key;
  for (const LayoutAxis &a : layout.axes) {
    appendKey(key, int64_t(a.dim));
    appendKey(key, a.inner ? -a.block : a.block);
    appendKey(key, a.alloc.node());
    appendKey(key, a.origin);
  }
  const LayoutStorage *&slot = impl_->layoutKeys[key];
  if (!slot)
    slot = &impl_->layouts.emplace_back(std::move(layout));
  return slot;
}

const TypeStorage *Context::unique(TypeStorage &&type) {
  std::string key;
  appendKey(key, int64_t(type.kind) << 16 | int64_t(type.element) << 8 | int64_t(type.space));
  appendKey(key, type.layout.storage());
  appendKey(key, type.inner);
  for (Dim d : type.shape)
    appendKey(key, d.node());
  const TypeStorage *&slot = impl_->typeKeys[key];
  if (!slot) {
    type.context = this;
    slot = &impl_->types.emplace_back(std::move(type));
  }
  return slot;
}

} // namespace tenon

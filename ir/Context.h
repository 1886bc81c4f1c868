// Defines Context: the owner of everything uniqued (strings, extents, layouts, types).
// Pointers handed out live as long as the context; several modules may share one.
#pragma once

#include "ir/Dim.h"
#include "ir/Element.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>

namespace tenon {

struct LayoutStorage;
struct TypeStorage;
class Layout;
class Type;

class Context {
public:
  Context();
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  /// Interned copy of `text`.
  llvm::StringRef intern(llvm::StringRef text);

  Dim dim(int64_t value);
  /// The symbol `name`, created with the bounds 0 … 2^40 on first use.
  Dim symbol(llvm::StringRef name);
  /// Creates or narrows a symbol's bounds; must happen before expressions over it are built.
  Dim symbol(llvm::StringRef name, int64_t lower, int64_t upper);
  /// For Dim.cpp: the uniqued node of an already normalised expression.
  Dim dimExpression(DimKind kind, Dim a, Dim b, int64_t lower, int64_t upper);

  const LayoutStorage *unique(LayoutStorage &&layout);
  const TypeStorage *unique(TypeStorage &&type);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tenon

// Defines Dim: one extent of a shape. A constant, a symbol with bounds, or an expression over
// them; uniqued in a Context, so equal extents compare by pointer.
#pragma once

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace llvm {
class raw_ostream;
}

namespace tenon {

class Context;

enum class DimKind : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, Min, Max };

struct DimNode {
  DimKind kind;
  int64_t value = 0;            // Constant; of a sum 1: it has bounds of its own (ir/SumBounds.h)
  llvm::StringRef symbol;       // Symbol
  int64_t lower = 0, upper = 0; // inclusive bounds of every value the node can take
  const DimNode *lhs = nullptr, *rhs = nullptr;
  Context *context = nullptr;
};

class Dim {
public:
  Dim() = default;
  explicit Dim(const DimNode *node) : node_(node) {}

  bool isConstant() const { return node_->kind == DimKind::Constant; }
  bool isSymbol() const { return node_->kind == DimKind::Symbol; }
  bool isConstant(int64_t v) const { return isConstant() && node_->value == v; }
  /// Value of a constant; asserts otherwise.
  int64_t constant() const;
  llvm::Optional<int64_t> asConstant() const {
    return isConstant() ? llvm::Optional<int64_t>(node_->value) : llvm::None;
  }
  llvm::StringRef symbol() const { return node_->symbol; }
  int64_t lower() const { return node_->lower; }
  int64_t upper() const { return node_->upper; }
  const DimNode *node() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }

  friend bool operator==(Dim a, Dim b) { return a.node_ == b.node_; }
  friend bool operator!=(Dim a, Dim b) { return a.node_ != b.node_; }
  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator*(Dim a, Dim b);
  friend Dim floorDiv(Dim a, Dim b);
  friend Dim ceilDiv(Dim a, Dim b);
  friend Dim mod(Dim a, Dim b);
  friend Dim min(Dim a, Dim b);
  friend Dim max(Dim a, Dim b);

private:
  const DimNode *node_ = nullptr;
};

Dim operator+(Dim a, Dim b);
Dim operator-(Dim a, Dim b);
Dim operator*(Dim a, Dim b);
Dim floorDiv(Dim a, Dim b);
Dim ceilDiv(Dim a, Dim b);
Dim mod(Dim a, Dim b);
Dim min(Dim a, Dim b);
Dim max(Dim a, Dim b);
Dim operator+(Dim a, int64_t b);
Dim operator-(Dim a, int64_t b);
Dim operator*(Dim a, int64_t b);
Dim floorDiv(Dim a, int64_t b);
Dim ceilDiv(Dim a, int64_t b);

/// Replaces symbols by values: `lookup(symbol)` gives the value or None; None if one is missing.
using SymbolLookup = llvm::Optional<int64_t> (*)(llvm::StringRef symbol, void *user);
llvm::Optional<int64_t> evaluate(Dim d, SymbolLookup lookup, void *user);

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Dim d);

} // namespace tenon

// Defines PlaceNames: what generated code calls the places of a plan's values, from the names of
// the model's tensors, and PlaceTable, which declares those names in a file.
#pragma once

#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Plan.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon {

/// What a name stands for; the declarations of each kind stand together.
enum class PlaceKind : uint8_t { Input, Output, Weight, Memory, Scratch, Zeroed, State, Text };
constexpr size_t kPlaceKinds = size_t(PlaceKind::Text) + 1;

/// The names that a file declares, in namespace `at`: byte offsets of memory, indices of inputs and
/// outputs. Every name has a prefix that says its kind, so that none is a keyword or a macro.
class PlaceTable {
public:
  struct Entry {
    std::string name; // without the prefix
    int64_t value = 0;
    std::string comment;
  };
  /// Adds names of one plan, unique among themselves. One that stands there already is shared where
  /// it has the same value; else `variant` is appended. Returns the name with its prefix.
  std::string add(PlaceKind kind, Entry entry, llvm::StringRef variant);
  /// The declarations of everything but text; nothing where there is none.
  void write(SourceWriter &w) const;

private:
  std::array<std::vector<Entry>, kPlaceKinds> entries_;
  std::map<std::string, int64_t> values_; // by the name with its prefix
};

/// The names of one plan's places.
class PlaceNames {
public:
  /// Adds the names to `table`. `lifetimes`: comments say between which steps memory is in use,
  /// for a file that has one plan.
  PlaceNames(Graph &graph, const Plan &plan, llvm::ArrayRef<std::string> steps, PlaceTable &table,
             llvm::StringRef variant, bool lifetimes);

  /// Such as `at::w_conv1_weight`: the value's offset, or the index of an input or output.
  const std::string &of(const Value *v) const { return names_.find(v)->second; }
  /// Of a step's scratch, and of what it finds and leaves zero; it has some.
  const std::string &scratch(int step) const { return scratch_.find(step)->second; }
  const std::string &zeroed(int step) const { return zeroed_.find(step)->second; }

private:
  /// `name`, or with a counter where the kind has it already.
  std::string unique(PlaceKind kind, const std::string &name);

  std::array<std::map<std::string, unsigned>, kPlaceKinds> used_;
  llvm::DenseMap<const Value *, std::string> names_; // looked up only
  std::map<int, std::string> scratch_, zeroed_;
};

} // namespace tenon

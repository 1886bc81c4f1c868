// Defines BodyWriter: a scalar program as the functor that kernels call on lanes.
#pragma once

#include "codegen/emit/ScalarSpelling.h"
#include "codegen/emit/SourceWriter.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon {

/// The type of the index along a dimension that a program takes: i32 where it is nothing but cast
/// to that, as many in a vector as there are floats; else i64.
Element indexElement(const ScalarProgram &program, int dim);

/// Writes one functor: a parameter for each of the anchor's results, each input and each index that
/// the program uses, one line for each of its operations that is not spelled with another's.
class BodyWriter {
public:
  /// What a functor is given when it is made: a number, or a table that its member refers to.
  struct Member {
    std::string type, name, value;
    bool isTable; // of 256 of the type
  };
  /// `isMember(table)`, where there is one, says of each constant in the order of the text, or each
  /// table, whether it is a member; programs that differ in members alone have the same text.
  /// `storesOutputs`: what calls the functor does nothing with its outputs but store them, as
  /// elements of their types.
  BodyWriter(const ScalarProgram &program, const TargetLevel &level,
             std::function<bool(bool table)> isMember, bool storesOutputs);

  /// `struct TYPE { ... };` for anchors of these types; legend[i] says what input i is.
  std::string declaration(const std::string &type, llvm::ArrayRef<Element> anchors,
                          llvm::ArrayRef<std::string> legend);
  /// Once the declaration is written.
  const std::vector<Member> &members() const { return members_; }
  /// Whether the text needs common/lookup.h.
  bool looksUp() const { return tables_ > 0; }

private:
  std::string parameters(llvm::ArrayRef<Element> anchors);
  /// One operation: the table it reads, if any, and its line.
  void operation(size_t node);
  void table(size_t node);
  void define(size_t node, const std::string &expression);
  std::string read(unsigned node);
  std::string constant(const ScalarNode &n);
  std::string index(size_t node) const;
  std::string function(size_t node);
  std::string cast(size_t node) const;
  std::string typeOf(unsigned node) const;
  bool isOnlyStored(size_t node) const;

  const ScalarProgram &program_;
  const std::function<bool(bool)> isMember_;
  const bool storesOutputs_;
  SourceWriter w_;
  std::vector<ScalarSpelling> spellings_; // by node
  std::vector<bool> used_;                // by node
  std::vector<std::string> names_;        // by node: the parameter or local that holds it
  std::vector<Member> members_;
  unsigned locals_ = 0, tables_ = 0;
};

} // namespace tenon

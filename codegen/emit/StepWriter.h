// Defines StepWriter: what a tactic writes one step with. It knows where values live and how views,
// bodies and configurations are spelled; the tactic says which kernel is called with what.
#pragma once

#include "codegen/core/GroupForm.h"
#include "codegen/core/LoopNest.h"
#include "codegen/core/Target.h"
#include "codegen/emit/CppText.h"
#include "codegen/emit/KernelShape.h"
#include "codegen/emit/PlaceNames.h"
#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Plan.h"

#include <map>
#include <set>
#include <string>

namespace tenon {

/// Spells where values live: `f.at<const float>(at::mem_relu1)`; by numbers where there are no
/// names.
class Places {
public:
  Places(const Plan &plan, const DimSpelling &dims, const PlaceNames *names)
      : plan_(plan), dims_(dims), names_(names) {}
  /// Pointer of the given C++ type to element `offset` (in elements of the value's type).
  std::string pointer(Value *value, llvm::StringRef element, bool constant, Dim offset) const;
  std::string pointer(Value *value, bool constant = true) const;
  /// The memory of a step's own, and what of it is zero between runs.
  std::string scratch(const Step &step, llvm::StringRef cppType) const;
  std::string zeroed(const Step &step, llvm::StringRef cppType) const;
  /// Whether element `offset` of the value is known to start at a multiple of `bytes`, at most 64.
  bool isAligned(Value *value, Dim offset, int64_t bytes) const;
  /// True when a value's memory is known to start with a byte, not inside one.
  bool startsByte(Value *value) const { return !plan_[value].start; }

private:
  const Plan &plan_;
  const DimSpelling &dims_;
  const PlaceNames *names_;
};

/// Names of the types that the steps of a file have declared, by their text without names and
/// comments. A step whose type is there already gets another name for it, so that kernels of layers
/// that are alike are compiled once.
using DeclaredTypes = std::map<std::string, std::string>;

class StepWriter {
public:
  StepWriter(const Plan &plan, const Step &step, const DimSpelling &dims, const TargetLevel &level,
             std::string name, const PlaceNames *places = nullptr,
             const DeclaredTypes *shared = nullptr);

  /// Identifier of the step, such as step3_conv1; also the stem of what it declares.
  const std::string &name() const { return name_; }
  const TargetLevel &level() const { return level_; }
  const DimSpelling &dims() const { return dims_; }
  /// A runtime header the step needs, relative to runtime/.
  void include(llvm::StringRef header) { includes_.insert(header.str()); }
  const std::set<std::string> &includes() const { return includes_; }
  /// A header of the user's, as the compiler will find it.
  void includeUser(llvm::StringRef header) { userIncludes_.insert(header.str()); }
  const std::set<std::string> &userIncludes() const { return userIncludes_; }

  /// Text before the step function (types), and the function's statements.
  SourceWriter &declarations() { return declarations_; }
  SourceWriter &code() { return code_; }
  /// The types in declarations(), for the steps after this one once it stands in the file.
  const DeclaredTypes &declared() const { return declared_; }
  /// The types that this step uses, by the names of those that stand behind them.
  const std::vector<std::string> &types() const { return used_; }

  /// From here on types hold no numbers of the layer: constants of bodies and strides are values,
  /// so that layers of other shapes have the same types.
  void shareCode() {
    sharesCode_ = true;
    takeConstantsOut({});
  }
  /// From here on constants of bodies and configurations, and tables of bodies, are values, so that
  /// steps which differ in them alone have the same types: those of `which`, in the order of the
  /// text, or all.
  void takeConstantsOut(std::vector<bool> which) {
    takesConstantsOut_ = true;
    whichConstants_ = std::move(which);
  }
  /// These values, as text.
  const std::vector<std::string> &constants() const { return constants_; }
  /// Asks `shape` which numbers are parameters, where the tactic lets any.
  void useShape(KernelShape &shape) { shape_ = &shape; }
  /// The tactic's word that strides of views other than 0 and 1, and what it writes by
  /// Config::parameter, may be parameters of its kernel.
  void letShapeVary() { shapeVaries_ = true; }

  /// Declares a configuration type `<name>_<suffix>` member by member; finish() declares a local
  /// variable of it in code() when members are run-time values and returns an expression for it.
  class Config {
  public:
    Config(StepWriter &step, llvm::StringRef suffix, llvm::StringRef base = "");
    Config &extent(llvm::StringRef member, Dim value);
    Config &extents(llvm::StringRef member, llvm::ArrayRef<Dim> values);
    /// The same of extents that may be parameters (letShapeVary).
    Config &parameter(llvm::StringRef member, Dim value);
    Config &parameter(llvm::StringRef member, int64_t value);
    Config &parameters(llvm::StringRef member, llvm::ArrayRef<Dim> values);
    Config &extent(llvm::StringRef member, int64_t value); // fixed<value>
    Config &number(llvm::StringRef member, int64_t value); // static constexpr int
    /// fixed<value>, or a run-time value where takeConstantsOut asks for that.
    Config &constant(llvm::StringRef member, int64_t value);
    Config &flag(llvm::StringRef member, bool value);
    Config &type(llvm::StringRef member, llvm::StringRef cppType);
    Config &array(llvm::StringRef member,
                  llvm::ArrayRef<int64_t> values); // static constexpr index_t[]
    Config &floats(llvm::StringRef member,
                   llvm::ArrayRef<double> values); // static constexpr float[]
    std::string finish();

  private:
    StepWriter &step_;
    std::string name_;
    SourceWriter body_;
    std::vector<std::pair<std::string, std::string>> runtime_;
  };

  static constexpr llvm::StringLiteral kStoredBody = "body";
  /// Declares the functor of `program`, `<name>_<suffix>`: parameters are the anchor's results
  /// (of types `anchors`), then the inputs, then the indices it uses. Returns an expression that
  /// makes one. `suffix` is kStoredBody for what makes the group's results and for nothing else.
  std::string body(const ScalarProgram &program, llvm::ArrayRef<Element> anchors,
                   llvm::StringRef suffix = kStoredBody);

  /// View of an access or output over the program's own space.
  std::string view(const Access &access, unsigned rank);
  std::string view(const OutputForm &output, unsigned result, unsigned rank);
  /// View with given strides and element offset.
  std::string view(Value *argument, const Strides &strides);
  std::string resultView(unsigned result, const Strides &strides);
  /// pack(…) of the program's inputs (and index views) over its own space.
  std::string inputs(const ScalarProgram &program);
  std::string outputs(const GroupForm &form);
  /// The same with every operand's strides rewritten by `change`.
  using Change = llvm::function_ref<Strides(const Strides &)>;
  std::string inputs(const ScalarProgram &program, Change change);
  std::string outputs(const GroupForm &form, Change change);
  /// The same along a loop nest.
  std::string inputs(const ScalarProgram &program, const LoopNest &nest);
  std::string outputs(const GroupForm &form, const LoopNest &nest);

  /// Pointer to element `offset` of the memory of the group's region argument or result.
  std::string pointer(Value *argument, Dim offset);
  bool isAligned(Value *argument, Dim offset, int64_t bytes) const {
    return places_.isAligned(operandOf(argument), offset, bytes);
  }
  bool isResultAligned(unsigned result, Dim offset, int64_t bytes) const {
    return places_.isAligned(step_.op->result(result), offset, bytes);
  }
  bool startsByte(unsigned result) const { return places_.startsByte(step_.op->result(result)); }
  std::string resultPointer(unsigned result, Dim offset);
  std::string scratchPointer(llvm::StringRef cppType) const;
  std::string zeroedPointer(llvm::StringRef cppType) const;
  /// The operand of the group behind a region argument.
  Value *operandOf(Value *argument) const;

private:
  /// Adds `struct TYPE...` to the declarations, or TYPE as a name of what has the same text.
  void declare(const std::string &type, llvm::StringRef text);
  /// A number's type as a parameter of the kernel; none: it is a constant.
  llvm::Optional<std::string> parameter(int64_t number);
  /// Extents or strides as dims<...>{...}, of which some may be parameters.
  std::string list(llvm::ArrayRef<Dim> numbers);
  std::string viewText(const std::string &pointer, const Strides &strides);
  std::string packText(const ScalarProgram &program, llvm::ArrayRef<std::string> views,
                       llvm::ArrayRef<int> placeOf) const;
  std::string paddedText(const Access &a, const std::string &pointer, const Strides &strides,
                         llvm::ArrayRef<std::pair<Dim, Dim>> inside) const;

  /// Whether the next constant that is met is a value.
  bool takesNextOut();

  Places places_;
  const Step &step_;
  const DimSpelling &dims_;
  const TargetLevel &level_;
  std::string name_;
  std::set<std::string> includes_, userIncludes_;
  SourceWriter declarations_, code_;
  const DeclaredTypes *shared_;
  bool sharesCode_ = false, takesConstantsOut_ = false, shapeVaries_ = false;
  std::vector<bool> whichConstants_;
  size_t constantsMet_ = 0;
  std::vector<std::string> constants_;
  KernelShape *shape_ = nullptr;
  DeclaredTypes declared_;
  std::vector<std::string> used_;
};

} // namespace tenon

// Defines GraphText: one graph of a C++ file, the first or an entry, as text.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/emit/Interface.h"
#include "codegen/emit/StepWriter.h"
#include "codegen/memory/Scheduled.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

class GraphText {
public:
  /// `entry`: its name; nothing for the first graph. `lifetimes`: as PlaceNames has it.
  GraphText(std::unique_ptr<ScheduledGraph> scheduled, const DimSpelling &dims, PlaceTable &table,
            const std::string &entry, bool lifetimes)
      : scheduled_(std::move(scheduled)), entry_(entry), dims_(dims),
        placeNames_(graph(), plan(), names_, table, entry, lifetimes) {}

  Graph &graph() const { return scheduled_->graph; }
  const Plan &plan() const { return scheduled_->plan; }
  const TargetLevel &level() const { return scheduled_->level; }
  const Choice *choice(const Step &step) const { return scheduled_->choice(step); }
  const std::string &entry() const { return entry_; }
  const PlaceNames &placeNames() const { return placeNames_; }
  const std::string &name(const Step &step) const { return names_[size_t(step.number)]; }

  /// What calls of a step name instead, where that is another graph's.
  void setFunction(const Step &step, std::string name) {
    functions_[size_t(step.number)] = std::move(name);
  }
  /// Writes `int NAME(const frame &f)`, which runs the steps and carries the states.
  /// `hookPrefix`: of the functions that are called around each step; nothing: there are none.
  void writeRun(SourceWriter &w, const std::string &name, const std::string &hookPrefix) const;

private:
  std::string bytesExpression(Value *v) const;
  void copy(SourceWriter &w, Value *to, Value *from, const std::string &plus = "") const;
  void calls(SourceWriter &w, Region &r, const std::string &hookPrefix) const;
  int stepOf(const Operation &op) const;
  void branch(SourceWriter &w, Operation &op, const std::string &hookPrefix) const;
  void loop(SourceWriter &w, Operation &op, const std::string &hookPrefix) const;

  const std::unique_ptr<ScheduledGraph> scheduled_;
  const std::string entry_;
  const DimSpelling &dims_;
  const std::vector<std::string> names_ = stepNames(plan());
  std::vector<std::string> functions_ = names_; // by step
  const PlaceNames placeNames_;
  const Places places_{plan(), dims_, &placeNames_};
};

} // namespace tenon

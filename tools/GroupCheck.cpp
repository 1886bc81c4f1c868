// Implements the comparison of groups while the interpreter runs.
#include "tools/GroupCheck.h"

namespace tenon {

GroupCheck::GroupCheck(Runner &runner, Program &program, const Watch &watch, Graph &oracle,
                       const CommonNames *common, bool exact)
    : runner_(runner), program_(program), watch_(watch), oracle_(oracle), common_(common),
      exact_(exact), names_(oracle) {
  for (unsigned g = 0; g < watch_.groups.size(); ++g)
    for (const auto *spots : {&watch_.groups[g].operands, &watch_.groups[g].results})
      for (const Spot &s : *spots)
        if (llvm::StringRef name = oracleName(s.name); !name.empty())
          users_[name].push_back(g);
}

llvm::StringRef GroupCheck::oracleName(llvm::StringRef name) const {
  return common_ ? common_->inB(name) : name;
}

bool GroupCheck::run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Transfer> states,
                     llvm::StringRef set, OracleRun &expected) {
  set_ = set;
  states_ = states;
  missing_.assign(watch_.groups.size(), 0);
  for (const auto &entry : users_)
    for (unsigned g : entry.getValue())
      ++missing_[g];
  batch_.inputs.assign(inputs.begin(), inputs.end());
  batch_.transfers.assign(states.begin(), states.end());
  OracleOptions options;
  options.after = [this](const Operation &op, llvm::ArrayRef<Tensor> operands,
                         llvm::ArrayRef<Tensor> results,
                         const SymbolValues &symbols) { see(op, operands, results, symbols); };
  if (!interpretGraph(oracle_, inputs, expected, runner_.diagnostics(), options))
    return false;
  // What the oracle never computed has no counterpart.
  for (unsigned g = 0; g < watch_.groups.size(); ++g)
    if (missing_[g] > 0)
      take(watch_.groups[g]);
  flush();
  known_.clear();
  return good_;
}

/// An operation of the oracle at graph level is done.
void GroupCheck::see(const Operation &op, llvm::ArrayRef<Tensor> operands,
                     llvm::ArrayRef<Tensor> results, const SymbolValues &symbols) {
  if (!good_ || op.is(Op::Constant))
    return;
  std::vector<llvm::StringRef> names;
  for (Value *v : op.results()) {
    auto it = users_.find(names_[v]);
    names.push_back(it == users_.end() ? llvm::StringRef() : it->getKey());
  }
  if (llvm::all_of(names, [](llvm::StringRef n) { return n.empty(); }))
    return;
  llvm::SmallVector<Tensor, 2> exact;
  std::string why; // fp64 may take another branch or find other extents: then types alone decide
  if (!exact_ || !op.is(Op::Group) || !evaluateWide(op, operands, symbols, exact, why))
    exact.assign(results.size(), Tensor());
  for (size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty())
      known_[names[i]] = {results[i], exact[i], unsigned(users_[names[i]].size())};
  exact.clear();
  for (llvm::StringRef name : names)
    if (!name.empty())
      for (unsigned g : users_[name])
        if (--missing_[g] == 0)
          take(watch_.groups[g]);
}

/// Puts a group whose values are known into the batch.
void GroupCheck::take(const WatchedGroup &group) {
  auto known = [&](const Spot &s) {
    auto it = known_.find(oracleName(s.name));
    return it == known_.end() ? Known() : it->getValue();
  };
  auto release = [&](const Spot &s) {
    auto it = known_.find(oracleName(s.name));
    if (it != known_.end() && --it->getValue().waiting == 0)
      known_.erase(it);
  };
  for (const Spot &s : group.operands) {
    if (auto t = watch_.write(s, known(s).typed)) {
      bytes_ += 2 * int64_t(t->bytes.size());
      batch_.transfers.push_back(std::move(*t));
    }
    release(s);
  }
  for (const Spot &s : group.results) {
    const Known value = known(s);
    release(s);
    Transfer t = watch_.read(s);
    if (value.typed.isNull() || t.form.bytes() != int64_t(value.typed.bytes().size())) {
      if (!llvm::is_contained(runner_.report.unmatched, s.name))
        runner_.report.unmatched.push_back(s.name);
      continue;
    }
    bytes_ += 3 * t.form.bytes() + (value.exact.isNull() ? 0 : 8 * value.exact.size());
    expected_.push_back({&group, &s, value.typed, value.exact, batch_.transfers.size()});
    batch_.transfers.push_back(std::move(t));
  }
  if (bytes_ > kBatchBytes)
    flush();
}

/// Runs the program on the batch and compares.
void GroupCheck::flush() {
  if (good_ && !expected_.empty()) {
    runner_.host.progress(("running " + set_).str());
    good_ = program_.run(batch_);
    for (const Expected &e : expected_) {
      if (!good_)
        break;
      Transfer &t = batch_.transfers[e.transfer];
      TensorCheck c = check(e.spot->name, t.done ? t.form.unpack(t.bytes) : Tensor(), e.typed,
                            e.exact, runner_.options.data.groupTolerance);
      t.bytes = {};
      if (common_ && e.exact.isNull())
        c.with = "the interpreter on the reference";
      c.step = t.step;
      c.set = set_.str();
      c.nodes = e.group->group->loc();
      runner_.addGroupCheck(std::move(c));
    }
    runner_.host.progress(("interpreting " + set_).str());
  }
  expected_.clear();
  batch_.transfers.assign(states_.begin(), states_.end());
  bytes_ = 0;
}

} // namespace tenon

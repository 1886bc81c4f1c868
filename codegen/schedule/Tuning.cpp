// Implements the keys of groups and the format of tuning files.
#include "codegen/schedule/Tuning.h"

#include "codegen/memory/Alignment.h"
#include "codegen/memory/Packing.h"
#include "ir/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

std::string groupKey(const Operation &group, const Alignment &alignment) {
  // A copy that depends on nothing outside: operands are numbered arguments of a region.
  Region apart(nullptr, nullptr);
  std::map<const Value *, Value *> map;
  std::string text;
  llvm::raw_string_ostream os(text);
  for (Value *v : group.operands()) {
    if (!map.emplace(v, nullptr).second)
      continue;
    map[v] = apart.addArgument(v->type());
    if (v->def() && v->def()->is(Op::Constant))
      os << "constant ";
    else
      os << (alignment.isKnown(v, Dim(0), 16) ? "aligned " : "anywhere ");
  }
  for (Value *v : group.results())
    os << (alignment.isKnown(v, Dim(0), 16) ? "aligned " : "anywhere ");
  Operation *copy = group.clone(map);
  apart.push_back(copy);
  for (llvm::StringRef decision : {"schedule", "scratch", "zeroed", "branch", "apart", "overlap"})
    copy->remove(decision);
  copy->walk([](Operation *op) {
    op->loc().clear();
    std::vector<std::string> literals;
    for (const auto &[name, attribute] : op->attributes())
      if (const Literal *l = attribute.get<Literal>(); l && *l)
        literals.push_back(name);
    for (const std::string &name : literals)
      op->remove(name); // the type of the result stays
    for (Value *v : op->results())
      v->setHint("");
    for (unsigned r = 0; r < op->numRegions(); ++r)
      for (Value *v : op->region(r).arguments())
        v->setHint("");
  });
  print(*copy, os);
  std::string digits = llvm::utohexstr(hashBytes(os.str()), /*LowerCase=*/true);
  return std::string(16 - digits.size(), '0') + digits;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

void Tuning::add(llvm::StringRef level, llvm::StringRef key, TuningEntry entry) {
  entries_.emplace(std::pair(key.str(), level.str()), std::move(entry));
}

const TuningEntry *Tuning::find(llvm::StringRef level, llvm::StringRef key) const {
  auto it = entries_.find({key.str(), level.str()});
  return it == entries_.end() ? nullptr : &it->second;
}

bool Tuning::knowsLevel(llvm::StringRef level) const {
  for (const auto &[place, entry] : entries_)
    if (place.second == level)
      return true;
  return false;
}

bool Tuning::parse(llvm::StringRef text, llvm::StringRef path, Diagnostics &diagnostics) {
  unsigned number = 0;
  auto fail = [&](const std::string &what) {
    diagnostics.error(path.str() + ":" + std::to_string(number) + ": " + what)
        .notes.push_back("`tenon tune MODEL -o FILE` writes such files");
    return false;
  };
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    ++number;
    llvm::StringRef comment;
    std::tie(line, comment) = line.split('#');
    line = line.trim();
    if (number == 1 && line != "tenon-tuning 1")
      return fail("expected a tuning file, which begins with 'tenon-tuning 1'");
    if (number == 1 || line.empty())
      continue;
    auto [word, value] = line.split(' ');
    value = value.trim();
    if (word == "version" || word == "target" || word == "device") {
      std::string &field = word == "version" ? version : word == "target" ? target : device;
      if (field.empty())
        field = value.str();
      continue;
    }
    auto take = [&value = value] {
      auto [first, others] = value.split(' ');
      value = others.trim();
      return first;
    };
    uint64_t key;
    const llvm::StringRef level = take();
    TuningEntry entry;
    const bool times =
        !take().getAsDouble(entry.microseconds) && !take().getAsDouble(entry.heuristicMicroseconds);
    auto schedule = parseSchedule(value);
    if (word.getAsInteger(16, key) || level.empty() || !times || !schedule)
      return fail("expected KEY LEVEL MICROSECONDS MICROSECONDS SCHEDULE, found '" + line.str() +
                  "'");
    entry.schedule = std::move(*schedule);
    entry.nodes = comment.trim().str();
    add(level, word, std::move(entry));
  }
  return number > 0 || fail("the file is empty");
}

std::string Tuning::text() const {
  std::string out;
  llvm::raw_string_ostream os(out);
  os << "tenon-tuning 1\nversion " << version << "\ntarget " << target << "\ndevice " << device
     << "\n\n";
  for (const auto &[place, entry] : entries_)
    os << place.first << ' ' << place.second << ' '
       << llvm::format("%.3f %.3f ", entry.microseconds, entry.heuristicMicroseconds)
       << toString(entry.schedule) << " # " << entry.nodes << '\n';
  return os.str();
}

} // namespace tenon

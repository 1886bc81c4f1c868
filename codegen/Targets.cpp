// Implements the table of target families and the parsing of target names.
#include "codegen/cpu/Family.h"
#include "codegen/cuda/Family.h"
#include "codegen/mcu/Family.h"
#include "ir/Names.h"
#include "passes/Pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Host.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tenon {
namespace {

constexpr char kPtx[] = "+ptx";

/// "sm_87" or "sm_87@orin-nx".
const TargetLevel *findLevel(const TargetFamily &family, llvm::StringRef text) {
  const auto [name, device] = text.split('@');
  for (const TargetLevel &l : family.levels())
    if ((l.name == name && (!text.contains('@') || l.device == device)) ||
        (&family == &mcu::kFamily && !l.device.empty() && l.device == text))
      return &l;
  return nullptr;
}

/// "armv8+dotprod", or "armv8+dotprod+i8mm": of a level and its extensions, each of which has all
/// before it, the last that is named; null where the words are something else.
const TargetLevel *findExtended(const TargetFamily &family, llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, '+');
  const TargetLevel *last = nullptr;
  for (llvm::StringRef extension : llvm::makeArrayRef(parts).drop_front()) {
    const TargetLevel *level = findLevel(family, (llvm::Twine(parts[0]) + "+" + extension).str());
    if (!level)
      return nullptr;
    last = std::max(last, level); // rows of one table
  }
  return last;
}

/// The best named level that this machine's processor and operating system support.
llvm::StringRef nativeCpuLevel() {
#if defined(__aarch64__) && defined(__linux__)
  const auto has = [](unsigned long word, int bit) { return (getauxval(word) >> bit & 1) != 0; };
  const bool dotprod = has(AT_HWCAP, 20), i8mm = dotprod && has(AT_HWCAP2, 13),
             bf16 = i8mm && has(AT_HWCAP2, 14), sve2 = bf16 && has(AT_HWCAP2, 1);
  return sve2      ? "armv8+sve2"
         : bf16    ? "armv8+bf16"
         : i8mm    ? "armv8+i8mm"
         : dotprod ? "armv8+dotprod"
                   : "armv8";
#elif defined(__aarch64__)
  return "armv8";
#else
  llvm::StringMap<bool> f;
  if (!llvm::sys::getHostCPUFeatures(f))
    return "generic";
  auto all = [&](std::initializer_list<const char *> names) {
    for (const char *n : names)
      if (!f.lookup(n))
        return false;
    return true;
  };
  const bool v2 = all({"cx16", "sahf", "popcnt", "sse4.1", "sse4.2", "ssse3"});
  const bool v3 = v2 && all({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"});
  const bool v4 = v3 && all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  return v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : v2 ? "x86-64-v2" : "generic";
#endif
}

} // namespace

llvm::ArrayRef<const TargetFamily *> targetFamilies() {
  static const TargetFamily *const kTable[] = {&cpu::kFamily, &cuda::kFamily, &mcu::kFamily};
  return kTable;
}

std::vector<const TargetFamily *> familiesWithOwnTactics() {
  std::vector<const TargetFamily *> families;
  for (const TargetFamily *f : targetFamilies())
    if (llvm::none_of(families, [&](const TargetFamily *g) { return g->tactics == f->tactics; }))
      families.push_back(f);
  return families;
}

Result<const Tactic *> findTactic(const TargetLevel &level, llvm::StringRef id) {
  for (const Tactic *t : level.family->tactics())
    if (t->info.id == id)
      return t;
  return Refusal{"no kernel of target " + level.name.str() + " is called " + id.str(),
                 "`tenon passes` lists them; without its schedule the group gets one"};
}

TargetTraits traitsOf(const Target &target) {
  TargetTraits traits;
  target.family->setTraits(target.levels, traits);
  return traits;
}

void CompiledFile::write(llvm::raw_pwrite_stream &os) const {
  if (stream)
    stream(os);
  else
    os << bytes;
}

namespace {
/// Appends to a string, and writes into it.
class StringStream : public llvm::raw_pwrite_stream {
public:
  explicit StringStream(std::string &to) : to_(to) { SetUnbuffered(); }

private:
  void write_impl(const char *from, size_t size) override { to_.append(from, size); }
  void pwrite_impl(const char *from, size_t size, uint64_t at) override {
    to_.replace(size_t(at), size, from, size);
  }
  uint64_t current_pos() const override { return to_.size(); }

  std::string &to_;
};
} // namespace

std::string CompiledFile::text() const {
  if (!stream)
    return bytes;
  std::string all;
  StringStream os(all);
  stream(os);
  return all;
}

std::vector<size_t> writingOrder(const std::vector<CompiledFile> &files) {
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t i) { return files[i].suffix == ".weights"; });
  return order;
}

bool emitModule(Module &module, const Target &target, const CompileOptions &options,
                std::vector<CompiledFile> &files, CompileSummary &summary,
                Diagnostics &diagnostics) {
  if (module.stage != Stage::Scheduled) {
    diagnostics.error("module is not scheduled");
    return false;
  }
  for (auto &graph : module.graphs)
    adoptNames(*graph);
  return target.family->emit(module, target, options, files, summary, diagnostics);
}

std::vector<const TargetLevel *> allTargetLevels() {
  std::vector<const TargetLevel *> all;
  for (const TargetFamily *f : targetFamilies())
    for (const TargetLevel &l : f->levels())
      all.push_back(&l);
  return all;
}

const TargetLevel *cudaLevelOf(unsigned capability) {
  const TargetLevel *best = nullptr;
  for (const TargetLevel &l : cuda::levels()) {
    if (l.sm / 10 != capability / 10 || l.sm > capability || (l.archSpecific && l.sm != capability))
      continue;
    if (!best || l.sm > best->sm)
      best = &l;
  }
  return best;
}

/// Of a GPU whose compute capability has no level of its own, what to name in its place; empty
/// where the words are no capability, or where it has one.
static std::string insteadOf(llvm::StringRef level) {
  unsigned capability = 0;
  if (!level.consume_front("sm_") || level.consumeInteger(10, capability) || !level.empty() ||
      llvm::any_of(cuda::levels(), [&](const TargetLevel &l) { return l.sm == capability; }))
    return "";
  if (const TargetLevel *runs = cudaLevelOf(capability))
    return "code of " + runs->fullName() + " runs on such a GPU";
  const auto [oldest, newest] =
      std::minmax_element(cuda::levels().begin(), cuda::levels().end(),
                          [](const TargetLevel &a, const TargetLevel &b) { return a.sm < b.sm; });
  if (capability < oldest->sm)
    return "the oldest GPUs that have any are those of " + oldest->fullName();
  return newest->fullName() + "+ptx has code that a driver compiles for later GPUs";
}

/// Letters and digits of a target's name, in one case: what a slip of signs between them leaves.
static std::string lettersOf(llvm::StringRef name) {
  std::string letters;
  for (char c : name)
    if (llvm::isAlnum(c))
      letters += llvm::toLower(c);
  return letters;
}

/// "; did you mean '…'?" of the target nearest to `what`; else nothing.
static std::string nearTarget(llvm::StringRef what) {
  // The family left out, or a part of the name, is no edit.
  const auto [family, rest] = what.split(':');
  const std::string core = lettersOf(rest.empty() ? family : rest);
  std::string nearest;
  unsigned least = 4; // edits that may be a slip
  for (const TargetLevel *l : allTargetLevels()) {
    const std::string own = lettersOf(l->spelling());
    const bool part = core.size() > 1 && (llvm::StringRef(own).endswith(core) ||
                                          llvm::StringRef(own).startswith(core));
    const unsigned edits =
        part
            ? 0
            : llvm::StringRef(lettersOf(what)).edit_distance(lettersOf(l->fullName()), true, least);
    if (edits < least) {
      least = edits;
      nearest = l->fullName();
    }
  }
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

/// An unknown target: what is near, and what there is, of its family where that is known.
static llvm::Optional<Target> unknownTarget(llvm::StringRef what, Diagnostics &diagnostics) {
  const std::string family = llvm::StringRef(what.split(':').first).lower();
  const bool known =
      llvm::any_of(targetFamilies(), [&](const TargetFamily *f) { return f->id == family; });
  std::string list;
  for (const TargetFamily *f : targetFamilies()) {
    if (known && f->id != family)
      continue;
    if (f == &cpu::kFamily || f == &cuda::kFamily)
      list += (list.empty() ? "" : ", ") + f->id.str() + ":native";
    for (const TargetLevel &l : f->levels())
      list += ", " + l.fullName();
  }
  // Levels are joined by another sign than the options' lists.
  const bool comma = what.contains(',');
  Diagnostic &d = diagnostics.error(
      "unknown target '" + what.str() + "'" +
      (comma ? "; levels of GPUs are joined by '+', as in cuda:sm_80+sm_90a" : nearTarget(what)));
  d.notes.push_back((known ? family + " targets are " : "targets are ") +
                    llvm::StringRef(list).ltrim(", ").str());
  return llvm::None;
}

llvm::Optional<Target> parseTarget(llvm::StringRef text, Diagnostics &diagnostics) {
  const llvm::StringRef id = text.split(':').first, rest = text.split(':').second;
  Target t;
  for (const TargetFamily *f : targetFamilies())
    if (f->id == id)
      t.family = f;
  if (!t.family)
    return unknownTarget(text, diagnostics);
  llvm::SmallVector<llvm::StringRef, 4> parts;
  if (const TargetLevel *extended = findExtended(*t.family, rest))
    parts.push_back(extended->name);
  else
    rest.split(parts, '+');
  for (llvm::StringRef part : parts) {
    if (t.family->facts.joinsLevels && part == "ptx") {
      t.ptx = true;
      continue;
    }
    if (t.family == &cpu::kFamily && part == "native")
      part = nativeCpuLevel();
    const TargetLevel *level = findLevel(*t.family, part);
    if (const std::string other = level || t.family != &cuda::kFamily ? "" : insteadOf(part);
        !other.empty()) {
      diagnostics.error("no kernels are written for 'cuda:" + part.str() + "' in particular; " +
                        other);
      return llvm::None;
    }
    if (!level)
      return unknownTarget(text, diagnostics);
    // The device chooses by architecture: figures of two machines would be two of one kind.
    if (llvm::any_of(t.levels, [&](const TargetLevel *l) { return l->name == level->name; })) {
      diagnostics.error("target '" + text.str() + "' names " + level->name.str() + " twice");
      return llvm::None;
    }
    t.levels.push_back(level);
  }
  if (t.levels.empty())
    return unknownTarget(text, diagnostics);
  if (t.levels.size() > 1 && !t.family->facts.joinsLevels) {
    diagnostics.error("target '" + text.str() +
                      "' joins several levels, which only cuda targets do");
    return llvm::None;
  }
  if (t.ptx && llvm::all_of(t.levels, [](const TargetLevel *l) { return l->archSpecific; })) {
    diagnostics.error("target '" + text.str() +
                      "' asks for forward-compatible PTX, which sm_90a code cannot give; "
                      "add an architecture such as sm_80");
    return llvm::None;
  }
  std::vector<std::string> variants;
  for (size_t i = 0; i < t.levels.size(); ++i)
    variants.push_back(t.variantName(i));
  t.name = joinVariantNames(variants);
  return t;
}

std::string TargetLevel::spelling() const {
  if (findLevel(*family, name) == this)
    return name.str();
  // A chip's name alone is a target.
  return family == &mcu::kFamily ? device.str() : name.str() + "@" + device.str();
}

std::string TargetLevel::fullName() const { return family->id.str() + ":" + spelling(); }

const TargetLevel *Target::ptxLevel() const {
  const TargetLevel *best = nullptr;
  for (const TargetLevel *l : levels)
    if (!l->archSpecific && (!best || l->sm > best->sm))
      best = l;
  return ptx ? best : nullptr;
}

std::string Target::variantName(size_t level) const {
  const TargetLevel *l = levels[level];
  return l->fullName() + (l == ptxLevel() ? kPtx : "");
}

std::string buildFlags(const TargetLevel &level, bool size) {
  std::string flags = level.buildFlags.str();
  if (const size_t at = flags.find("-O2"); size && at != std::string::npos)
    flags.replace(at, 3, "-Os");
  return flags;
}

std::string joinVariantNames(llvm::ArrayRef<std::string> variants) {
  std::string joined;
  bool ptx = false;
  for (llvm::StringRef name : variants) {
    ptx |= name.consume_back(kPtx);
    const auto [family, level] = name.split(':');
    joined += joined.empty() ? family.str() + ":" : "+";
    joined += level;
  }
  return joined + (ptx ? kPtx : "");
}

} // namespace tenon

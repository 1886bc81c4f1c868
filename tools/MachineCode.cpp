// Implements the reading of disassembled kernels.
#include "tools/MachineCode.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"

namespace tenon {
namespace {

/// What stands between the address and the semicolon: `/*0a40*/  @!P0 HMMA.16816.F32 R4, ... ;`.
/// Empty on other lines, those with encodings only among them.
llvm::StringRef instructionOf(llvm::StringRef line) {
  line = line.ltrim();
  if (!line.consume_front("/*"))
    return "";
  const size_t end = line.find("*/");
  if (end == llvm::StringRef::npos || end == 0 ||
      !llvm::all_of(line.take_front(end), [](char c) { return llvm::isHexDigit(c); }))
    return "";
  return line.drop_front(end + 2).split(';').first.trim();
}

/// Without the predicate and the operands.
llvm::StringRef mnemonicOf(llvm::StringRef instruction) {
  if (instruction.startswith("@"))
    instruction = instruction.drop_until([](char c) { return c == ' '; }).ltrim();
  return instruction.take_until([](char c) { return c == ' '; });
}

/// HMMA, IMMA, DMMA, HGMMA, QGMMA, UTCHMMA ...: matrix multiply-add is in the operation's name, not
/// in a modifier (HFMA2.MMA is a product of two pairs).
bool isTensorCore(llvm::StringRef mnemonic) { return mnemonic.split('.').first.endswith("MMA"); }

bool isIdentifier(char c) { return llvm::isAlnum(c) || c == '_'; }

} // namespace

unsigned KernelCode::tensorInstructions() const {
  unsigned n = 0;
  for (auto &[mnemonic, count] : tensorCore)
    n += count;
  return n;
}

std::vector<KernelCode> parseSass(llvm::StringRef text) {
  std::vector<KernelCode> kernels;
  std::string machine;
  bool inside = false; // a function
  while (!text.empty()) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    llvm::StringRef word = line.trim();
    if (word.consume_front("code for ")) {
      machine = word.str();
      inside = false;
    } else if (word.consume_front("Function : ")) {
      kernels.push_back({machine, word.str(), 0, {}});
      inside = true;
    } else if (llvm::StringRef instruction = instructionOf(line); inside && !instruction.empty()) {
      ++kernels.back().instructions;
      const llvm::StringRef mnemonic = mnemonicOf(instruction);
      if (isTensorCore(mnemonic))
        ++kernels.back().tensorCore[mnemonic.str()];
    }
  }
  return kernels;
}

MachineCode::MachineCode(std::vector<KernelCode> kernels, const std::set<std::string> &stepTypes) {
  for (KernelCode &k : kernels) {
    Row row{std::move(k), "", {}};
    row.spelling = llvm::demangle(row.code.name);
    llvm::StringRef rest = row.spelling;
    while (!rest.empty()) {
      const llvm::StringRef word = rest.take_while(isIdentifier);
      if (auto it = stepTypes.find(word.str()); it != stepTypes.end())
        row.types.insert(*it);
      rest = rest.drop_front(word.size()).drop_until(isIdentifier);
    }
    if (!row.types.empty())
      rows_.push_back(std::move(row));
  }
}

llvm::SmallVector<const KernelCode *, 2>
MachineCode::kernelsOf(const TargetLevel &level, llvm::ArrayRef<std::string> types) const {
  // Machine code for one architecture also has the kernels of the other variants, as traps.
  const std::string arch = std::to_string(level.sm * 10),
                    variant = "variant<" + arch + ", " + arch + ", " +
                              (level.archSpecific ? "true>" : "false>");
  llvm::SmallVector<const KernelCode *, 2> found;
  size_t most = 0;
  for (const Row &row : rows_) {
    const bool fits =
        row.code.machine == level.name && row.types.size() >= most &&
        row.spelling.find(variant) != std::string::npos &&
        llvm::all_of(row.types, [&](const std::string &t) { return llvm::is_contained(types, t); });
    if (!fits)
      continue;
    if (row.types.size() > most)
      found.clear();
    most = row.types.size();
    found.push_back(&row.code);
  }
  return found;
}

} // namespace tenon

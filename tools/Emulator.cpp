// Implements the table of emulated boards and the words that build and run images for them.
#include "tools/Emulator.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

constexpr uint32_t kMiB = 1u << 20;
constexpr char kEmulator[] = "qemu-system-arm";

// Arm's MPS2 and MPS3 boards with images AN386, AN500, AN505 and AN547: code in the memory that the
// core starts from, weights in the largest one.
constexpr BoardMemory kMps2Code{0x00000000, 4 * kMiB}, kMps2Ram{0x20000000, 4 * kMiB};
const EmulatedBoard kBoards[] = {
    {"cortex-m4", "mps2-an386", kMps2Code, {0x21000000, 16 * kMiB}, kMps2Ram},
    {"cortex-m7", "mps2-an500", kMps2Code, {0x60000000, 16 * kMiB}, kMps2Ram},
    {"cortex-m33",
     "mps2-an505",
     {0x10000000, 4 * kMiB},
     {0x80000000, 16 * kMiB},
     {0x38000000, 4 * kMiB}},
    {"cortex-m55",
     "mps3-an547",
     {0x00000000, kMiB / 2},
     {0x60000000, 64 * kMiB},
     {0x64000000, 64 * kMiB}},
};

// The clock advances by 2^5 ns an instruction: most ticks of the system timer before it wraps that
// still tell single instructions apart.
constexpr char kClock[] = "shift=5";

} // namespace

const EmulatedBoard *emulatedBoard(const Target &target) {
  if (target.levels.front()->isCross())
    for (const EmulatedBoard &b : kBoards)
      if (b.level == target.levels.front()->name)
        return &b;
  return nullptr;
}

llvm::Optional<EmulatorTools> findEmulatorTools(const Target &target, Diagnostics &diagnostics) {
  EmulatorTools tools;
  std::string missing;
  auto find = [&](llvm::StringRef name) -> std::string {
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
    missing += (missing.empty() ? "" : " and ") + name.str();
    return "";
  };
  tools.compiler = find(target.levels.front()->compiler);
  tools.emulator = find(kEmulator);
  if (missing.empty())
    return tools;
  diagnostics.error(target.name + " runs on an emulated board, which needs " + missing +
                    "; install gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm (as "
                    "scripts/setup does), or take --target=mcu:generic, which runs the same graph "
                    "on this machine");
  return llvm::None;
}

std::vector<std::string> imageOptions(const Target &target, bool size, llvm::StringRef script) {
  std::vector<std::string> words{"-std=c++17", "-ffp-contract=off", "-ffunction-sections",
                                 "-fdata-sections"};
  const std::string level = buildFlags(*target.levels.front(), size);
  llvm::SmallVector<llvm::StringRef, 16> flags;
  llvm::StringRef(level).split(flags, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef f : flags)
    words.push_back(f.str());
  words.insert(words.end(), {"-DTENON_WEIGHTS_SECTION=__attribute__((section(\".weights\")))",
                             "-nostdlib", "-Wl,--gc-sections", "-T", script.str()});
  const EmulatedBoard &board = *emulatedBoard(target);
  auto place = [&](const char *name, BoardMemory m) {
    words.push_back(std::string("-Wl,--defsym=") + name + "_at=" + std::to_string(m.at));
    words.push_back(std::string("-Wl,--defsym=") + name + "_bytes=" + std::to_string(m.bytes));
  };
  place("code", board.code);
  place("store", board.store);
  place("ram", board.ram);
  return words;
}

std::vector<std::string> emulatorOptions(const EmulatedBoard &board, llvm::StringRef image,
                                         llvm::StringRef argument) {
  std::string escaped; // a comma ends an option of QEMU's, two of them are one
  for (char c : argument)
    escaped += c == ',' ? std::string(",,") : std::string(1, c);
  return {"-M",
          board.machine.str(),
          "-display",
          "none",
          "-monitor",
          "none",
          "-serial",
          "none",
          "-icount",
          kClock,
          "-kernel",
          image.str(),
          "-semihosting-config",
          "enable=on,target=native,arg=" + escaped};
}

} // namespace tenon

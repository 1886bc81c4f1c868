// Implements the target table and the parsing of target names.
#include "codegen/Target.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Host.h"

namespace tenon {
namespace {

TargetLevel cpu(llvm::StringRef name, unsigned width, unsigned registers, double gflops,
                llvm::StringRef flags, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = Family::Cpu;
  t.summary = summary;
  t.simdWidth = width;
  t.simdRegisters = registers;
  t.buildFlags = flags;
  t.peakGflops = gflops;
  t.bandwidthGBs = 14;
  return t;
}

TargetLevel cuda(llvm::StringRef name, unsigned sm, unsigned multiprocessors, double gflops,
                 double tensorTflops, double bandwidth, unsigned shared, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = Family::Cuda;
  t.summary = summary;
  t.sm = sm;
  t.archSpecific = name.endswith("a");
  t.multiprocessors = multiprocessors;
  t.peakGflops = gflops;
  t.tensorTflops = tensorTflops;
  t.bandwidthGBs = bandwidth;
  t.launchMicroseconds = sm >= 90 ? 0.7 : 1.3;
  t.sharedBytes = shared * 1024;
  return t;
}

/// One of several machines with the same architecture.
TargetLevel cuda(llvm::StringRef name, llvm::StringRef device, unsigned sm,
                 unsigned multiprocessors, double gflops, double tensorTflops, double bandwidth,
                 unsigned shared, llvm::StringRef summary) {
  TargetLevel t = cuda(name, sm, multiprocessors, gflops, tensorTflops, bandwidth, shared, summary);
  t.device = device;
  return t;
}

#define TENON_FREESTANDING "-O2 -fno-tree-vectorize -ffreestanding -fno-exceptions -fno-rtti"

TargetLevel mcu(llvm::StringRef name, double gflops, double bandwidth, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = Family::Mcu;
  t.summary = summary;
  t.buildFlags = TENON_FREESTANDING;
  t.peakGflops = gflops;
  t.bandwidthGBs = bandwidth;
  return t;
}

/// A Cortex-M core as GNU's compiler for bare ARM machines knows it.
TargetLevel cortexM(llvm::StringRef name, bool mve, double gflops, double bandwidth, double clock,
                    llvm::StringRef flags, llvm::StringRef summary) {
  TargetLevel t = mcu(name, gflops, bandwidth, summary);
  t.compiler = "arm-none-eabi-g++";
  t.buildFlags = flags;
  t.megahertz = clock;
  t.fpu = t.dsp = true;
  t.mve = mve;
  return t;
}

// The kernels are vectorised by hand. The compilers' own loop vectoriser adds nothing to them, and
// g++ 12.2's miscompiles narrow stores at -O3 (seen in an int8 epilogue with AVX-512): it stays
// off.
//
// CPU peaks: one core of an AVX-512 server at 3.3 GHz, measured (213 and 113 GFLOP/s).
// sm_90a: one H200, measured. Others: data sheets of T4, A100, A10, the Orin modules (64 GB, 16 GB
// and 8 GB at 1300, 918 and 625 MHz), L4, B200, Thor and RTX 5090; unmeasured. Microcontrollers:
// instructions of bench/firmware at 2 cycles each (M7: 1.3), not measured on silicon.
const TargetLevel kLevels[] = {
    cpu("generic", 1, 16, 4, "-O2", "plain ISO C++17, no vector extensions"),
    cpu("x86-64-v2", 4, 16, 50, "-O2 -fno-tree-vectorize -march=x86-64-v2", "SSE4.2"),
    cpu("x86-64-v3", 8, 16, 113, "-O2 -fno-tree-vectorize -march=x86-64-v3", "AVX2 and FMA"),
    cpu("x86-64-v4", 16, 32, 213,
        "-O2 -fno-tree-vectorize -march=x86-64-v4 -mprefer-vector-width=512", "AVX-512"),
    cpu("armv8", 4, 32, 40, "-O2 -fno-tree-vectorize -march=armv8-a", "NEON"),
    cuda("sm_75", 75, 40, 8100, 65, 300, 64, "Turing (T4)"),
    cuda("sm_80", 80, 108, 19500, 312, 1555, 163, "Ampere (A100)"),
    cuda("sm_86", 86, 72, 31200, 125, 600, 99, "Ampere (A10)"),
    cuda("sm_87", "agx-orin", 87, 16, 5320, 42.5, 204.8, 163, "Jetson AGX Orin"),
    cuda("sm_87", "orin-nx", 87, 8, 1880, 15, 102.4, 163, "Jetson Orin NX"),
    cuda("sm_87", "orin-nano", 87, 8, 1280, 10.2, 68, 163, "Jetson Orin Nano"),
    cuda("sm_89", 89, 58, 30300, 121, 300, 99, "Ada (L4)"),
    cuda("sm_90a", 90, 132, 51000, 743, 4190, 227, "Hopper (H200)"),
    cuda("sm_100", 100, 148, 75000, 2250, 8000, 227, "Blackwell (B200)"),
    cuda("sm_110", 110, 20, 8000, 517, 273, 227, "Jetson Thor"),
    cuda("sm_120", 120, 170, 104800, 419, 1792, 99, "Blackwell (RTX 5090)"),
    mcu("generic", 0.1, 0.2, "any 32-bit microcontroller: plain ISO C++17"),
    cortexM("cortex-m4", false, 0.11, 0.1, 120,
            TENON_FREESTANDING " -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
            "Cortex-M4F: DSP extension, single-precision FPU"),
    cortexM("cortex-m7", false, 0.6, 0.8, 400,
            TENON_FREESTANDING " -mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
            "Cortex-M7: DSP extension, single-precision FPU"),
    cortexM("cortex-m33", false, 0.16, 0.15, 160,
            TENON_FREESTANDING " -mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
            "Cortex-M33: DSP extension, single-precision FPU"),
    cortexM("cortex-m55", true, 0.6, 0.8, 400,
            TENON_FREESTANDING " -mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
            "Cortex-M55: Helium (MVE), DSP extension, FPU"),
};

constexpr char kPtx[] = "+ptx";

llvm::StringRef familyName(Family f) {
  return f == Family::Cpu ? "cpu" : f == Family::Cuda ? "cuda" : "mcu";
}

/// "sm_87" or "sm_87@orin-nx".
const TargetLevel *findLevel(Family family, llvm::StringRef text) {
  const auto [name, device] = text.split('@');
  for (const TargetLevel &l : kLevels)
    if (l.family == family && l.name == name && (!text.contains('@') || l.device == device))
      return &l;
  return nullptr;
}

/// The best named level that this machine's processor and operating system support.
llvm::StringRef nativeCpuLevel() {
#if defined(__aarch64__)
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

llvm::ArrayRef<TargetLevel> allTargetLevels() { return kLevels; }

const TargetLevel *cudaLevelOf(unsigned capability) {
  const TargetLevel *best = nullptr;
  for (const TargetLevel &l : kLevels) {
    if (l.family != Family::Cuda || l.sm / 10 != capability / 10 || l.sm > capability ||
        (l.archSpecific && l.sm != capability))
      continue;
    if (!best || l.sm > best->sm)
      best = &l;
  }
  return best;
}

llvm::Optional<Target> parseTarget(llvm::StringRef text, Diagnostics &diagnostics) {
  auto unknown = [&](llvm::StringRef what) -> llvm::Optional<Target> {
    std::string list, near;
    unsigned least = 4; // edits that may be a slip
    for (const TargetLevel &l : kLevels) {
      const std::string name = familyName(l.family).str() + ":" + l.spelling();
      list += (list.empty() ? "" : ", ") + name;
      // The family left out, or a part of the name, is no edit.
      const llvm::StringRef core = what.split(':').second.empty() ? what : what.split(':').second;
      const bool part = core.size() > 1 && (l.name.endswith(core) || l.name.startswith(core));
      const unsigned edits = part ? 0 : what.edit_distance(name, true, least);
      if (edits < least) {
        least = edits;
        near = "; did you mean '" + name + "'?";
      }
    }
    Diagnostic &d = diagnostics.error("unknown target '" + what.str() + "'" + near);
    d.notes.push_back("targets are cpu:native, cuda:native, " + list);
    return llvm::None;
  };
  auto [familyText, rest] = text.split(':');
  Target t;
  if (familyText == "cpu")
    t.family = Family::Cpu;
  else if (familyText == "cuda")
    t.family = Family::Cuda;
  else if (familyText == "mcu")
    t.family = Family::Mcu;
  else
    return unknown(text);
  llvm::SmallVector<llvm::StringRef, 4> parts;
  rest.split(parts, '+');
  for (llvm::StringRef part : parts) {
    if (t.family == Family::Cuda && part == "ptx") {
      t.ptx = true;
      continue;
    }
    if (t.family == Family::Cpu && part == "native")
      part = nativeCpuLevel();
    const TargetLevel *level = findLevel(t.family, part);
    if (!level)
      return unknown(text);
    // The device chooses by architecture: figures of two machines would be two of one kind.
    if (llvm::any_of(t.levels, [&](const TargetLevel *l) { return l->name == level->name; })) {
      diagnostics.error("target '" + text.str() + "' names " + level->name.str() + " twice");
      return llvm::None;
    }
    t.levels.push_back(level);
  }
  if (t.levels.empty())
    return unknown(text);
  if (t.levels.size() > 1 && t.family != Family::Cuda) {
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
  return findLevel(family, name) == this ? name.str() : name.str() + "@" + device.str();
}

const TargetLevel *Target::ptxLevel() const {
  const TargetLevel *best = nullptr;
  for (const TargetLevel *l : levels)
    if (!l->archSpecific && (!best || l->sm > best->sm))
      best = l;
  return ptx ? best : nullptr;
}

std::string Target::variantName(size_t level) const {
  const TargetLevel *l = levels[level];
  return familyName(l->family).str() + ":" + l->spelling() + (l == ptxLevel() ? kPtx : "");
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

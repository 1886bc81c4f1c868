// Implements the proof of Tensor Core use.
#include "tools/TensorCores.h"

#include "tools/Files.h"
#include "tools/Report.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/memory/Scheduled.h"
#include "compiler/CodeOptions.h"
#include "tools/Tools.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tenon {
namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string instructionsText(const KernelCode *code) {
  if (!code)
    return "not found";
  std::string text;
  for (auto &[mnemonic, count] : code->tensorCore)
    text += (text.empty() ? "" : ", ") + mnemonic + " x " + std::to_string(count);
  return text.empty() ? "none" : text;
}

std::string firstNode(llvm::ArrayRef<std::string> nodes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!nodes.empty())
    os << '\'', os.write_escaped(shortName(nodes.front())) << '\'';
  if (nodes.size() > 1)
    os << " and " << nodes.size() - 1 << " more";
  return text;
}

} // namespace

//===----------------------------------------------------------------------===//
// From the module to machine code and back
//===----------------------------------------------------------------------===//

bool TensorCoreProof::disassemble(const CodeOptions &code, std::string &sass) {
  Diagnostics &diagnostics = compiler_.diagnostics();
  const std::string nvcc = findNvcc(), cuobjdump = findCuobjdump();
  if (nvcc.empty() || cuobjdump.empty()) {
    diagnostics.error(
        "--tensor-cores: " +
        (nvcc.empty() ? whyMissing("NVCC", "no nvcc was found in PATH or /usr/local/cuda/bin; "
                                           "install the CUDA toolkit, or name one in NVCC")
                      : whyMissing("CUOBJDUMP", "no cuobjdump was found in PATH, beside nvcc or in "
                                                "/usr/local/cuda/bin; " +
                                                    std::string(kCuobjdumpRemedy))));
    return false;
  }
  CompileOptions options = compileOptions(code, "model");
  options.prefix = "model";
  // Machine code is the same wherever weights and runtime stand.
  options.weights = CompileOptions::File;
  options.runtime = CompileOptions::Embed;
  std::vector<CompiledFile> files;
  if (!compiler_.emit(target_, options, files, summary_))
    return false;
  TemporaryFolder folder;
  if (!folder.valid()) {
    diagnostics.error(folder.whyNot());
    return false;
  }
  OutputFiles out(diagnostics);
  for (const CompiledFile &f : files)
    if (f.suffix != ".weights" && !out.add(folder.file("model" + f.suffix), f))
      return false;
  if (!out.commit())
    return false;
  std::vector<std::string> words = target_.family->compilerOptions(target_);
  words.insert(words.end(), {"-c", folder.file("model.cu"), "-o", folder.file("model.o")});
  host_.progress("building");
  if (!runTool({nvcc, words, folder.file("nvcc.txt"), ""}, "building the generated code",
               diagnostics))
    return false;
  host_.progress("disassembling");
  const std::string text = folder.file("sass.txt");
  if (!runTool({cuobjdump, {"-sass", folder.file("model.o")}, folder.file("cuobjdump.txt"), text},
               "disassembling the machine code", diagnostics))
    return false;
  auto buffer = llvm::MemoryBuffer::getFile(text);
  if (!buffer) {
    diagnostics.error("cannot read what cuobjdump wrote: " + buffer.getError().message());
    return false;
  }
  sass = (*buffer)->getBuffer().str();
  return true;
}

double TensorCoreProof::Variant::peak(const Layer &layer) const {
  return share(layer.flops, layer.microseconds * level->tensorTflops * layer.verdict.rate * 1e6);
}

TensorCoreProof::Variant TensorCoreProof::readVariant(size_t index,
                                                      const ScheduleOptions &schedule) const {
  Variant v;
  v.level = target_.levels[index];
  const auto scheduled =
      openScheduled(*compiler_.module().graphs[index], *v.level, compiler_.diagnostics());
  if (!scheduled)
    return v;
  for (const StepSummary &s : summary_.steps) {
    if (s.level != v.level->name)
      continue;
    const Operation &op = *scheduled->plan.steps[size_t(s.step)].op;
    const ScheduledGroup &group = *scheduled->groups[size_t(s.step)];
    Layer l;
    l.step = s.step;
    l.tactic = group.choice->tactic.info.id.str();
    l.nodes = op.loc();
    l.flops = workOf(op).flops;
    l.microseconds = s.estimatedMicroseconds;
    l.verdict = target_.family->judgeTensorCores(scheduled->query(group), *group.choice, schedule);
    l.kernels = code_->kernelsOf(*v.level, s.types);
    llvm::stable_sort(l.kernels, [](const KernelCode *a, const KernelCode *b) {
      return a->tensorInstructions() < b->tensorInstructions();
    });
    v.flops += l.flops;
    v.microseconds += l.microseconds;
    v.contractions += l.verdict.isContraction;
    if (l.verdict.isContraction && l.isProven()) {
      ++v.proven;
      v.provenFlops += l.flops;
      v.provenMicroseconds += l.microseconds;
    }
    v.layers.push_back(std::move(l));
  }
  return v;
}

/// What was meant for Tensor Cores must be on them.
bool TensorCoreProof::check(const Variant &variant) {
  bool ok = true;
  for (const Layer &l : variant.layers) {
    if (!l.verdict.isContraction || (l.code() && (l.isProven() || !l.verdict.intended)))
      continue;
    Diagnostic &d = compiler_.diagnostics().error(
        "step " + std::to_string(l.step) + ": the machine code for " + variant.level->name.str() +
        (l.code() ? " of " + l.tactic + " has no Tensor Core instruction"
                  : " has no kernel of " + l.tactic + " for it"));
    d.nodes = l.nodes;
    ok = false;
  }
  return ok;
}

bool TensorCoreProof::take(const CodeOptions &code, const ScheduleOptions &schedule) {
  std::string sass;
  if (!disassemble(code, sass))
    return false;
  host_.endProgress();
  std::set<std::string> types;
  for (const StepSummary &s : summary_.steps)
    types.insert(s.types.begin(), s.types.end());
  code_ = std::make_unique<MachineCode>(parseSass(sass), types);
  bool ok = true;
  for (size_t i = 0; i < target_.levels.size(); ++i) {
    variants_.push_back(readVariant(i, schedule));
    ok &= check(variants_.back());
  }
  return ok;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void TensorCoreProof::printText(llvm::raw_ostream &os) const {
  for (const Variant &v : variants_) {
    if (v.contractions == 0) {
      os << "Tensor Cores of " << v.level->name
         << ": the network has no contraction, so there is nothing to prove\n";
      continue;
    }
    os << "Tensor Cores of " << v.level->name << ": " << v.proven << " of " << v.contractions
       << " contractions, "
       << llvm::format("%.1f %% of the FLOPs, %.1f %% of the estimated %.4g us\n",
                       100 * share(v.provenFlops, v.flops),
                       100 * share(v.provenMicroseconds, v.microseconds), v.microseconds)
       << "  step   FLOPs    time    peak  instructions                  kernel\n";
    for (const Layer &l : v.layers) {
      os << llvm::format("  %4d %5.1f %% %5.1f %% ", l.step, 100 * share(l.flops, v.flops),
                         100 * share(l.microseconds, v.microseconds));
      if (l.verdict.isContraction)
        os << llvm::format("%5.1f %%  ", 100 * v.peak(l))
           << llvm::left_justify(instructionsText(l.code()), 28);
      else
        os << llvm::right_justify("-", 7) << "  " << llvm::left_justify("-", 28);
      os << "  " << l.tactic << "  " << firstNode(l.nodes) << '\n';
      if (l.verdict.isContraction && !l.isProven() && !l.verdict.reason.empty())
        os << "       why none: " << l.verdict.reason
           << "\n       what would change it: " << l.verdict.change << '\n';
    }
  }
}

void TensorCoreProof::writeLayer(llvm::json::OStream &json, const Variant &v,
                                 const Layer &l) const {
  json.attribute("step", l.step);
  json.attribute("kernel", l.tactic);
  json.attributeArray("nodes", [&] {
    for (const std::string &n : l.nodes)
      json.value(llvm::json::fixUTF8(n));
  });
  json.attribute("contraction", l.verdict.isContraction);
  json.attribute("flops", l.flops);
  json.attribute("flops_share", share(l.flops, v.flops));
  json.attribute("estimated_us", l.microseconds);
  json.attribute("time_share", share(l.microseconds, v.microseconds));
  if (l.verdict.isContraction)
    json.attribute("peak_share", v.peak(l));
  json.attributeArray("instructions", [&] {
    if (const KernelCode *code = l.code())
      for (auto &row : code->tensorCore)
        json.object([&] {
          json.attribute("mnemonic", row.first);
          json.attribute("count", int64_t(row.second));
        });
  });
  json.attributeArray("functions", [&] {
    for (const KernelCode *k : l.kernels)
      json.value(k->name);
  });
  if (!l.verdict.isContraction || l.isProven())
    return;
  json.attribute("why", llvm::json::fixUTF8(l.verdict.reason));
  json.attribute("change", l.verdict.change);
  json.attributeArray("refusals", [&] {
    for (auto &row : l.verdict.refusals)
      json.object([&] {
        json.attribute("tactic", row.first);
        json.attribute("reason", llvm::json::fixUTF8(row.second));
      });
  });
}

void TensorCoreProof::printJson(llvm::raw_ostream &os) const {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("model", llvm::json::fixUTF8(compiler_.module().name));
    json.attribute("target", target_.name);
    json.attributeArray("variants", [&] {
      for (const Variant &v : variants_)
        json.object([&] {
          json.attribute("variant", v.level->name);
          json.attribute("contractions", v.contractions);
          json.attribute("on_tensor_cores", v.proven);
          json.attribute("flops_share", share(v.provenFlops, v.flops));
          json.attribute("time_share", share(v.provenMicroseconds, v.microseconds));
          json.attribute("estimated_us", v.microseconds);
          json.attributeArray("layers", [&] {
            for (const Layer &l : v.layers)
              json.object([&] { writeLayer(json, v, l); });
          });
        });
    });
  });
  os << '\n';
}

} // namespace tenon

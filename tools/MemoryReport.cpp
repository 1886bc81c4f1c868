// Implements the report on memory.
#include "tools/MemoryReport.h"

#include "codegen/memory/Overlap.h"
#include "codegen/memory/Packing.h"
#include "codegen/memory/Plan.h"
#include "codegen/schedule/Schedule.h"
#include "ir/Names.h"

#include "llvm/Support/Format.h"

#include <algorithm>
#include <tuple>

namespace tenon {
namespace {

llvm::StringRef homeName(Home home) {
  switch (home) {
  case Home::Arena: return "arena";
  case Home::Weights: return "weights";
  case Home::Text: return "text";
  case Home::Input: return "input";
  case Home::Output: return "output";
  case Home::State: return "state";
  }
  return "";
}

/// What storing weights in 2 or 4 bits saves of the flash.
struct FewBits {
  int64_t constants = 0, bytes = 0, unpacked = 0;
  explicit FewBits(const Plan &plan) {
    for (Value *v : plan.constants)
      if (weightFields(*v->def())) {
        ++constants;
        bytes += storedBytes(*v->def());
        unpacked += allocatedElements(v->type());
      }
  }
};

} // namespace

void printMemory(llvm::raw_ostream &os, Graph &graph, llvm::StringRef variant) {
  const Plan plan = planMemory(graph);
  const ValueNames names(graph);
  os << "memory of " << variant << ": arena " << plan.arenaBytes << " bytes, lower bound "
     << plan.boundBytes << ", largest scratch " << plan.scratchBytes << ", weights "
     << plan.weightBytes << ", states " << plan.stateBytes << '\n';
  if (const FewBits few(plan); few.constants)
    os << "weights of few bits: " << few.constants << " constants, " << few.bytes
       << " bytes in place of " << few.unpacked << " (--disable=" << kPackedWeights
       << ": bytes, fewer instructions)\n";
  for (const Overlaid &o : overlaidResults(plan))
    os << "step " << o.step->number << ": the result at " << plan.buffers[o.result].at
       << " lies over the operand at " << plan.buffers[o.operand].at
       << ", which it follows behind the reads\n";
  std::vector<const BufferInfo *> buffers;
  for (const BufferInfo &b : plan.buffers)
    if (b.home == Home::Arena && b.bytes > 0)
      buffers.push_back(&b);
  std::stable_sort(buffers.begin(), buffers.end(), [](const BufferInfo *a, const BufferInfo *b) {
    return std::tie(a->firstStep, a->at) < std::tie(b->firstStep, b->at);
  });
  os << "      offset        bytes      steps  values\n";
  for (const BufferInfo *b : buffers) {
    os << llvm::format("  %10lld %12lld %5d-%-4d  ", static_cast<long long>(b->at),
                       static_cast<long long>(b->bytes), b->firstStep, b->lastStep);
    for (size_t i = 0; i < b->values.size(); ++i)
      os << (i ? ", %" : "%") << names[b->values[i]];
    os << '\n';
  }
}

void writeMemory(llvm::json::OStream &json, Module &module) {
  json.attributeArray("memory", [&] {
    for (auto &graph : module.graphs) {
      const Plan plan = planMemory(*graph);
      const ValueNames names(*graph);
      json.object([&] {
        json.attribute("variant", graph->target);
        json.attribute("arena_bytes", plan.arenaBytes);
        json.attribute("bound_bytes", plan.boundBytes);
        json.attribute("scratch_bytes", plan.scratchBytes);
        json.attribute("weight_bytes", plan.weightBytes);
        if (const FewBits few(plan); few.constants)
          json.attributeObject("weights_of_few_bits", [&] {
            json.attribute("constants", few.constants);
            json.attribute("bytes", few.bytes);
            json.attribute("unpacked_bytes", few.unpacked);
          });
        json.attribute("state_bytes", plan.stateBytes);
        json.attributeArray("overlaid", [&] {
          for (const Overlaid &o : overlaidResults(plan))
            json.object([&] {
              json.attribute("step", o.step->number);
              json.attribute("result", o.result);
              json.attribute("operand", o.operand);
              json.attribute("distance", o.distance);
            });
        });
        json.attributeArray("buffers", [&] {
          for (const BufferInfo &b : plan.buffers)
            json.object([&] {
              json.attribute("home", homeName(b.home));
              json.attribute("at", b.at);
              json.attribute("bytes", b.bytes);
              if (b.home == Home::Arena) {
                json.attribute("first_step", b.firstStep);
                json.attribute("last_step", b.lastStep);
              }
              json.attributeArray("values", [&] {
                for (Value *v : b.values)
                  json.value(names[v]);
              });
            });
        });
      });
    }
  });
}

} // namespace tenon

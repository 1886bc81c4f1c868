// Implements `tenon passes`: everything that has a stable id.
#include "codegen/core/TargetFamily.h"
#include "codegen/schedule/Schedule.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "passes/PassManager.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

namespace tenon {
namespace {

llvm::StringRef kindName(RowKind kind) {
  return kind == RowKind::Pass ? "pass" : kind == RowKind::Pattern ? "pattern" : "fusion";
}

void printText(llvm::raw_ostream &os) {
  for (const PassInfo &row : passTable()) {
    const bool part = row.kind != RowKind::Pass;
    os << llvm::left_justify((part ? "  " : "") + row.id.str(), 38) << row.summary;
    if (row.required)
      os << " (always runs)";
    os << '\n';
    for (const PassOption &o : row.options)
      os << "    {" << o.name << "=" << (o.isText ? "…" : std::to_string(o.value)) << "} "
         << o.summary << '\n';
  }
  for (const TargetFamily *family : familiesWithOwnTactics())
    for (const Tactic *t : family->tactics())
      for (const Chain &chain : t->info.chains)
        os << llvm::left_justify("  " + chain.id.str(), 38) << chain.summary << " (" << family->id
           << ", where it is faster)\n";
  os << "\nways to run a group (--disable, --only)\n";
  for (const TargetFamily *family : familiesWithOwnTactics())
    for (const Tactic *t : family->tactics())
      os << llvm::left_justify("tactic." + t->info.id.str(), 38) << t->info.summary << " ("
         << family->id << ")\n";
  for (const ScheduleFeature &f : scheduleFeatures())
    os << llvm::left_justify(f.id, 38) << f.summary << '\n';
  os << "\npipelines\n";
  for (unsigned level = 0; level < 4; ++level)
    os << "-O" << level << "  imported to optimized: " << optimizationPipeline(level)
       << "\n     optimized to groups:   " << groupingPipeline(level) << '\n';
  os << "before quantize: " << preparationPipeline() << '\n';
}

void printJson(llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attributeArray("passes", [&] {
      for (const PassInfo &row : passTable())
        json.object([&] {
          json.attribute("id", row.id);
          json.attribute("kind", kindName(row.kind));
          json.attribute("summary", row.summary);
          json.attribute("required", row.required);
          json.attributeArray("options", [&] {
            for (const PassOption &o : row.options)
              json.object([&] {
                json.attribute("name", o.name);
                if (!o.isText)
                  json.attribute("default", o.value);
                json.attribute("summary", o.summary);
              });
          });
        });
    });
    json.attributeArray("tactics", [&] {
      for (const TargetFamily *family : familiesWithOwnTactics())
        for (const Tactic *t : family->tactics())
          json.object([&] {
            json.attribute("id", "tactic." + t->info.id.str());
            json.attribute("family", family->id);
            json.attribute("summary", t->info.summary);
          });
    });
    json.attributeArray("chains", [&] {
      for (const TargetFamily *family : familiesWithOwnTactics())
        for (const Tactic *t : family->tactics())
          for (const Chain &chain : t->info.chains)
            json.object([&] {
              json.attribute("id", chain.id);
              json.attribute("family", family->id);
              json.attribute("tactic", "tactic." + t->info.id.str());
              json.attribute("summary", chain.summary);
            });
    });
    json.attributeArray("scheduling", [&] {
      for (const ScheduleFeature &f : scheduleFeatures())
        json.object([&] {
          json.attribute("id", f.id);
          json.attribute("summary", f.summary);
        });
    });
    json.attributeArray("pipelines", [&] {
      for (unsigned level = 0; level < 4; ++level)
        json.object([&] {
          json.attribute("level", level);
          json.attribute("optimize", optimizationPipeline(level));
          json.attribute("group", groupingPipeline(level));
        });
    });
  });
  os << '\n';
}

} // namespace

void declarePasses(CommandLine &app) {
  auto options = std::make_shared<ConsoleOptions>();
  CommandLine sub = app.command("passes", "lists passes, patterns and fusions by id");
  declare(sub, *options);
  sub.runs([options] {
    options->json ? printJson(llvm::outs()) : printText(llvm::outs());
    return Done;
  });
}

} // namespace tenon

// Implements the writing of trace events.
#include "tools/TraceEvents.h"

#include "llvm/Support/JSON.h"

namespace tenon {
namespace {

void nameTrack(llvm::json::OStream &json, const char *what, llvm::StringRef name) {
  json.object([&] {
    json.attribute("ph", "M");
    json.attribute("name", what);
    json.attribute("pid", 1);
    json.attribute("tid", 1);
    json.attributeObject("args", [&] { json.attribute("name", llvm::json::fixUTF8(name)); });
  });
}

} // namespace

void writeTraceEvents(llvm::raw_ostream &os, llvm::StringRef model, llvm::StringRef target,
                      llvm::ArrayRef<TracedStep> steps, const Plan &plan) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("displayTimeUnit", "ns");
    json.attributeObject("otherData", [&] {
      json.attribute("model", llvm::json::fixUTF8(model));
      json.attribute("target", target);
    });
    json.attributeArray("traceEvents", [&] {
      nameTrack(json, "process_name", model);
      nameTrack(json, "thread_name", target);
      double at = 0;
      for (const TracedStep &s : steps) {
        json.object([&] {
          json.attribute("ph", "X");
          json.attribute("name", llvm::json::fixUTF8(s.nodes.empty() ? s.kernel : s.nodes.back()));
          json.attribute("cat", s.kernel);
          json.attribute("pid", 1);
          json.attribute("tid", 1);
          json.attribute("ts", at);
          json.attribute("dur", s.microseconds);
          json.attributeObject("args", [&] {
            json.attribute("step", s.number);
            json.attribute("kernel", s.kernel);
            json.attributeArray("nodes", [&] {
              for (const std::string &node : s.nodes)
                json.value(llvm::json::fixUTF8(node));
            });
            json.attribute("flops", s.flops);
            json.attribute("bytes", s.bytes);
          });
        });
        json.object([&] {
          json.attribute("ph", "C");
          json.attribute("name", "arena");
          json.attribute("pid", 1);
          json.attribute("ts", at);
          json.attributeObject("args", [&] { json.attribute("bytes", plan.liveBytes(s.number)); });
        });
        at += s.microseconds;
      }
    });
  });
  os << '\n';
}

} // namespace tenon

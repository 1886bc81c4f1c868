// Implements the reports of overflows.
#include "tools/RangeReport.h"

#include "tools/Report.h"

#include "llvm/Support/Format.h"

#include <cmath>

namespace tenon {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

std::string firstNode(const OverflowRisk &r) {
  return r.nodes.empty() ? "a node without a name" : "'" + r.nodes.front() + "'";
}

std::string assumption(const OverflowReport &report) {
  return report.usesAssumption
             ? "inputs taken to lie within " + number(report.assumed.low) + ".." +
                   number(report.assumed.high) + " unless --input-range says otherwise"
             : "inputs within their declared ranges";
}

/// May the value leave the range, or is nothing known of it?
std::string verdict(const OverflowRisk &r) {
  return std::isfinite(r.bound) ? "may reach " + number(r.bound) : "unknown";
}

} // namespace

std::string overflowLine(const OverflowReport &report) {
  std::string text = std::to_string(report.safe) + " of " + std::to_string(report.results) +
                     " stored results proven within 65504";
  if (!report.risks.empty())
    text += "; not " + firstNode(report.risks.front()) +
            (report.risks.size() > 1 ? " and " + std::to_string(report.risks.size() - 1) + " more"
                                     : "") +
            " (`tenon inspect` has the bounds)";
  return text;
}

void printOverflows(llvm::raw_ostream &os, const OverflowReport &report) {
  constexpr size_t kMost = 40;
  os << "overflow in fp16: " << report.safe << " of " << report.results
     << " stored results proven within 65504, " << assumption(report) << '\n';
  for (size_t i = 0; i < report.risks.size() && i < kMost; ++i) {
    const OverflowRisk &r = report.risks[i];
    os << "  ";
    os.write_escaped(firstNode(r)) << ": " << verdict(r) << "; " << r.reason << '\n';
  }
  if (report.risks.size() > kMost)
    os << "  and " << report.risks.size() - kMost << " more (--format=json)\n";
  if (!report.risks.empty())
    os << "  A bound holds for the worst input, and supposes that nothing before it overflows. "
          "Keep "
          "a node in fp32\n  with --precision='fp16,NODE=fp32'; `tenon run --against=interpreter` "
          "shows what data leads to.\n";
}

void writeOverflows(llvm::json::OStream &json, const OverflowReport &report) {
  json.attributeObject("overflow", [&] {
    json.attribute("results", int64_t(report.results));
    json.attribute("safe", int64_t(report.safe));
    json.attribute("inputs", assumption(report));
    json.attributeArray("risks", [&] {
      for (const OverflowRisk &r : report.risks)
        json.object([&] {
          json.attributeArray("nodes", [&] {
            for (const std::string &n : r.nodes)
              json.value(llvm::json::fixUTF8(n));
          });
          if (std::isfinite(r.bound)) // JSON has no infinity: an unknown bound is left out
            json.attribute("bound", r.bound);
          json.attribute("reason", r.reason);
        });
    });
  });
}

} // namespace tenon

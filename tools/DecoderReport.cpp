// Implements the report of a decoder's interface.
#include "tools/DecoderReport.h"

#include "tools/Report.h"

namespace tenon {
namespace {

llvm::StringRef meaning(Following what) {
  switch (what) {
  case Following::Mask: return "every key, none later than the query";
  case Following::Positions: return "length, length + 1, ...";
  case Following::Length: return "the length";
  case Following::Total: return "the length with the new tokens";
  case Following::LastPosition: return "the last position";
  case Following::CacheBranch: return "there are caches";
  case Following::KeptLogits: return "all";
  }
  return "";
}

std::string pair(const ImportState &s) { return s.input + " = " + s.output; }

} // namespace

void printDecoder(llvm::raw_ostream &os, const DecoderInterface &d) {
  os << "decoder  up to " << d.request.capacity
     << " tokens, one sequence without padding, logits of "
     << (d.request.lastLogits ? "the last token" : "every token") << " of a run\n"
     << "  tokens    " << escaped(d.tokens);
  if (!d.count.empty())
    os << ", " << escaped(d.count) << " of them";
  os << "\n  length    " << escaped(d.length) << '\n';
  const size_t most = 2;
  for (bool grows : {true, false}) {
    std::vector<const ImportState *> caches;
    for (const ImportState &s : d.caches)
      if (s.appendAxis.hasValue() == grows)
        caches.push_back(&s);
    for (size_t i = 0; i < caches.size() && i < most; ++i) {
      os << (i       ? "            "
             : grows ? "  caches    "
                     : "  replaced  ")
         << escaped(pair(*caches[i]));
      if (grows)
        os << ", axis " << *caches[i]->appendAxis;
      os << '\n';
    }
    if (caches.size() > most)
      os << "            and " << caches.size() - most << " more\n";
  }
  for (const auto &[name, what] : d.following)
    os << "  computed  " << escaped(name) << ": " << meaning(what) << '\n';
  for (const auto &[name, value] : d.bound)
    os << "  bound     " << escaped(name) << " = " << value << '\n';
}

void writeDecoder(llvm::json::OStream &json, const DecoderInterface &d) {
  auto text = [](llvm::StringRef s) { return llvm::json::fixUTF8(s); };
  json.attributeObject("decoder", [&] {
    json.attribute("capacity", d.request.capacity);
    json.attribute("logits_of", d.request.lastLogits ? "last" : "all");
    json.attribute("tokens", text(d.tokens));
    json.attribute("logits", text(d.logits));
    json.attribute("count", text(d.count));
    json.attribute("length", text(d.length));
    json.attributeArray("caches", [&] {
      for (const ImportState &s : d.caches)
        json.object([&] {
          json.attribute("past", text(s.input));
          json.attribute("present", text(s.output));
          if (s.appendAxis)
            json.attribute("axis", *s.appendAxis);
        });
    });
    json.attributeObject("computed", [&] {
      for (const auto &[name, what] : d.following)
        json.attribute(text(name), meaning(what));
    });
    json.attributeObject("bound", [&] {
      for (const auto &[name, value] : d.bound)
        json.attribute(text(name), value);
    });
  });
}

} // namespace tenon

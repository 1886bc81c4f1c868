// Implements the pipeline grammar and the running of pipelines.
#include "passes/PassManager.h"
#include "passes/Aliases.h"

#include "ir/Text.h"
#include "ir/Verifier.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

namespace tenon {

//===----------------------------------------------------------------------===//
// Pipeline text
//===----------------------------------------------------------------------===//

namespace {

std::string suggestion(llvm::ArrayRef<std::string> near) {
  std::string s;
  for (size_t i = 0; i < near.size(); ++i)
    s += (i ? ", '" : "; did you mean '") + near[i] + "'";
  return s.empty() ? "; `tenon passes` lists them" : s + "?";
}

bool parseCall(llvm::StringRef text, PassCall &call, Diagnostics &diagnostics) {
  auto [id, rest] = text.split('{');
  id = id.trim();
  call.pass = findRow(id);
  if (!call.pass || call.pass->kind != RowKind::Pass) {
    std::string message = "'" + id.str() + "' is not a pass";
    if (call.pass)
      message += " but a part of '" + passOf(id).str() + "'; use --only=" + id.str() + " with it";
    else
      message += suggestion(nearIds(id));
    diagnostics.error(std::move(message));
    return false;
  }
  if (!text.contains('{'))
    return true;
  llvm::SmallVector<llvm::StringRef, 4> items;
  rest.drop_back().split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    llvm::StringRef name, value; // named: clang 14 captures no structured bindings
    std::tie(name, value) = item.split('=');
    name = name.trim();
    const PassOption *option =
        llvm::find_if(call.pass->options, [&](const PassOption &o) { return o.name == name; });
    if (option == call.pass->options.end()) {
      std::string message = "pass '" + id.str() + "' has no option '" + name.str() + "'; it has ";
      const char *comma = "";
      for (const PassOption &o : call.pass->options)
        message += comma + o.name.str(), comma = ", ";
      if (call.pass->options.empty())
        message += "none";
      diagnostics.error(std::move(message));
      return false;
    }
    int64_t v;
    if (option->isText ? value.trim().empty() : value.trim().getAsInteger(10, v)) {
      diagnostics.error("option '" + name.str() + "' of pass '" + id.str() + "' expects " +
                        (option->isText ? "words" : "an integer") + ", found '" +
                        value.trim().str() + "'");
      return false;
    }
    call.options.push_back({name.str(), option->isText ? value.trim().str() : std::to_string(v)});
  }
  return true;
}

} // namespace

bool parsePipeline(llvm::StringRef text, Pipeline &pipeline, Diagnostics &diagnostics) {
  pipeline.clear();
  text = text.trim();
  while (!text.empty()) {
    // A call ends at a comma outside braces.
    size_t end = 0, depth = 0;
    for (; end < text.size() && (depth || text[end] != ','); ++end) {
      depth += text[end] == '{';
      if (text[end] == '}' && depth-- == 0) {
        diagnostics.error("unbalanced '}' in pipeline '" + text.str() + "'");
        return false;
      }
    }
    llvm::StringRef call = text.take_front(end).trim();
    if (depth || call.empty() || (call.contains('{') && !call.endswith("}"))) {
      diagnostics.error("expected a pass in pipeline, found '" + call.str() + "'");
      return false;
    }
    pipeline.emplace_back();
    if (!parseCall(call, pipeline.back(), diagnostics))
      return false;
    if (end == text.size())
      break;
    text = text.drop_front(end + 1).ltrim();
    if (text.empty()) {
      diagnostics.error("expected a pass after the last comma of the pipeline");
      return false;
    }
  }
  return true;
}

std::string toString(const Pipeline &pipeline) {
  std::string s;
  for (const PassCall &call : pipeline) {
    if (!s.empty())
      s += ',';
    s += call.pass->id.str();
    const char *open = "{";
    for (auto &[name, value] : call.options) {
      s += open + name + "=" + value;
      open = ",";
    }
    if (!call.options.empty())
      s += '}';
  }
  return s;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// Hash of the printed module, literals and locations included.
std::string fingerprint(const Module &module) {
  std::string text, data;
  llvm::raw_string_ostream os(text);
  PrintOptions options;
  options.data = &data;
  print(module, os, options);
  os.flush();
  llvm::SHA1 sha;
  sha.update(text);
  sha.update(data);
  return sha.final().str();
}

} // namespace

bool PassManager::run(Module &module, const Pipeline &pipeline) {
  const unsigned first = context_.diagnostics.hasErrors();
  for (size_t i = 0; i < pipeline.size(); ++i) {
    const PassCall &call = pipeline[i];
    const llvm::StringRef id = call.pass->id;
    if (!context_.passEnabled(id))
      continue;
    const std::string before = options_.verifyEach ? fingerprint(module) : std::string();
    std::unique_ptr<Module> input = module.clone(); // literals are shared, so this is cheap

    context_.running_ = call.pass;
    context_.options_.clear();
    for (auto &[name, value] : call.options)
      context_.options_[name] = value;
    const auto start = std::chrono::steady_clock::now();
    bool changed = false;
    context_.runsOnSeveral_ = module.graphs.size() > 1;
    for (auto &graph : module.graphs)
      changed |= call.pass->run(*graph, context_);
    context_.made_.clear();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    context_.running_ = nullptr;
    runs_.push_back({id.str(), changed, time.count()});

    bool ok = first || !context_.diagnostics.hasErrors();
    if (ok && options_.verifyEach) {
      ok = verify(module, context_.diagnostics);
      if (!ok)
        context_.diagnostics.error("the module does not verify after pass '" + id.str() + "'");
      else if (!changed && fingerprint(module) != before) {
        context_.diagnostics.error("pass '" + id.str() +
                                   "' changed the module but reported no change");
        ok = false;
      }
    }
    if (options_.out && ((options_.printAfterChange && changed) ||
                         llvm::any_of(options_.printAfter, [&](const std::string &glob) {
                           return globMatches(currentId(glob), id);
                         }))) {
      *options_.out << "// after " << id << (changed ? "" : " (unchanged)") << '\n';
      print(module, *options_.out);
    }
    if (!ok) {
      reproducer_.module = std::move(input);
      reproducer_.pipeline = toString(Pipeline(pipeline.begin() + i, pipeline.end()));
      return false;
    }
  }
  return true;
}

void PassManager::printTimes(llvm::raw_ostream &os) const {
  double total = 0;
  for (const PassRun &r : runs_)
    total += r.seconds;
  os << "pass                         ms      %  changed\n";
  for (const PassRun &r : runs_)
    os << llvm::format("%-22s %8.2f  %5.1f  ", r.id.c_str(), r.seconds * 1e3,
                       total > 0 ? 100 * r.seconds / total : 0.0)
       << (r.changed ? "yes\n" : "no\n");
  os << llvm::format("total                  %8.2f\n", total * 1e3);
}

} // namespace tenon

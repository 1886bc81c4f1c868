// Implements amalgamation.
#include "codegen/emit/Amalgamate.h"

#include "codegen/emit/EmbeddedRuntime.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace tenon {
namespace {

class Amalgamator {
public:
  void file(const std::string &path) {
    if (!done_.insert(path).second)
      return;
    const std::string text = runtimeFile(path);
    std::string own;
    std::vector<std::string> conditions; // of the #if nest, include guard left out
    int guards = 0;
    std::string guard;
    llvm::StringRef rest = text;
    while (!rest.empty()) {
      auto [line, tail] = rest.split('\n');
      rest = tail;
      llvm::StringRef s = line.trim();
      if (s.startswith("#ifndef TENON_RUNTIME_")) {
        guard = s.drop_front(8).str();
        conditions.push_back("");
        ++guards;
        continue;
      }
      if (!guard.empty() && s == "#define " + guard)
        continue;
      if (s.startswith("#include \"")) {
        file(s.drop_front(10).split('"').first.str());
        continue;
      }
      if (s.startswith("#include <")) {
        include(s.str(), conditions);
        continue;
      }
      if (s.startswith("#if")) {
        conditions.push_back(s.str());
      } else if (s.startswith("#else")) {
        std::string &c = conditions.back();
        llvm::StringRef was = c;
        c = was.startswith("#ifdef ")    ? "#ifndef " + was.drop_front(7).str()
            : was.startswith("#ifndef ") ? "#ifdef " + was.drop_front(8).str()
                                         : "#if !(" + was.drop_front(4).str() + ")";
      } else if (s.startswith("#elif")) {
        conditions.back() = "#if" + s.drop_front(5).str();
      } else if (s.startswith("#endif")) {
        const bool ends = conditions.size() == 1 && guards > 0;
        conditions.pop_back();
        if (ends)
          continue;
      }
      own += line.str() + "\n";
    }
    // One blank line between files, none at their ends.
    result_.text += llvm::StringRef(own).trim('\n').str() + "\n\n";
  }

  Amalgamation take() {
    for (const Includes &i : includes_) {
      for (const std::string &c : i.conditions)
        result_.systemIncludes += c + "\n";
      for (const std::string &line : i.lines)
        result_.systemIncludes += line + "\n";
      for (size_t c = 0; c < i.conditions.size(); ++c)
        result_.systemIncludes += "#endif\n";
    }
    return std::move(result_);
  }

private:
  /// Lines under the same conditions, each once.
  struct Includes {
    std::vector<std::string> conditions, lines;
  };

  void include(const std::string &line, std::vector<std::string> conditions) {
    llvm::erase_if(conditions, [](const std::string &c) { return c.empty(); });
    auto at =
        llvm::find_if(includes_, [&](const Includes &i) { return i.conditions == conditions; });
    if (at == includes_.end())
      at = includes_.insert(at, {std::move(conditions), {}});
    if (!llvm::is_contained(at->lines, line))
      at->lines.push_back(line);
  }

  Amalgamation result_;
  std::set<std::string> done_;
  std::vector<Includes> includes_;
};

} // namespace

std::string runtimeFile(const std::string &path) {
  for (size_t i = 0; i < kEmbeddedRuntimeCount; ++i)
    if (path == kEmbeddedRuntime[i].path)
      return std::string(kEmbeddedRuntime[i].data, kEmbeddedRuntime[i].size);
  return "";
}

Amalgamation amalgamate(const std::set<std::string> &roots) {
  Amalgamator a;
  for (const std::string &r : roots)
    a.file(r);
  return a.take();
}

} // namespace tenon

// Defines amalgamation: the needed part of runtime/ as one text, so that the output stands alone.
#pragma once

#include <set>
#include <string>

namespace tenon {

struct Amalgamation {
  /// #include lines of the system headers, under the conditions they stand in; goes to the top.
  std::string systemIncludes;
  /// The files in dependency order, without their include lines and guards.
  std::string text;
};

/// Closure of `roots` (paths relative to runtime/) over their quoted includes.
Amalgamation amalgamate(const std::set<std::string> &roots);

/// Text of one runtime file; empty when there is none.
std::string runtimeFile(const std::string &path);

} // namespace tenon

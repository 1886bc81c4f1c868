// Defines what shells and `man` are told of a command line: walked from its own description.
#pragma once

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace tenon {

/// The script that completes commands, options and their words. `shell`: "bash", "zsh" or "fish".
std::string completionScript(CLI::App &app, const std::string &shell);

/// The manual page of section 1, for man. `version`: "tenon 0.1.0".
std::string manualPage(CLI::App &app, const std::string &version);

} // namespace tenon

// Defines how --help is laid out: options in groups, explanations wrapped in a column of their own;
// or as a reference page.
#pragma once

#include <memory>

#include <string>

namespace CLI {
class App;
class FormatterBase;
} // namespace CLI

namespace tenon {

std::shared_ptr<CLI::FormatterBase> helpText();

/// The same of a program and all its commands as one page of Markdown.
std::string helpMarkdown(const CLI::App &app);

} // namespace tenon

// Defines how --help is laid out: options in groups, explanations wrapped in a column of their own.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace tenon {

std::shared_ptr<CLI::FormatterBase> helpText();

} // namespace tenon

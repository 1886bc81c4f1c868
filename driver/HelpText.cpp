// Implements the layout of --help.
#include "driver/HelpText.h"

#include <CLI/CLI.hpp>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Unicode.h"

namespace tenon {
namespace {

constexpr size_t kIndent = 2, kColumn = 32, kWidth = 100;

size_t columns(llvm::StringRef text) {
  const int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : size_t(width);
}

/// `head`, then `text` from kColumn on, on a line of its own where the head reaches so far.
std::string entry(const std::string &head, llvm::StringRef text) {
  std::string out(kIndent, ' ');
  out += head;
  size_t at = kIndent + columns(head);
  auto indent = [&] {
    out.append(kColumn - at, ' ');
    at = kColumn;
  };
  auto newLine = [&] {
    out += '\n';
    at = 0;
    indent();
  };
  if (at + 2 > kColumn)
    newLine();
  else
    indent();
  while (!text.empty()) {
    auto [word, rest] = text.split(' ');
    if (at > kColumn && at + 1 + columns(word) > kWidth)
      newLine();
    if (at > kColumn) {
      out += ' ';
      ++at;
    }
    out += word;
    at += columns(word);
    text = rest;
  }
  return out + '\n';
}

/// "-o, --output FILE".
std::string optionHead(const CLI::Option *option, bool positional) {
  std::string head = option->get_name(positional, !positional);
  for (size_t at = 0; (at = head.find(',', at)) != std::string::npos; at += 2)
    head.insert(at + 1, " ");
  if (const size_t brace = head.find('{'); brace != std::string::npos) // a flag's own value
    head = head.substr(0, brace) + "[=" + option->get_type_name() + "]";
  else if (option->get_type_size() != 0 && !option->get_type_name().empty())
    head += ' ' + option->get_type_name();
  if (option->get_expected_max() == CLI::detail::expected_max_vector_size)
    head += " ...";
  return head;
}

std::string optionText(const CLI::Option *option, bool positional) {
  std::string text = option->get_description();
  if (!positional && option->get_required())
    text += " (required)";
  if (!option->get_default_str().empty())
    text += " (default: " + option->get_default_str() + ")";
  return text;
}

/// Text as a cell of a table.
std::string cell(llvm::StringRef text) {
  std::string out;
  for (char c : text) {
    if (llvm::StringRef("|*_<[\\").contains(c))
      out += '\\';
    out += c;
  }
  return out;
}

class Layout : public CLI::Formatter {
public:
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override {
    // The library puts one empty line too many before some headings.
    return CLI::detail::find_and_replace(Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
  }

  std::string make_usage(const CLI::App *app, std::string name) const override {
    if (!app->get_subcommands({}).empty())
      return "Usage: " + name + " COMMAND [OPTIONS]\n";
    return Formatter::make_usage(app, name);
  }

  std::string make_option(const CLI::Option *option, bool positional) const override {
    return entry(optionHead(option, positional), optionText(option, positional));
  }

  std::string make_subcommand(const CLI::App *command) const override {
    return entry(command->get_name(), command->get_description());
  }
};

void printCommand(const CLI::App &command, std::string &out) {
  out += "\n## " + command.get_parent()->get_name() + ' ' + command.get_name() + "\n\n" +
         command.get_description() + "\n";
  for (const std::string &group : command.get_groups()) {
    std::string rows;
    for (const CLI::Option *option : command.get_options())
      if (option->get_group() == group) {
        std::string head = optionHead(option, option->get_positional());
        for (size_t at = 0; (at = head.find('|', at)) != std::string::npos; at += 2)
          head.insert(at, "\\"); // would end the cell
        rows += "| `" + head + "` | " + cell(optionText(option, option->get_positional())) + " |\n";
      }
    if (!rows.empty())
      out += "\n| " + group + " | |\n|---|---|\n" + rows;
  }
}

} // namespace

std::string helpMarkdown(const CLI::App &app) {
  std::string out = "# The command line\n\n" + app.get_description() + "\n" + app.get_footer() +
                    "\n\n| command | does |\n|---|---|\n";
  const auto commands = app.get_subcommands([](const CLI::App *) { return true; });
  for (const CLI::App *command : commands)
    out += "| [`" + command->get_name() + "`](#" + app.get_name() + '-' + command->get_name() +
           ") | " + cell(command->get_description()) + " |\n";
  for (const CLI::App *command : commands)
    printCommand(*command, out);
  return out;
}

std::shared_ptr<CLI::FormatterBase> helpText() {
  auto layout = std::make_shared<Layout>();
  layout->label("Positionals", "Words");
  return layout;
}

} // namespace tenon

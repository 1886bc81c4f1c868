// Implements completion scripts and the manual page.
#include "driver/Completion.h"

#include <CLI/CLI.hpp>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

#include <vector>

namespace tenon {
namespace {

std::vector<CLI::App *> commandsOf(CLI::App &app) {
  return app.get_subcommands([](const CLI::App *) { return true; });
}

/// "--target" of "-t,--target"; the short name where there is no long one; empty: positional.
std::string nameOf(const CLI::Option &option) {
  if (!option.get_lnames().empty())
    return "--" + option.get_lnames().front();
  return option.get_snames().empty() ? "" : "-" + option.get_snames().front();
}

bool takesWord(const CLI::Option &option) {
  return option.get_type_size() != 0 && option.get_expected_max() != 0;
}

/// The words that the option may have, with spaces between; empty: any (CommandOption::oneOf).
std::string wordsOf(CLI::Option &option) {
  constexpr llvm::StringLiteral mark = "one of ";
  for (int i = 0;; ++i) {
    try {
      const std::string name = option.get_validator(i)->get_name();
      if (llvm::StringRef(name).startswith(mark))
        return name.substr(mark.size());
    } catch (const CLI::OptionNotFound &) { // that was the last one
      return "";
    }
  }
}

/// With a backslash before each of `special`, and on one line.
std::string escaped(llvm::StringRef text, llvm::StringRef special) {
  std::string out;
  for (char c : text) {
    if (special.contains(c))
      out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// As a word between single quotes.
std::string shellQuoted(llvm::StringRef text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c == '\n' ? ' ' : c);
  return out + "'";
}

std::string bashScript(CLI::App &app) {
  std::string commands, words, options;
  for (CLI::App *command : commandsOf(app)) {
    commands += (commands.empty() ? "" : " ") + command->get_name();
    std::string names;
    for (CLI::Option *option : command->get_options()) {
      const std::string name = nameOf(*option), values = wordsOf(*option);
      if (name.empty())
        continue;
      names += (names.empty() ? "" : " ") + name;
      if (!values.empty())
        words += "    '" + command->get_name() + " " + name + "') COMPREPLY=($(compgen -W '" +
                 values + "' -- \"$current\")); return ;;\n";
    }
    options += "    " + command->get_name() + ") COMPREPLY=($(compgen -W '" + names +
               "' -- \"$current\")) ;;\n";
  }
  return "# Completes the words of tenon in bash: written by `tenon completion bash`.\n"
         "_tenon() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         commands +
         " --help --version' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  # bash takes the = of --option=word for a word of its own.\n"
         "  if [ \"$current\" = = ]; then\n"
         "    current=\n"
         "  elif [ \"$before\" = = ]; then\n"
         "    before=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  fi\n"
         "  case \"${COMP_WORDS[1]} $before\" in\n" +
         words +
         "  esac\n"
         "  if [ \"${COMP_WORDS[1]}\" = help ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         commands +
         "' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case $current in -*) ;; *) return ;; esac\n"
         "  case ${COMP_WORDS[1]} in\n" +
         options +
         "  esac\n"
         "}\n"
         "complete -o default -o bashdefault -F _tenon tenon\n";
}

std::string zshScript(CLI::App &app) {
  std::string commands, cases;
  for (CLI::App *command : commandsOf(app)) {
    commands += "    " +
                shellQuoted(command->get_name() + ":" + escaped(command->get_description(), ":")) +
                "\n";
    cases += "    " + command->get_name() + ")\n      _arguments \\\n";
    for (CLI::Option *option : command->get_options()) {
      const std::string name = nameOf(*option), values = wordsOf(*option);
      if (name.empty())
        continue;
      std::string text = name + (takesWord(*option) ? "=" : "") + "[" +
                         escaped(option->get_description(), "[]:\\") + "]";
      if (takesWord(*option))
        text += ":" + escaped(option->get_type_name(), "[]:\\") + ":" +
                (values.empty() ? "_files" : "(" + values + ")");
      cases += "        " + shellQuoted(text) + " \\\n";
    }
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return "#compdef tenon\n"
         "# Completes the words of tenon in zsh: written by `tenon completion zsh`.\n"
         "_tenon() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         commands +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local chosen=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $chosen in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _tenon ]; then\n"
         "  _tenon \"$@\"\n"
         "else\n"
         "  compdef _tenon tenon\n"
         "fi\n";
}

std::string fishScript(CLI::App &app) {
  std::string out = "# Completes the words of tenon in fish: written by `tenon completion fish`.\n";
  for (CLI::App *command : commandsOf(app)) {
    const std::string name = command->get_name();
    out += "complete -c tenon -n __fish_use_subcommand -a " + name + " -d " +
           shellQuoted(command->get_description()) + "\n";
    for (CLI::Option *option : command->get_options()) {
      if (nameOf(*option).empty())
        continue;
      out += "complete -c tenon -n '__fish_seen_subcommand_from " + name + "'";
      for (const std::string &letter : option->get_snames())
        out += " -s " + letter;
      for (const std::string &word : option->get_lnames())
        out += " -l " + word;
      const std::string values = wordsOf(*option);
      out += std::string(takesWord(*option) ? " -r" : "") +
             (values.empty() ? "" : " -f -a '" + values + "'") + " -d " +
             shellQuoted(option->get_description()) + "\n";
    }
  }
  return out;
}

/// A character of UTF-8 beyond ASCII as troff names it, which reads bytes unless it is told
/// otherwise; takes it from `text`.
std::string glyph(llvm::StringRef &text) {
  const unsigned char first = static_cast<unsigned char>(text[0]);
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  unsigned code = first & (0xffu >> (size + 1));
  for (char c : text.take_front(size).drop_front())
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  text = text.drop_front(size);
  return llvm::formatv("\\[u{0:X-4}]", code).str();
}

/// Text of a manual page: no line begins with what troff takes for a request.
std::string troff(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    const char c = text[0];
    if (static_cast<unsigned char>(c) >= 0xc0) {
      out += glyph(text);
      continue;
    }
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    text = text.drop_front();
  }
  for (size_t at = 0; at < out.size(); at = out.find('\n', at) + 1) {
    if (out[at] == '.' || out[at] == '\'')
      out.insert(at, "\\&");
    if (out.find('\n', at) == std::string::npos)
      break;
  }
  return out;
}

} // namespace

std::string completionScript(CLI::App &app, const std::string &shell) {
  return shell == "bash" ? bashScript(app) : shell == "zsh" ? zshScript(app) : fishScript(app);
}

std::string manualPage(CLI::App &app, const std::string &version) {
  std::string out = ".TH TENON 1 \"\" \"" + version + "\" \"User Commands\"\n.SH NAME\ntenon \\- " +
                    troff(app.get_description()) +
                    "\n.SH SYNOPSIS\n.B tenon\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n" +
                    troff(llvm::StringRef(app.get_footer()).ltrim('\n')) + "\n.SH COMMANDS\n";
  for (CLI::App *command : commandsOf(app)) {
    out += ".SS tenon " + troff(command->get_name()) + "\n" + troff(command->get_description()) +
           ".\n";
    for (const CLI::Option *option : command->get_options()) {
      std::vector<std::string> names;
      for (const std::string &letter : option->get_snames())
        names.push_back("-" + letter);
      for (const std::string &word : option->get_lnames())
        names.push_back("--" + word);
      if (names.empty())
        names.push_back(option->get_name(true));
      out += ".TP\n\\fB" + troff(llvm::join(names, ", ")) + "\\fR";
      if (takesWord(*option) && !option->get_type_name().empty())
        out += " \\fI" + troff(option->get_type_name()) + "\\fR";
      out += "\n" + troff(option->get_description());
      if (!option->get_default_str().empty())
        out += " (default: " + troff(option->get_default_str()) + ")";
      out += "\n";
    }
  }
  return out;
}

} // namespace tenon

#include "varied_command.hpp"

#include "usage_error.hpp"

#include <algorithm>

namespace maxbatch::cli {
namespace {

constexpr char const* kPlace = "{}";

bool has_place(std::string const& word) { return word.find(kPlace) != std::string::npos; }

std::string replace_places(std::string text, std::string const& number) {
  for (auto at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + number.size())) {
    text.replace(at, 2, number);
  }
  return text;
}

bool needs_quotes(std::string const& word) {
  return word.empty() || word.find_first_of(" \t\n\"'\\$`*?[]();&|<>#~!") != std::string::npos;
}

std::string quoted(std::string const& word) {
  if (!needs_quotes(word)) { return word; }
  std::string text = "'";
  for (auto const letter : word) { text += letter == '\'' ? std::string("'\\''") : std::string(1, letter); }
  return text + "'";
}

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (auto const& word : words) { text += (text.empty() ? "" : " ") + quoted(word); }
  return text;
}

}  // namespace

VariedCommand::VariedCommand(std::vector<std::string> const& command, std::string const& argument)
    : command_(command), is_varied_(command.size(), false), name_(argument) {
  if (argument.empty()) {
    for (std::size_t i = 1; i < command.size(); ++i) {
      is_varied_[i] = has_place(command[i]);
      // "--batch-size {}" and "--batch-size={}" have a name.
      if (!is_varied_[i] || !name_.empty()) { continue; }
      auto const equals = command[i].find("={}");
      if (equals != std::string::npos && equals > 0) {
        name_ = command[i].substr(0, equals);
      } else if (command[i] == kPlace && command[i - 1].rfind('-', 0) == 0) {
        name_ = command[i - 1];
      }
    }
    if (name_.empty()) { name_ = kPlace; }
    if (std::none_of(is_varied_.begin(), is_varied_.end(), [](bool varied) { return varied; })) {
      throw UsageError(
          "nothing in the command varies: write {} where the number goes, or name its argument with --vary: " +
          std::string("maxbatch find --vary --batch-size ... -- ") + joined(command));
    }
    return;
  }
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == argument && i + 1 < command.size()) {
      command_[i + 1] = kPlace;
      is_varied_[++i] = true;
    } else if (command[i].rfind(argument + '=', 0) == 0) {
      command_[i] = argument + "={}";
      is_varied_[i] = true;
    }
  }
  if (std::none_of(is_varied_.begin(), is_varied_.end(), [](bool varied) { return varied; })) {
    throw UsageError("--vary " + argument + ": the command has no such argument with a value; add it, as in: " +
                     joined(command) + ' ' + argument + " {}");
  }
}

std::vector<std::string> VariedCommand::with(std::int64_t number) const {
  auto words = command_;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_varied_[i]) { words[i] = replace_places(words[i], std::to_string(number)); }
  }
  return words;
}

std::string VariedCommand::text() const { return joined(command_); }

}  // namespace maxbatch::cli

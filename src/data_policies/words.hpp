#pragma once

#include <string_view>

namespace maxbatch::dry {

inline std::string_view trimmed(std::string_view text) {
  auto const first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) { return {}; }
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Whether `text` fits `pattern`, in which * stands for any characters, none included.
inline bool fits_pattern(std::string_view pattern, std::string_view text) {
  std::size_t at_pattern = 0;
  std::size_t at_text = 0;
  auto star = std::string_view::npos;
  std::size_t after_star = 0;
  while (at_text < text.size()) {
    if (at_pattern < pattern.size() && pattern[at_pattern] == '*') {
      star = at_pattern++;
      after_star = at_text;
    } else if (at_pattern < pattern.size() && pattern[at_pattern] == text[at_text]) {
      ++at_pattern;
      ++at_text;
    } else if (star != std::string_view::npos) {
      at_pattern = star + 1;
      at_text = ++after_star;
    } else {
      return false;
    }
  }
  while (at_pattern < pattern.size() && pattern[at_pattern] == '*') { ++at_pattern; }
  return at_pattern == pattern.size();
}

}  // namespace maxbatch::dry

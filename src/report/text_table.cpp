#include "text_table.hpp"

#include <algorithm>
#include <sstream>

namespace maxbatch::report {

std::string TextTable::to_string() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto width = columns_[i].heading.size();
    for (auto const& row : rows_) {
      if (i < row.size()) { width = std::max(width, row[i].size()); }
    }
    widths.push_back(width);
  }
  std::string text;
  auto const add_line = [&](auto const& cell) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::string const content = cell(i);
      std::string const padding(widths[i] - content.size(), ' ');
      if (i > 0) { line += "  "; }
      line += columns_[i].align == Align::right ? padding + content : content + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](std::size_t i) { return columns_[i].heading; });
  for (auto const& row : rows_) {
    add_line([&](std::size_t i) { return i < row.size() ? row[i] : std::string(); });
  }
  return text;
}

std::string wrap(std::string const& text, std::size_t width, std::string const& indent) {
  std::istringstream words(text);
  std::string wrapped;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line != indent && line.size() + 1 + word.size() > width) {
      wrapped += line + '\n';
      line = indent;
    }
    if (!line.empty() && line != indent) { line += ' '; }
    line += word;
  }
  return wrapped + line + '\n';
}

}  // namespace maxbatch::report

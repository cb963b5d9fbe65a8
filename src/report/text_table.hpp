#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace maxbatch::report {

/// Columns of plain text, two spaces apart; a column is right-aligned when its heading says so.
class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell per column; missing ones are empty.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines end in a newline and not in spaces.
  std::string to_string() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Breaks `text` at spaces so that no line is wider than `width`, where words allow it. Lines after the first begin with
/// `indent`. Ends in a newline.
std::string wrap(std::string const& text, std::size_t width, std::string const& indent = "");

}  // namespace maxbatch::report

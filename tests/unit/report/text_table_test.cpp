#include "report/text_table.hpp"

#include <gtest/gtest.h>

namespace maxbatch::test {
namespace {

using report::TextTable;
using report::wrap;

TEST(TextTable, AlignsColumnsAndEndsLinesWithoutSpaces) {
  TextTable table({{"name", TextTable::Align::left}, {"n"}, {"why", TextTable::Align::left}});
  table.add_row({"a", "1", ""});
  table.add_row({"longer", "1234", "because"});
  table.add_row({"short of cells"});
  EXPECT_EQ(table.to_string(),
            "name               n  why\n"
            "a                  1\n"
            "longer          1234  because\n"
            "short of cells\n");
}

TEST(Wrap, BreaksAtSpacesAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree\n");
  EXPECT_EQ(wrap("one two three", 8, "  "), "one two\n  three\n");
  EXPECT_EQ(wrap("incompressible a", 5), "incompressible\na\n");
  EXPECT_EQ(wrap("", 5), "\n");
}

}  // namespace
}  // namespace maxbatch::test

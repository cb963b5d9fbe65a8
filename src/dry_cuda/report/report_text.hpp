#pragma once

#include "report_page.hpp"

#include <string>

namespace maxbatch::dry {

/// In words that follow a count or an amount: "by a table from a card".
char const* name_of(MemorySource source);

/// The report of one process for people, several lines, the last one ended.
std::string report_text(ProcessRecord const& record);

}  // namespace maxbatch::dry

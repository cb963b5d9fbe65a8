#pragma once

#include "report_page.hpp"

#include <string>

namespace maxbatch::dry {

/// The report of one process for people, several lines, the last one ended.
std::string report_text(ProcessRecord const& record);

}  // namespace maxbatch::dry

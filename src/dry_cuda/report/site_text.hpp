#pragma once

#include "site_record.hpp"

#include <string>

namespace maxbatch::dry {

/// What the report says to people about data: a line per place, the most asked first, each ended. Empty when nobody asked.
std::string site_text(SiteRecords const& records);

}  // namespace maxbatch::dry

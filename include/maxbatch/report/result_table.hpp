#pragma once

#include <maxbatch/report/report_subject.hpp>

#include <string>
#include <vector>

namespace maxbatch {

/// For people: what fits, what stops the next size, and the trials that say so. Plain ASCII, at most 100 columns wide
/// but for words that are longer.
std::string to_text(FinderResult const& result, ReportSubject const& subject);

/// One line per entry, under `heading`.
std::string to_table(std::vector<ReportEntry> const& entries, std::string const& heading);

}  // namespace maxbatch

#pragma once

#include <maxbatch/report/report_subject.hpp>

#include <string>
#include <vector>

namespace maxbatch {

/// A result as one JSON object. Keys never go away from one version to the next; all are there in every result, null where
/// there is nothing to say. Amounts of memory end in `_bytes`; README.md lists the keys.
std::string to_json(FinderResult const& result, ReportSubject const& subject);

/// {"note": …, "results": [ … ], "version": …}, each result as above; of a failed one only its subject, device and "error".
std::string to_json(std::vector<ReportEntry> const& entries, std::string const& note);

}  // namespace maxbatch

#pragma once

#include "dry_cuda/report/site_record.hpp"

#include <nlohmann/json.hpp>

namespace maxbatch::cli {

/// What depended on data, and what it was told: `policies` and an array `sites`, in the order in which they were met.
nlohmann::ordered_json data_json(dry::SiteRecords const& records);

}  // namespace maxbatch::cli

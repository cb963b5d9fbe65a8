#include "dry_run_sites.hpp"

#include <algorithm>

namespace maxbatch::cli {

nlohmann::ordered_json data_json(dry::SiteRecords const& records) {
  auto sites = nlohmann::ordered_json::array();
  for (int i = 0; i < std::min<int>(records.sites, dry::SiteRecords::kSites); ++i) {
    auto const& site = records.site.at(static_cast<std::size_t>(i));
    nlohmann::ordered_json json = {{"operation", site.operation.data()},
                                   {"place", site.place.data()},
                                   {"calls", site.calls},
                                   {"decided_by", site.answer.data()}};
    if (site.is_count) {
      json["counted"] = site.counted;
      json["out_of"] = site.out_of;
    } else {
      json["latest_value"] = site.latest_value;
    }
    sites.push_back(std::move(json));
  }
  return {{"policies", records.policies.data()}, {"sites", sites}, {"sites_left_out", records.left_out}};
}

}  // namespace maxbatch::cli

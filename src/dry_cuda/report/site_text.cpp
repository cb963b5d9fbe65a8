#include "site_text.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace maxbatch::dry {
namespace {

constexpr std::size_t kLines = 12;

std::string line_of(SiteRecord const& site) {
  std::string text = std::string("    ") + site.operation.data();
  if (site.place[0] != '\0') { text += std::string(" at ") + site.place.data(); }
  text += ": " + std::to_string(site.calls) + (site.calls == 1 ? " time, " : " times, ");
  if (site.is_count) {
    text += std::to_string(site.counted) + " of " + std::to_string(site.out_of);
  } else {
    std::array<char, 40> value{};
    std::snprintf(value.data(), value.size(), "%.6g", site.latest_value);
    text += std::string("last ") + value.data();
  }
  return text + " (" + site.answer.data() + ")\n";
}

}  // namespace

std::string site_text(SiteRecords const& records) {
  std::string text;
  if (records.policies[0] != '\0') { text = std::string("  data policies: ") + records.policies.data() + "\n"; }
  std::vector<SiteRecord const*> sites;
  for (int i = 0; i < std::min<int>(records.sites, SiteRecords::kSites); ++i) {
    sites.push_back(&records.site.at(static_cast<std::size_t>(i)));
  }
  if (sites.empty()) { return text; }
  std::stable_sort(sites.begin(), sites.end(), [](auto const* left, auto const* right) {
    return left->is_count != right->is_count ? left->is_count : left->out_of > right->out_of;
  });
  text += "  what depended on data, and what it was told:\n";
  for (std::size_t i = 0; i < std::min(kLines, sites.size()); ++i) { text += line_of(*sites[i]); }
  auto const more = static_cast<std::int64_t>(sites.size() - std::min(kLines, sites.size())) + records.left_out;
  if (more > 0) { text += "    and " + std::to_string(more) + " more places, which the report as JSON has\n"; }
  return text;
}

}  // namespace maxbatch::dry

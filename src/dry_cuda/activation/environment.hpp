#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch::dry {

/// What the launcher, or whoever starts the process, says about the dry world. Read once, at first use.
struct Environment {
  std::string card_name;                     ///< MAXBATCH_CARD: how the user called it
  std::string card_profile_path;             ///< MAXBATCH_CARD_PROFILE
  std::optional<std::int64_t> budget_bytes;  ///< MAXBATCH_DRY_BUDGET: what the program may take from the driver
  std::uint64_t seed = 0;                    ///< MAXBATCH_DRY_SEED; 0: addresses as in an empty host
  int devices = 1;                           ///< MAXBATCH_DRY_DEVICES: cards of this kind
  std::string report_page_path;              ///< MAXBATCH_DRY_REPORT_PAGE: see report/report_page.hpp
  bool report_at_exit = false;  ///< MAXBATCH_DRY_REPORT: on standard error, where no launcher reads the page
};

/// Each has its own range of addresses: memory/card.hpp.
constexpr int kMostDevices = 8;

Environment const& environment();

/// Without one there is no device.
inline bool names_a_card(Environment const& environment) {
  return !environment.card_name.empty() || !environment.card_profile_path.empty();
}

/// Says `sentence` on standard error and ends the process: for what leaves no dry card to run on.
[[noreturn]] void end_with_sentence(std::string const& sentence);

}  // namespace maxbatch::dry

#include "environment.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace maxbatch::dry {
namespace {

std::string text_of(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::optional<std::int64_t> count_of(char const* name) {
  auto const text = text_of(name);
  if (text.empty()) { return std::nullopt; }
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    end_with_sentence(std::string(name) + " is '" + text + "', which is not a count");
  }
  return value;
}

Environment read_environment() {
  Environment read;
  read.card_name = text_of("MAXBATCH_CARD");
  read.card_profile_path = text_of("MAXBATCH_CARD_PROFILE");
  read.budget_bytes = count_of("MAXBATCH_DRY_BUDGET");
  read.seed = static_cast<std::uint64_t>(count_of("MAXBATCH_DRY_SEED").value_or(0));
  auto const devices = count_of("MAXBATCH_DRY_DEVICES").value_or(1);
  if (devices < 1 || devices > kMostDevices) {
    end_with_sentence("MAXBATCH_DRY_DEVICES is " + std::to_string(devices) + "; 1 to " + std::to_string(kMostDevices) +
                      " cards can be dry");
  }
  read.devices = static_cast<int>(devices);
  read.report_page_path = text_of("MAXBATCH_DRY_REPORT_PAGE");
  read.report_at_exit = !text_of("MAXBATCH_DRY_REPORT").empty();
  return read;
}

}  // namespace

Environment const& environment() {
  static Environment const read = read_environment();
  return read;
}

void end_with_sentence(std::string const& sentence) {
  auto const text = "maxbatch dry-run: " + sentence + ".\n";
  // The process is not ours: its buffered output and its exit handlers are left alone.
  [[maybe_unused]] auto const written = write(STDERR_FILENO, text.data(), text.size());
  _exit(2);
}

}  // namespace maxbatch::dry

/// By its presence programs tell that a card is a dry one: `dlsym(RTLD_DEFAULT, "maxbatch_dry_card_mark")`.
extern "C" __attribute__((visibility("default"))) void maxbatch_dry_card_mark() {}

#include "card_profile.hpp"

#include "dry_cuda/activation/environment.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace maxbatch::dry {
namespace {

std::string_view trimmed(std::string_view text) {
  auto const first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) { return {}; }
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <typename Integer>
void read_number(std::string_view text, Integer& number) {
  Integer value = 0;
  auto const* const end = text.data() + text.size();
  auto const [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value < 0) { throw std::runtime_error("not a count"); }
  number = value;
}

using Setter = std::function<void(CardProfile&, std::string_view)>;

template <typename Integer>
Setter number(Integer CardProfile::*field) {
  return [field](CardProfile& card, std::string_view text) { read_number(text, card.*field); };
}

std::map<std::string_view, Setter> const& setters() {
  static std::map<std::string_view, Setter> const all = {
      {"name", [](CardProfile& card, std::string_view text) { card.name = text; }},
      {"ecc",
       [](CardProfile& card, std::string_view text) {
         int value = 0;
         read_number(text, value);
         card.ecc = value != 0;
       }},
      {"major", number(&CardProfile::major)},
      {"minor", number(&CardProfile::minor)},
      {"multiprocessors", number(&CardProfile::multiprocessors)},
      {"threads_per_multiprocessor", number(&CardProfile::threads_per_multiprocessor)},
      {"blocks_per_multiprocessor", number(&CardProfile::blocks_per_multiprocessor)},
      {"registers_per_multiprocessor", number(&CardProfile::registers_per_multiprocessor)},
      {"shared_bytes_per_multiprocessor", number(&CardProfile::shared_bytes_per_multiprocessor)},
      {"shared_bytes_per_block_optin", number(&CardProfile::shared_bytes_per_block_optin)},
      {"l2_bytes", number(&CardProfile::l2_bytes)},
      {"memory_bus_bits", number(&CardProfile::memory_bus_bits)},
      {"clock_khz", number(&CardProfile::clock_khz)},
      {"memory_clock_khz", number(&CardProfile::memory_clock_khz)},
      {"total_bytes", number(&CardProfile::total_bytes)},
      {"context_bytes", number(&CardProfile::context_bytes)},
      {"local_memory_bytes", number(&CardProfile::local_memory_bytes)},
      {"grown_local_memory_bytes", number(&CardProfile::grown_local_memory_bytes)},
      {"cublas_handle_bytes", number(&CardProfile::cublas_handle_bytes)},
  };
  return all;
}

/// The H200's local memory, before and after it grows, for its 132 multiprocessors of 2048 threads.
constexpr std::int64_t kMeasuredLocalMemoryBytes = std::int64_t{414} << 20;
constexpr std::int64_t kMeasuredGrownLocalMemoryBytes = std::int64_t{504} << 20;
constexpr std::int64_t kMeasuredThreads = std::int64_t{132} * 2048;

std::int64_t scaled_to(CardProfile const& card, std::int64_t measured_bytes) {
  std::int64_t const granule = std::int64_t{2} << 20;
  auto const threads = std::int64_t{card.multiprocessors} * card.threads_per_multiprocessor;
  return (measured_bytes * threads / kMeasuredThreads + granule - 1) / granule * granule;
}

void fill_in(CardProfile& card) {
  if (card.local_memory_bytes == 0) { card.local_memory_bytes = scaled_to(card, kMeasuredLocalMemoryBytes); }
  if (card.grown_local_memory_bytes == 0) {
    card.grown_local_memory_bytes = scaled_to(card, kMeasuredGrownLocalMemoryBytes);
  }
}

}  // namespace

namespace {

CardProfile read_lines(std::istream& lines, std::string const& path) {
  CardProfile card;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    auto const text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) { continue; }
    auto const where = path + ", line " + std::to_string(number) + ": '" + std::string(text) + "'";
    auto const equals = text.find('=');
    if (equals == std::string_view::npos) { throw std::runtime_error(where + " is not 'key = value'"); }
    auto const setter = setters().find(trimmed(text.substr(0, equals)));
    if (setter == setters().end()) { throw std::runtime_error(where + " names nothing that a card has"); }
    try {
      setter->second(card, trimmed(text.substr(equals + 1)));
    } catch (std::runtime_error const& error) { throw std::runtime_error(where + ": " + error.what()); }
  }
  fill_in(card);
  return card;
}

}  // namespace

CardProfile read_card_profile(std::string const& path) {
  std::ifstream file(path);
  if (!file) { throw std::runtime_error("the card profile " + path + " cannot be read"); }
  return read_lines(file, path);
}

CardProfile catalogued_card_profile(std::string const& name) {
  std::istringstream text(card_profile_text(CardCatalogue::built_in().find(name)));
  return read_lines(text, name);
}

CardProfile const& card_profile() {
  static CardProfile const card = [] {
    auto const& path = environment().card_profile_path;
    try {
      return path.empty() ? catalogued_card_profile(environment().card_name) : read_card_profile(path);
    } catch (std::exception const& error) { end_with_sentence(error.what()); }
  }();
  return card;
}

}  // namespace maxbatch::dry

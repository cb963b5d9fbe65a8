#include "card_profile.hpp"

#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

namespace maxbatch::dry {
namespace {

std::string_view trimmed(std::string_view text) {
  auto const first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) { return {}; }
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <typename Integer>
Integer number_in(std::string_view text) {
  Integer value = 0;
  auto const* const end = text.data() + text.size();
  auto const [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value < 0) { throw std::runtime_error("not a count"); }
  return value;
}

/// A line of a profile: its key, and what of a card it holds.
struct Field {
  std::string_view key;
  std::variant<std::string CardProfile::*, bool CardProfile::*, int CardProfile::*, std::int64_t CardProfile::*> place;
};

std::vector<Field> const& fields() {
  static std::vector<Field> const all = {
      {"name", &CardProfile::name},
      {"major", &CardProfile::major},
      {"minor", &CardProfile::minor},
      {"multiprocessors", &CardProfile::multiprocessors},
      {"threads_per_multiprocessor", &CardProfile::threads_per_multiprocessor},
      {"blocks_per_multiprocessor", &CardProfile::blocks_per_multiprocessor},
      {"registers_per_multiprocessor", &CardProfile::registers_per_multiprocessor},
      {"shared_bytes_per_multiprocessor", &CardProfile::shared_bytes_per_multiprocessor},
      {"shared_bytes_per_block_optin", &CardProfile::shared_bytes_per_block_optin},
      {"l2_bytes", &CardProfile::l2_bytes},
      {"memory_bus_bits", &CardProfile::memory_bus_bits},
      {"clock_khz", &CardProfile::clock_khz},
      {"memory_clock_khz", &CardProfile::memory_clock_khz},
      {"ecc", &CardProfile::ecc},
      {"total_bytes", &CardProfile::total_bytes},
      {"context_bytes", &CardProfile::context_bytes},
      {"local_memory_bytes", &CardProfile::local_memory_bytes},
      {"grown_local_memory_bytes", &CardProfile::grown_local_memory_bytes},
      {"cublas_handle_bytes", &CardProfile::cublas_handle_bytes},
      {"nccl_modules_bytes", &CardProfile::nccl_modules_bytes},
      {"nccl_communicator_bytes", &CardProfile::nccl_communicator_bytes},
  };
  return all;
}

void set(CardProfile& card, std::string CardProfile::*field, std::string_view text) { card.*field = text; }
void set(CardProfile& card, bool CardProfile::*field, std::string_view text) {
  card.*field = number_in<int>(text) != 0;
}
template <typename Integer>
void set(CardProfile& card, Integer CardProfile::*field, std::string_view text) {
  card.*field = number_in<Integer>(text);
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
  if (card.local_memory_bytes == 0) { card.local_memory_bytes = scaled_local_memory_bytes(card); }
  if (card.grown_local_memory_bytes == 0) {
    card.grown_local_memory_bytes = scaled_to(card, kMeasuredGrownLocalMemoryBytes);
  }
}

}  // namespace

std::int64_t scaled_local_memory_bytes(CardProfile const& card) { return scaled_to(card, kMeasuredLocalMemoryBytes); }

CardProfile read_card_profile(std::istream& lines, std::string const& called) {
  CardProfile card;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    auto const text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) { continue; }
    auto const where = called + ", line " + std::to_string(number) + ": '" + std::string(text) + "'";
    auto const equals = text.find('=');
    if (equals == std::string_view::npos) { throw std::runtime_error(where + " is not 'key = value'"); }
    auto const key = trimmed(text.substr(0, equals));
    Field const* field = nullptr;
    for (auto const& known : fields()) { field = known.key == key ? &known : field; }
    if (field == nullptr) { throw std::runtime_error(where + " names nothing that a card has"); }
    try {
      std::visit([&](auto place) { set(card, place, trimmed(text.substr(equals + 1))); }, field->place);
    } catch (std::runtime_error const& error) { throw std::runtime_error(where + ": " + error.what()); }
  }
  fill_in(card);
  return card;
}

CardProfile read_card_profile(std::string const& path) {
  std::ifstream file(path);
  if (!file) { throw std::runtime_error("the card profile " + path + " cannot be read"); }
  return read_card_profile(file, path);
}

std::string card_profile_text(CardProfile const& card) {
  std::ostringstream text;
  for (auto const& field : fields()) {
    text << field.key << " = ";
    std::visit([&](auto place) { text << card.*place; }, field.place);
    text << '\n';
  }
  return text.str();
}

}  // namespace maxbatch::dry

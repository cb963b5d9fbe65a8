#pragma once

#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/impl/simulation/card_rows.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Letters in lower case and digits, nothing else.
inline std::string squeezed(std::string_view text) {
  std::string letters;
  for (auto const c : text) {
    if (c >= 'A' && c <= 'Z') {
      letters += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      letters += c;
    }
  }
  return letters;
}

/// What names are compared by: "NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti" and "RTX 2080Ti" are the same.
inline std::string comparable(std::string_view name) {
  auto text = squeezed(name);
  for (std::string_view const maker : {"nvidia", "geforce", "tesla"}) {
    if (text.size() > maker.size() && text.compare(0, maker.size(), maker) == 0) { text.erase(0, maker.size()); }
  }
  return text;
}

inline std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

inline bool is_called(Card const& card, std::string const& comparable_name) {
  if (comparable(card.name) == comparable_name || comparable(card.device_name) == comparable_name) { return true; }
  auto const aliases = words_of(card.aliases);
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](std::string const& alias) { return comparable(alias) == comparable_name; });
}

inline CardArchitecture architecture_of(ComputeCapability capability) {
  return *std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                       [&](CardArchitecture const& known) { return known.capability == capability; });
}

inline Bytes local_memory_for(Bytes of_h200, std::int64_t threads) {
  auto const granule = std::int64_t{2} << 20;
  return Bytes{(of_h200.count * threads / kLocalMemoryThreads + granule - 1) / granule * granule};
}

inline Card card_of(CardRow const& row) {
  Card card;
  card.name = row.name;
  card.aliases = row.aliases;
  card.device_name = row.device_name;
  card.architecture = architecture_of(row.capability);
  card.multiprocessors = row.multiprocessors;
  card.l2_cache = kib(row.l2_kib);
  card.memory_bus_bits = row.bus_bits;
  card.clock_khz = row.clock_mhz * 1000;
  card.memory_clock_khz = row.memory_clock_mhz * 1000;
  card.ecc = row.ecc;
  card.hardware_source = row.hardware_source;
  card.marketed_memory = Bytes{std::int64_t{row.marketed_gib} << 30};
  card.total_memory = Bytes{row.total_bytes};
  card.total_memory_source = row.total_source;
  auto const threads = std::int64_t{row.multiprocessors} * card.architecture.max_threads_per_multiprocessor;
  card.context.fixed = kContextFixed;
  card.context.local_memory = local_memory_for(kLocalMemory, threads);
  card.context.grown_local_memory = local_memory_for(kGrownLocalMemory, threads) + kContextGrownFixed;
  card.context.source = row.name == "h200" ? kContextMeasured : kContextEstimated;
  return card;
}

inline std::string list_of(std::vector<Card const*> const& cards) {
  std::string text;
  for (auto const* card : cards) { text += (text.empty() ? "" : ", ") + std::string(card->name); }
  return text;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view kernels_build() { return detail::kKernelsBuild; }

MAXBATCH_INLINE std::vector<ComputeCapability> kernels_in_build() {
  return {std::begin(detail::kKernelsInBuild), std::end(detail::kKernelsInBuild)};
}

MAXBATCH_INLINE std::optional<ComputeCapability> kernels_for(ComputeCapability card) {
  std::optional<ComputeCapability> newest;
  for (auto const& known : detail::kKernelsInBuild) {
    if (known.major == card.major && known.minor <= card.minor) { newest = known; }
  }
  return newest;
}

MAXBATCH_INLINE CardCatalogue::CardCatalogue() {
  for (auto const& row : detail::kCardRows) { cards_.push_back(detail::card_of(row)); }
}

MAXBATCH_INLINE CardCatalogue const& CardCatalogue::built_in() {
  static CardCatalogue const catalogue;
  return catalogue;
}

MAXBATCH_INLINE Card const& CardCatalogue::find(std::string_view name) const {
  auto const wanted = detail::comparable(name);
  std::vector<Card const*> called;
  std::vector<Card const*> beginning;  // "a100" of "a100-pcie-40gb"
  for (auto const& card : cards_) {
    if (detail::is_called(card, wanted)) { called.push_back(&card); }
    if (!wanted.empty() && detail::comparable(card.name).compare(0, wanted.size(), wanted) == 0) {
      beginning.push_back(&card);
    }
  }
  if (called.size() == 1) { return *called.front(); }
  auto const quoted = "'" + std::string(name) + "'";
  if (called.size() > 1) { throw UnknownCard(quoted + " is more than one card: " + detail::list_of(called)); }
  auto text = "no card is called " + quoted;
  if (!beginning.empty()) {
    text += "; there is " + detail::list_of(beginning);
  } else if (auto const near = nearest(name)) {
    text += "; did you mean '" + *near + "'?";
  } else {
    text += "; `maxbatch cards` lists those that are known";
  }
  throw UnknownCard(text);
}

MAXBATCH_INLINE std::vector<Card const*> CardCatalogue::search(std::string_view text) const {
  std::vector<Card const*> found;
  auto const words = detail::words_of(text);
  for (auto const& card : cards_) {
    std::vector<std::string> places = {detail::squeezed(card.name), detail::squeezed(card.device_name),
                                       detail::squeezed(card.architecture.name)};
    for (auto const& alias : detail::words_of(card.aliases)) { places.push_back(detail::squeezed(alias)); }
    auto const occurs = [&](std::string const& word) {
      if (word == to_string(card.architecture.capability)) { return true; }
      auto const wanted = detail::squeezed(word);
      return !wanted.empty() && word.find('.') == std::string::npos &&
             std::any_of(places.begin(), places.end(),
                         [&](std::string const& place) { return place.find(wanted) != std::string::npos; });
    };
    if (std::all_of(words.begin(), words.end(), occurs)) { found.push_back(&card); }
  }
  return found;
}

MAXBATCH_INLINE std::optional<std::string> CardCatalogue::nearest(std::string_view text) const {
  // Squeezed, so that a dash more or less is no slip; the answer is the name, whatever was near it.
  std::vector<std::string> known;
  for (auto const& card : cards_) {
    known.push_back(detail::comparable(card.name));
    for (auto const& alias : detail::words_of(card.aliases)) { known.push_back(detail::comparable(alias)); }
  }
  auto const near = detail::nearest_name(detail::comparable(text), known);
  if (!near) { return std::nullopt; }
  auto const card =
      std::find_if(cards_.begin(), cards_.end(), [&](Card const& c) { return detail::is_called(c, *near); });
  return std::string(card->name);
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

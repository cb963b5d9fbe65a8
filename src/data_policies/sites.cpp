#include "sites.hpp"

#include "callers.hpp"
#include "dry_cuda/policies/policy_interface.hpp"
#include "mask_counts.hpp"
#include "rules.hpp"
#include "value_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace maxbatch::dry {
namespace {

/// A place that asked. See Note [Loops that wait].
struct Asker {
  SiteRecord* record = nullptr;  // null where the report had no more room
  std::int64_t calls = 0;
  std::array<std::uintptr_t, 16> addresses{};
  std::size_t addresses_seen = 0;
  std::int64_t repeats = 0;
  std::int64_t writes_at_first = 0;
};

// Note [Loops that wait]
// `while mask.any(): ...` never ends when nothing changes the mask. A place that asks 100,000 times for what lies at the same
// few addresses, with less than 64 kernels each time, is taken for such a loop. A loop over the elements of a tensor looks
// at another address each time, and a training step that reads its loss launches more.
constexpr std::int64_t kMostRepeats = 100'000;
constexpr std::int64_t kLittleWork = 64;

struct Sites {
  PolicySurroundings surroundings;
  Answer policy;
  bool has_policy = false;
  std::vector<Rule> rules;
  std::mutex mutex;
  std::map<std::string, Asker> askers;
};

Sites& sites() {
  static auto* const all = new Sites;  // operators run until the very end of the process
  return *all;
}

std::string text_of(char const* variable) {
  char const* const value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

template <std::size_t size>
void set_text(std::array<char, size>& to, std::string const& text) {
  auto const length = text.copy(to.data(), size - 1);
  to.at(length) = '\0';
}

/// The end of a text tells more than its beginning.
std::string shortened(std::string const& text, std::size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - (most - 3));
}

struct Decision {
  Answer answer;
  std::string why;
  bool is_known = false;
};

Decision decide_answer(SiteQuestion const& question, Question const& asked) {
  auto const counts = question.asks != Asks::item && question.asks != Asks::copy;
  if (auto const* const rule = find_rule(sites().rules, asked)) {
    return {answer_at(rule->answer, asked.call), "rule, line " + std::to_string(rule->number)};
  }
  if (question.known_count || question.known_bytes) { return {{}, "known", true}; }
  if (question.mask.defined()) {
    // Where a mask is used again, such as in the backward pass, it is as full as before.
    if (auto const count = mask_counts::find(question.mask)) {
      return {{Answer::Kind::number, static_cast<double>(*count), {}}, "as before"};
    }
  }
  if (auto const* const rule = find_rule(built_in_rules(), asked)) {
    return {answer_at(rule->answer, asked.call), "built-in rule, line " + std::to_string(rule->number)};
  }
  if (counts) { return {answer_at(sites().policy, asked.call), answer_text(sites().policy)}; }
  return {{}, "unknown"};
}

/// With the lock held.
Asker& asker_of(std::string const& operation, std::string const& place, bool counts) {
  auto& asker = sites().askers[operation + " at " + place];
  auto& records = *sites().surroundings.sites;
  if (asker.calls > 0 || asker.record != nullptr) { return asker; }
  if (records.sites == SiteRecords::kSites) {
    ++records.left_out;
    return asker;
  }
  auto& record = records.site.at(static_cast<std::size_t>(records.sites));
  set_text(record.operation, operation);
  set_text(record.place, shortened(place, record.place.size() - 1));
  record.is_count = counts;
  ++records.sites;
  asker.record = &record;
  return asker;
}

/// With the lock held.
void watch_for_loops(Asker& asker, SiteQuestion const& question, std::string const& place) {
  auto const seen = std::min(asker.addresses_seen, asker.addresses.size());
  auto const* const begin = asker.addresses.data();
  if (std::find(begin, begin + seen, question.address) == begin + seen) {
    asker.addresses.at(asker.addresses_seen++ % asker.addresses.size()) = question.address;
    if (asker.addresses_seen > asker.addresses.size()) { asker.repeats = 0; }
  }
  if (asker.repeats == 0) { asker.writes_at_first = writes_of_this_thread(); }
  if (++asker.repeats < kMostRepeats) { return; }
  auto const writes = writes_of_this_thread() - asker.writes_at_first;
  asker.repeats = 0;
  if (writes / kMostRepeats >= kLittleWork) { return; }
  auto const sentence = "the program seems to wait for a value that never changes on a dry card: it asked " +
                        std::to_string(kMostRepeats) + " times at " + (place.empty() ? "an unknown place" : place) +
                        ". Give the values there with --data-rules, such as '" + name_of(question.asks) +
                        " at FILE:LINE = true, true, false in turn'";
  sites().surroundings.end_with_sentence(sentence.c_str());
}

}  // namespace

std::int64_t& writes_of_this_thread() {
  thread_local std::int64_t writes = 0;
  return writes;
}

void start_sites(PolicySurroundings const& surroundings) {
  auto& all = sites();
  all.surroundings = surroundings;
  auto const policy = text_of("MAXBATCH_DRY_POLICY");
  try {
    all.has_policy = !policy.empty();
    if (all.has_policy) { all.policy = read_answer(policy); }
  } catch (std::invalid_argument const& error) {
    throw std::invalid_argument(std::string("MAXBATCH_DRY_POLICY: ") + error.what());
  }
  auto const path = text_of("MAXBATCH_DRY_RULES");
  if (!path.empty()) { all.rules = read_rules_file(path); }
  std::string text = answer_text(all.policy);
  if (!path.empty()) { text += ", after " + std::to_string(all.rules.size()) + " rules of " + path; }
  set_text(surroundings.sites->policies, text);
}

Site decide(SiteQuestion const& question) {
  Question asked;
  asked.operation = name_of(question.asks);
  asked.shape = question.shape;
  asked.within = question.within;
  asked.place = find_callers();
  auto place = place_text(asked.place);
  if (place.empty() && !question.within.empty()) { place = "within " + std::string(question.within.back()); }
  auto const counts = question.asks != Asks::item && question.asks != Asks::copy;

  Site site;
  site.asks = question.asks;
  site.type = question.type;
  site.most = question.most;
  std::lock_guard<std::mutex> const lock(sites().mutex);
  auto& asker = asker_of(asked.operation, place, counts);
  asked.call = asker.calls++;
  auto const decision = decide_answer(question, asked);
  if (counts) {
    site.count = decision.is_known ? *question.known_count
                                   : std::max(question.least, count_of(decision.answer, question.all, question.most));
  } else if (decision.is_known) {
    site.bytes = *question.known_bytes;
    site.value = value_of(site.bytes, site.type);
  } else {
    site.value = has_value(decision.answer) ? decision.answer.amount : question.value;
    site.is_left_to_card = !has_value(decision.answer) && question.value == 0;
  }
  if (question.mask.defined() && !decision.is_known) { mask_counts::keep(question.mask, site.count); }
  if (auto* const record = asker.record) {
    set_text(record->answer, decision.why);
    ++record->calls;
    record->counted += site.count;
    record->out_of += counts ? question.all : 0;
    record->latest_value = site.value;
  }
  if (!decision.is_known) { watch_for_loops(asker, question, place); }
  return site;
}

bool answer(Site& site, void* host, std::size_t bytes) {
  auto const read = site.reads++;
  auto const whole = [&](std::int64_t value) { return put_integer(host, bytes, value); };
  switch (site.asks) {
    case Asks::nonzero:
    case Asks::nms: {
      // A counter of 32 bits for each part of so many elements.
      constexpr std::int64_t kPart = (1 << 30) - 16384;
      std::size_t const parts = bytes / sizeof(std::int32_t);
      if (read > 0 || bytes % sizeof(std::int32_t) != 0) { return false; }
      auto left = site.count;
      for (std::size_t part = 0; part < parts; ++part) {
        auto const here = static_cast<std::int32_t>(std::min(left, part + 1 < parts ? kPart : left));
        std::memcpy(static_cast<char*>(host) + part * sizeof(here), &here, sizeof(here));
        left -= here;
      }
      return true;
    }
    case Asks::unique:
      // Of truth values it asks how many are true: one of two.
      if (site.type == at::kBool) { return whole(site.count > 1 ? 1 : 0); }
      return whole(site.count);
    case Asks::unique_dim:
    case Asks::coalesce: return whole(site.count);
    case Asks::repeat_interleave: return whole(bytes == 1 ? 1 : site.count);  // the sum, and whether all are counts
    case Asks::multinomial: return whole(read == 0 ? 1 : 0);  // whether all are probabilities, and none at all
    case Asks::bincount:
      // The least, which must not be negative, unless the type says so; then the most.
      return put_value(host, bytes, site.type,
                       read == 0 && site.type != at::kByte ? 0.0 : static_cast<double>(site.count - 1));
    case Asks::item:
    case Asks::copy:
      if (site.is_left_to_card) { return false; }
      if (site.bytes.size() == bytes) {
        std::memcpy(host, site.bytes.data(), bytes);
        return true;
      }
      return site.bytes.empty() && put_value(host, bytes, site.type, site.value);
    case Asks::nothing: return false;
  }
  return false;
}

}  // namespace maxbatch::dry

#pragma once

#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::int64_t kMibBytes = std::int64_t{1} << 20;

inline bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

/// One word or one of `:,[]`, and where it begins in the text.
struct SettingsToken {
  std::string text;
  std::size_t place = 0;
};

inline std::vector<SettingsToken> settings_tokens(std::string_view text) {
  std::vector<SettingsToken> tokens;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto const letter = text[at];
    if (letter == ':' || letter == ',' || letter == '[' || letter == ']') {
      tokens.push_back({std::string(1, letter), at});
      in_word = false;
    } else if (std::isspace(static_cast<unsigned char>(letter)) == 0) {
      // White space inside a word does not end it: that is how LibTorch reads it.
      if (!in_word) { tokens.push_back({"", at}); }
      tokens.back().text += letter;
      in_word = true;
    }
  }
  return tokens;
}

/// Reads a settings string from left to right; every complaint says where.
class SettingsReader {
 public:
  explicit SettingsReader(std::string_view text) : text_(text), tokens_(settings_tokens(text)) {}

  bool at_end() const { return next_ == tokens_.size(); }
  bool next_is(char const* symbol) const { return !at_end() && tokens_[next_].text == symbol; }

  std::string word(char const* what) {
    if (at_end()) { fail(std::string("it ends where ") + what + " should follow"); }
    auto const& token = tokens_[next_];
    if (is_symbol(token.text)) { fail(std::string("there is '") + token.text + "' where " + what + " should be"); }
    ++next_;
    return token.text;
  }
  void symbol(char const* symbol) {
    if (at_end()) { fail(std::string("it ends where '") + symbol + "' should follow"); }
    if (!next_is(symbol)) { fail("there is '" + tokens_[next_].text + "' where '" + symbol + "' should be"); }
    ++next_;
  }
  bool try_symbol(char const* symbol) {
    if (!next_is(symbol)) { return false; }
    ++next_;
    return true;
  }

  std::int64_t whole_number(std::string const& key) {
    auto const text = word("a number");
    std::int64_t value = 0;
    for (auto const letter : text) {
      if (letter < '0' || letter > '9') { fail_before("'" + text + "' is no whole number, which " + key + " needs"); }
      if (value > (std::int64_t{1} << 42)) { fail_before("'" + text + "' is too large for " + key); }
      value = value * 10 + (letter - '0');
    }
    return value;
  }
  double fraction(std::string const& key) {
    auto const text = word("a number");
    char* end = nullptr;
    auto const value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size()) { fail_before("'" + text + "' is no number, which " + key + " needs"); }
    return value;
  }
  bool truth(std::string const& key) {
    auto const text = word("True or False");
    if (text != "True" && text != "False") {
      fail_before(key + " is True or False, written like that, and not '" + text + "'");
    }
    return text == "True";
  }

  [[noreturn]] void fail(std::string const& complaint) const { fail_at(next_, complaint); }
  /// About the word that was read last.
  [[noreturn]] void fail_before(std::string const& complaint) const { fail_at(next_ - 1, complaint); }

 private:
  static bool is_symbol(std::string const& text) { return text == ":" || text == "," || text == "[" || text == "]"; }
  [[noreturn]] void fail_at(std::size_t token, std::string const& complaint) const {
    auto const place = token < tokens_.size() ? tokens_[token].place : text_.size();
    throw InvalidAllocatorSettings("allocator settings '" + text_ + "', at character " + std::to_string(place + 1) +
                                   ": " + complaint);
  }

  std::string text_;
  std::vector<SettingsToken> tokens_;
  std::size_t next_ = 0;
};

inline std::size_t roundup_index(std::int64_t mebibytes) {
  std::size_t index = 0;
  while (mebibytes > 1 && index < 15) {
    mebibytes >>= 1;
    ++index;
  }
  return index;
}

inline void read_roundup_list(SettingsReader& reader, std::array<std::int64_t, 16>& divisions) {
  bool first = true;
  std::size_t last = 0;
  while (!reader.next_is("]")) {
    auto const above_all = reader.next_is(">");
    std::int64_t size = 0;
    if (above_all) {
      reader.symbol(">");
    } else {
      size = reader.whole_number("a size of roundup_power2_divisions");
      if (!is_power_of_two(size)) {
        reader.fail_before(std::to_string(size) + " MiB is no power of two, as sizes of roundup_power2_divisions are");
      }
    }
    reader.symbol(":");
    auto const value = reader.whole_number("roundup_power2_divisions");
    if (value != 0 && !is_power_of_two(value)) {
      reader.fail_before(std::to_string(value) + " divisions: it must be a power of two, or 0 for none");
    }
    if (above_all) {
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last) + 1, divisions.end(), value);
    } else {
      last = roundup_index(size);
      if (first) { std::fill_n(divisions.begin(), last + 1, value); }
      divisions.at(last) = value;
      first = false;
    }
    if (!reader.try_symbol(",") && !reader.next_is("]")) { reader.symbol("]"); }
  }
  reader.symbol("]");
}

inline void read_roundup(SettingsReader& reader, std::array<std::int64_t, 16>& divisions) {
  if (reader.try_symbol("[")) {
    read_roundup_list(reader, divisions);
    return;
  }
  auto const value = reader.whole_number("roundup_power2_divisions");
  if (!is_power_of_two(value)) { reader.fail_before(std::to_string(value) + " divisions: it must be a power of two"); }
  divisions.fill(value);
}

inline void read_pinned_threads(SettingsReader& reader, std::string const& key) {
  auto const value = reader.whole_number(key);
  if (!is_power_of_two(value) || value > 128) {
    reader.fail_before(key + " must be a power of two of at most 128, and not " + std::to_string(value));
  }
}

inline void read_backend(SettingsReader& reader) {
  auto const name = reader.word("the backend's name");
  if (name == "cudaMallocAsync") {
    reader.fail_before("the backend cudaMallocAsync is another allocator, which is not modelled");
  }
  if (name != "native") { reader.fail_before("the backends are native and cudaMallocAsync, and not '" + name + "'"); }
}

/// Skips a value whose key was read in another pass.
inline void skip_settings_value(SettingsReader& reader) {
  if (!reader.try_symbol("[")) {
    reader.word("a value");
    return;
  }
  while (!reader.next_is("]")) {
    if (!reader.try_symbol(":") && !reader.try_symbol(",")) { reader.word("a value"); }
  }
  reader.symbol("]");
}

inline Bytes read_at_least_large_segment(SettingsReader& reader, std::string const& key, Bytes large_segment_size) {
  auto const size = Bytes{reader.whole_number(key) * kMibBytes};
  if (size < large_segment_size) {
    reader.fail_before(key + " must be at least large_segment_size_mb, " +
                       std::to_string(large_segment_size.count / kMibBytes) + ", and not " +
                       std::to_string(size.count / kMibBytes));
  }
  return size;
}

inline double read_garbage_collection_threshold(SettingsReader& reader, std::string const& key) {
  auto const value = reader.fraction(key);
  if (!(value > 0 && value < 1)) { reader.fail_before(key + " must lie between 0 and 1, both excluded"); }
  return value;
}

inline double read_memory_fraction(SettingsReader& reader, std::string const& key) {
  auto const value = reader.fraction(key);
  if (!(value >= 0 && value <= 1)) { reader.fail_before(key + " must lie between 0 and 1"); }
  return value;
}

inline std::vector<std::string> const& settings_keys() {
  static std::vector<std::string> const keys = {"large_segment_size_mb",
                                                "max_split_size_mb",
                                                "max_non_split_rounding_mb",
                                                "garbage_collection_threshold",
                                                "roundup_power2_divisions",
                                                "expandable_segments",
                                                "per_process_memory_fraction",
                                                "graph_capture_record_stream_reuse",
                                                "backend",
                                                "release_lock_on_cudamalloc",
                                                "pinned_use_background_threads",
                                                "pinned_use_cuda_host_register",
                                                "pinned_num_register_threads",
                                                "pinned_reserve_segment_size_mb"};
  return keys;
}

inline void read_setting(SettingsReader& reader, std::string const& key, AllocatorSettings& settings) {
  if (key == "large_segment_size_mb") {
    skip_settings_value(reader);  // read ahead of the others, which depend on it
  } else if (key == "max_split_size_mb") {
    settings.max_split_size = read_at_least_large_segment(reader, key, settings.large_segment_size);
  } else if (key == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = read_at_least_large_segment(reader, key, settings.large_segment_size);
  } else if (key == "garbage_collection_threshold") {
    settings.garbage_collection_threshold = read_garbage_collection_threshold(reader, key);
  } else if (key == "roundup_power2_divisions") {
    read_roundup(reader, settings.roundup_power2_divisions);
  } else if (key == "expandable_segments") {
    settings.expandable_segments = reader.truth(key);
  } else if (key == "per_process_memory_fraction") {
    settings.per_process_memory_fraction = read_memory_fraction(reader, key);
  } else if (key == "graph_capture_record_stream_reuse") {
    settings.graph_capture_record_stream_reuse = reader.truth(key);
  } else if (key == "backend") {
    read_backend(reader);
  } else if (key == "release_lock_on_cudamalloc" || key == "release_lock_on_hipmalloc" ||
             key == "pinned_use_background_threads" || key == "pinned_use_cuda_host_register" ||
             key == "pinned_use_hip_host_register") {
    reader.truth(key);
  } else if (key == "pinned_num_register_threads") {
    read_pinned_threads(reader, key);
  } else if (key == "pinned_reserve_segment_size_mb") {
    reader.whole_number(key);
  } else {
    auto const near = nearest_name(key, settings_keys());
    reader.fail_before("there is no setting '" + key + "'" + (near ? "; did you mean '" + *near + "'?" : ""));
  }
}

/// Calls `read` with each key, the reader being at its value.
template <typename ReadValue>
void for_each_setting(std::string_view text, ReadValue read) {
  SettingsReader reader(text);
  while (!reader.at_end()) {
    auto const key = reader.word("a setting's name");
    if (!reader.next_is(":")) {
      // A misspelt or misplaced key is the more helpful complaint.
      auto const& keys = settings_keys();
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        auto const near = nearest_name(key, keys);
        reader.fail_before("there is no setting '" + key + "'" + (near ? "; did you mean '" + *near + "'?" : ""));
      }
    }
    reader.symbol(":");
    read(reader, key);
    if (!reader.at_end()) { reader.symbol(","); }
  }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE AllocatorSettings parse_allocator_settings(std::string_view text, AllocatorSettings const& before) {
  auto settings = before;
  detail::for_each_setting(text, [&](detail::SettingsReader& reader, std::string const& key) {
    if (key != "large_segment_size_mb") {
      detail::skip_settings_value(reader);
      return;
    }
    auto const size = reader.whole_number(key);
    if (size <= 10) { reader.fail_before(key + " must be more than 10, and not " + std::to_string(size)); }
    settings.large_segment_size = Bytes{size * detail::kMibBytes};
  });
  settings.max_split_size.reset();
  settings.max_non_split_rounding = settings.large_segment_size;
  settings.garbage_collection_threshold = 0;
  settings.roundup_power2_divisions.fill(0);
  detail::for_each_setting(text, [&](detail::SettingsReader& reader, std::string const& key) {
    detail::read_setting(reader, key, settings);
  });
  return settings;
}

MAXBATCH_INLINE std::string to_string(AllocatorSettings const& settings) {
  AllocatorSettings const usual;
  std::ostringstream text;
  auto const add = [&](char const* key) -> std::ostringstream& {
    text << (text.tellp() == std::streampos(0) ? "" : ",") << key << ':';
    return text;
  };
  auto const mebibytes = [](Bytes size) { return size.count / detail::kMibBytes; };
  if (settings.large_segment_size != usual.large_segment_size) {
    add("large_segment_size_mb") << mebibytes(settings.large_segment_size);
  }
  if (settings.max_split_size) { add("max_split_size_mb") << mebibytes(*settings.max_split_size); }
  if (settings.max_non_split_rounding != settings.large_segment_size) {
    add("max_non_split_rounding_mb") << mebibytes(settings.max_non_split_rounding);
  }
  if (settings.garbage_collection_threshold != 0) {
    text.precision(17);
    add("garbage_collection_threshold") << settings.garbage_collection_threshold;
  }
  auto const& divisions = settings.roundup_power2_divisions;
  auto const same = std::all_of(divisions.begin(), divisions.end(), [&](auto d) { return d == divisions.front(); });
  if (same && divisions.front() != 0) {
    add("roundup_power2_divisions") << divisions.front();
  } else if (!same) {
    add("roundup_power2_divisions") << '[';
    for (std::size_t i = 0; i < divisions.size(); ++i) {
      text << (i == 0 ? "" : ",") << (std::int64_t{1} << i) << ':' << divisions.at(i);
    }
    text << ']';
  }
  if (settings.expandable_segments) { add("expandable_segments") << "True"; }
  if (settings.per_process_memory_fraction != 1) {
    text.precision(17);
    add("per_process_memory_fraction") << settings.per_process_memory_fraction;
  }
  if (settings.graph_capture_record_stream_reuse) { add("graph_capture_record_stream_reuse") << "True"; }
  return text.str();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

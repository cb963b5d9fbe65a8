#include "allocator_program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace maxbatch::test {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

using Kind = AllocatorCall::Kind;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <typename Value>
  Value one_of(std::vector<Value> const& values) {
    return values.at(static_cast<std::size_t>(between(0, static_cast<std::int64_t>(values.size()) - 1)));
  }
  /// Each power of two as likely as the next.
  std::uint64_t logarithmic(double low, double high) {
    auto const share = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<std::uint64_t>(low * std::pow(high / low, share));
  }

 private:
  std::mt19937_64 random_;
};

struct Mixture {
  int streams = 1;
  int free_percent = 45;
  int small_percent = 40;
  double largest = 256.0 * kMib;
  bool records_streams = false;
  bool limits = false;
  bool pools = false;
  bool changes_settings = false;
  std::uint64_t large_segment = 20 * kMib;
  std::uint64_t max_split = 0;
  bool expandable = false;
  bool may_expand = false;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : draw_(seed) {}

  AllocatorProgram program() {
    AllocatorProgram program;
    draw_mixture();
    program.settings = settings();
    program.holds_events = mixture_.records_streams && draw_.chance(50);
    auto const length = draw_.between(20, draw_.chance(10) ? 600 : 200);
    while (static_cast<std::int64_t>(program.calls.size()) < length) { program.calls.push_back(call()); }
    return program;
  }

 private:
  void draw_mixture() {
    mixture_.streams = draw_.chance(50) ? 1 : static_cast<int>(draw_.between(2, kMostStreams));
    mixture_.free_percent = static_cast<int>(draw_.between(30, 60));
    mixture_.small_percent = static_cast<int>(draw_.one_of<int>({5, 40, 40, 80}));
    mixture_.largest = draw_.one_of<double>({12.0 * kMib, 40.0 * kMib, 256.0 * kMib});
    mixture_.records_streams = mixture_.streams > 1 && draw_.chance(70);
    mixture_.limits = draw_.chance(60);
    mixture_.pools = draw_.chance(25);
    mixture_.changes_settings = !mixture_.pools && draw_.chance(12);
    if (draw_.chance(15)) {
      mixture_.large_segment = static_cast<std::uint64_t>(draw_.one_of<int>({12, 30, 64})) * kMib;
    }
    if (draw_.chance(25)) {
      mixture_.max_split = mixture_.large_segment + static_cast<std::uint64_t>(draw_.between(0, 60)) * kMib;
    }
    // Never in private pools: LibTorch counts their mappings and unmappings differently, and asserts that it does not.
    mixture_.expandable = !mixture_.pools && draw_.chance(30);
    mixture_.may_expand = mixture_.expandable || mixture_.changes_settings;
  }

  std::string settings() {
    std::ostringstream text;
    text << "expandable_segments:" << (mixture_.expandable ? "True" : "False")
         << ",large_segment_size_mb:" << mixture_.large_segment / kMib;
    if (mixture_.max_split != 0) {
      text << ",max_split_size_mb:" << mixture_.max_split / kMib;
      if (draw_.chance(50)) {
        text << ",max_non_split_rounding_mb:"
             << mixture_.large_segment / kMib + static_cast<std::uint64_t>(draw_.between(0, 40));
      }
    }
    if (mixture_.limits && draw_.chance(40)) { text << ",garbage_collection_threshold:0." << draw_.between(1, 9); }
    if (draw_.chance(25)) {
      text << ",roundup_power2_divisions:"
           << draw_.one_of<std::string>({"1", "2", "4", "8", "16", "64", "1024", "[1:4,2:8,64:2,>:16]", "[4:2,16:8]",
                                         "[256:1,512:2,1024:4,>:8]", "[1:0,8:4,>:0]", "[>:2]"});
    }
    return text.str();
  }

  std::uint64_t size() {
    if (!sizes_.empty() && draw_.chance(25)) { return draw_.one_of(sizes_); }
    auto const size = fresh_size();
    sizes_.push_back(size);
    return size;
  }

  std::uint64_t fresh_size() {
    if (draw_.chance(15)) {
      // At the edges of the rules, and where the rest of a segment is about what is still split off.
      auto const edge = draw_.one_of<std::uint64_t>(
          {512, kMib, 2 * kMib, 10 * kMib, mixture_.large_segment, mixture_.large_segment - kMib, 12 * kMib - kMib,
           2 * mixture_.large_segment, mixture_.max_split == 0 ? 16 * kMib : mixture_.max_split,
           mixture_.max_split + mixture_.large_segment, kMib + 512});
      auto const off = draw_.one_of<std::int64_t>({-kAround, -512, -1, 0, 0, 1, 512, kAround});
      return static_cast<std::uint64_t>(std::max<std::int64_t>(1, static_cast<std::int64_t>(edge) + off));
    }
    if (draw_.chance(mixture_.small_percent)) { return draw_.logarithmic(1, kMib + 1000.0); }
    if (draw_.chance(1) && draw_.chance(20)) {
      // More than any card has: an expandable segment would be left without a page, and no flush removes such a one.
      return mixture_.may_expand ? draw_.one_of<std::uint64_t>({1ULL << 60, 0})
                                 : draw_.one_of<std::uint64_t>({200ULL << 30, 1ULL << 60, 0});
    }
    return draw_.logarithmic(kMib, mixture_.largest);
  }

  int stream() { return draw_.chance(60) ? 0 : static_cast<int>(draw_.between(0, mixture_.streams - 1)); }

  AllocatorCall request() {
    AllocatorCall call;
    call.bytes = size();
    call.stream = stream();
    call.block = requests_++;
    return call;
  }

  /// Recent blocks more often: programs free in about the reverse order.
  int some_block() {
    auto const back = draw_.chance(60) ? draw_.between(1, 12) : draw_.between(1, std::max(1, requests_));
    return std::max(0, requests_ - static_cast<int>(back));
  }

  AllocatorCall of(Kind kind) {
    AllocatorCall call;
    call.kind = kind;
    call.block = some_block();
    call.stream = static_cast<int>(draw_.between(0, mixture_.streams - 1));
    call.pool = static_cast<int>(draw_.between(0, kMostPools - 1));
    call.flag = draw_.chance(50);
    return call;
  }

  AllocatorCall use_by_stream() {
    auto call = of(Kind::record_stream);
    call.flag = false;
    return call;
  }

  AllocatorCall limit() {
    auto call = of(Kind::set_limit);
    call.limited = draw_.chance(85);
    call.above_reserved =
        draw_.one_of<std::int64_t>({0, -1, 1, 2 << 20, (2 << 20) - 1, 20 << 20, (20 << 20) - 1,
                                    draw_.between(-(60 << 20), 60 << 20), draw_.between(0, 400 << 20)});
    return call;
  }

  AllocatorCall new_settings() {
    auto call = of(Kind::set_settings);
    if (mixture_.max_split == 0) { mixture_.expandable = draw_.chance(50); }
    call.settings = settings();
    return call;
  }

  AllocatorCall call() {
    if (mixture_.records_streams && draw_.chance(10)) { return use_by_stream(); }
    if (mixture_.records_streams && draw_.chance(4)) { return of(Kind::synchronise); }
    if (mixture_.limits && draw_.chance(4)) { return limit(); }
    if (mixture_.changes_settings && draw_.chance(3)) { return new_settings(); }
    if (draw_.chance(1)) { return of(Kind::empty_cache); }
    if (draw_.chance(1)) { return of(draw_.chance(50) ? Kind::reset_peaks : Kind::reset_sums); }
    if (mixture_.pools && draw_.chance(12)) {
      auto call = of(draw_.one_of<Kind>({Kind::begin_pool, Kind::begin_pool, Kind::end_pool, Kind::end_pool,
                                         Kind::end_pool, Kind::release_pool, Kind::release_pool, Kind::incref_pool,
                                         Kind::empty_pool, Kind::use_on_oom, Kind::no_split}));
      if (call.flag) { call.stream = -1; }
      return call;
    }
    if (requests_ > 0 && draw_.chance(mixture_.free_percent)) { return of(Kind::free); }
    return request();
  }

  static constexpr std::int64_t kAround = 513;

  Draw draw_;
  Mixture mixture_;
  int requests_ = 0;
  std::vector<std::uint64_t> sizes_;
};

}  // namespace

std::string to_string(AllocatorCall const& call) {
  std::ostringstream text;
  auto const block = [&]() -> std::ostringstream& { return text << " block " << call.block, text; };
  switch (call.kind) {
    case Kind::allocate:
      text << "allocate block " << call.block << ": " << call.bytes << " on stream " << call.stream;
      break;
    case Kind::free: text << "free", block(); break;
    case Kind::record_stream: text << "record_stream", block() << " stream " << call.stream; break;
    case Kind::synchronise: text << "synchronise stream " << call.stream; break;
    case Kind::empty_cache: text << "empty_cache"; break;
    case Kind::set_limit:
      text << "set_limit " << (call.limited ? "reserved + " + std::to_string(call.above_reserved) : "none");
      break;
    case Kind::set_settings: text << "set_settings " << call.settings; break;
    case Kind::begin_pool: text << "begin_pool " << call.pool << " stream " << call.stream; break;
    case Kind::end_pool: text << "end_pool " << call.pool; break;
    case Kind::release_pool: text << "release_pool " << call.pool; break;
    case Kind::incref_pool: text << "incref_pool " << call.pool; break;
    case Kind::empty_pool: text << "empty_pool " << call.pool; break;
    case Kind::use_on_oom: text << "use_on_oom " << call.pool << ' ' << call.flag; break;
    case Kind::no_split: text << "no_split " << call.pool; break;
    case Kind::reset_peaks: text << "reset_peaks"; break;
    case Kind::reset_sums: text << "reset_sums"; break;
  }
  return text.str();
}

std::string to_string(AllocatorProgram const& program) {
  std::ostringstream text;
  text << "settings " << program.settings << (program.holds_events ? "; events held" : "") << '\n';
  for (auto const& call : program.calls) { text << "  " << to_string(call) << '\n'; }
  return text.str();
}

AllocatorProgram random_program(std::uint64_t seed) { return Generator(seed).program(); }

}  // namespace maxbatch::test

#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>

#if defined(MAXBATCH_HAS_ZLIB)
#include <zlib.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline bool is_gzip(std::string_view content) { return content.substr(0, 2) == "\x1f\x8b"; }

#if defined(MAXBATCH_HAS_ZLIB)

/// One direction of zlib over gzip's framing.
class GzipStream {
 public:
  static constexpr int kGzipWindow = 15 + 16;

  explicit GzipStream(bool inflating) : inflating_(inflating) {
    auto const made = inflating ? inflateInit2(&stream_, kGzipWindow)
                                : deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, /*memLevel=*/8,
                                               Z_DEFAULT_STRATEGY);
    if (made != Z_OK) { throw TraceError("zlib could not be started"); }
  }
  ~GzipStream() { inflating_ ? inflateEnd(&stream_) : deflateEnd(&stream_); }
  GzipStream(GzipStream const&) = delete;
  GzipStream& operator=(GzipStream const&) = delete;

  z_stream& operator*() { return stream_; }

 private:
  z_stream stream_{};
  bool inflating_;
};

/// All members of a gzip file. What follows the last one is an error, as half a member is.
/// Memory: grows with what was really unpacked, and never beyond `max_unpacked`.
inline std::string unpack_gzip(std::string_view content, std::string const& name, Bytes max_unpacked) {
  std::string unpacked;
  std::array<char, 65536> buffer{};
  GzipStream zlib(/*inflating=*/true);
  auto& stream = *zlib;
  std::size_t at = 0;
  for (auto in_member = true; in_member || at < content.size();) {
    constexpr std::size_t most = std::numeric_limits<uInt>::max() / 2;
    auto const given = std::min(content.size() - at, most);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data() + at));  // NOLINT: zlib only reads
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    auto const answer = inflate(&stream, Z_NO_FLUSH);
    auto const taken = given - stream.avail_in;
    auto const made = buffer.size() - stream.avail_out;
    at += taken;
    if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR) {
      fail_trace(name, at_byte(at),
                 std::string("the compressed data are damaged") + (stream.msg ? std::string(": ") + stream.msg : ""));
    }
    unpacked.append(buffer.data(), made);
    if (static_cast<std::int64_t>(unpacked.size()) > max_unpacked.count) {
      fail_trace(name, at_byte(at), "unpacks to more than " + to_string(max_unpacked) + ", the limit that was set");
    }
    in_member = answer != Z_STREAM_END;
    if (in_member && taken == 0 && made == 0) { fail_trace(name, at_byte(at), "the compressed data end too early"); }
    if (!in_member && at < content.size() && inflateReset(&stream) != Z_OK) {
      fail_trace(name, at_byte(at), "zlib could not go on");
    }
  }
  return unpacked;
}

inline std::string pack_gzip(std::string_view content) {
  std::string packed;
  std::array<char, 65536> buffer{};
  GzipStream zlib(/*inflating=*/false);
  auto& stream = *zlib;
  constexpr std::size_t most = std::numeric_limits<uInt>::max() / 2;
  for (auto answer = Z_OK; answer != Z_STREAM_END;) {
    auto const given = std::min(content.size(), most);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));  // NOLINT: zlib only reads
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    answer = deflate(&stream, given == content.size() ? Z_FINISH : Z_NO_FLUSH);
    if (answer == Z_STREAM_ERROR) { throw TraceError("zlib could not compress"); }
    content.remove_prefix(given - stream.avail_in);
    packed.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  return packed;
}

#else

inline std::string unpack_gzip(std::string_view, std::string const& name, Bytes) {
  fail_trace(name, "", "is compressed, and maxbatch was built without zlib (MAXBATCH_HAS_ZLIB): gunzip it first");
}

inline std::string pack_gzip(std::string_view) {
  throw TraceError("maxbatch was built without zlib (MAXBATCH_HAS_ZLIB): choose a name that does not end in .gz");
}

#endif

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch

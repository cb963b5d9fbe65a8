#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What an unpickled file holds: plain data, as numbers and as places in the document that owns them.
class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    large_integer,
    real,
    text,
    bytes,
    list,
    tuple,
    dict,
    set,
    mark
  };

  PickleValue() = default;
  static PickleValue boolean(bool value) { return {Kind::boolean, 0, value ? 1U : 0U}; }
  static PickleValue integer(std::int64_t value) { return {Kind::integer, 0, static_cast<std::uint64_t>(value)}; }
  /// Above what 63 bits hold; `fits`: into 64.
  static PickleValue large_integer(std::uint64_t value, bool fits) {
    return {Kind::large_integer, fits ? 1U : 0U, value};
  }
  static PickleValue real(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return {Kind::real, 0, bits};
  }
  static PickleValue text(std::string_view value, Kind kind = Kind::text) {
    return {kind, static_cast<std::uint32_t>(value.size()), reinterpret_cast<std::uintptr_t>(value.data())};
  }
  static PickleValue container(Kind kind, std::size_t index) { return {kind, 0, index}; }
  static PickleValue mark() { return {Kind::mark, 0, 0}; }

  Kind kind() const { return kind_; }
  bool is_text() const { return kind_ == Kind::text; }
  bool is_container() const { return kind_ >= Kind::list && kind_ <= Kind::set; }
  bool as_boolean() const { return bits_ != 0; }
  std::string_view as_text() const {
    return {reinterpret_cast<char const*>(static_cast<std::uintptr_t>(bits_)), length_};  // NOLINT: made by text()
  }
  std::size_t container_index() const { return static_cast<std::size_t>(bits_); }
  std::optional<std::int64_t> as_integer() const {
    if (kind_ != Kind::integer) { return std::nullopt; }
    return static_cast<std::int64_t>(bits_);
  }
  std::optional<std::uint64_t> as_unsigned() const {
    if (kind_ == Kind::large_integer && length_ == 1) { return bits_; }
    if (kind_ != Kind::integer || static_cast<std::int64_t>(bits_) < 0) { return std::nullopt; }
    return bits_;
  }
  std::optional<double> as_real() const {
    if (kind_ != Kind::real) { return std::nullopt; }
    double value = 0;
    std::memcpy(&value, &bits_, sizeof(value));
    return value;
  }
  /// "a list"
  char const* kind_name() const {
    constexpr std::array<char const*, 12> names = {"None",    "a bool", "an int", "an int of more than 63 bits",
                                                   "a float", "a str",  "bytes",  "a list",
                                                   "a tuple", "a dict", "a set",  "a mark"};
    return names.at(static_cast<std::size_t>(kind_));
  }

 private:
  PickleValue(Kind kind, std::uint32_t length, std::uint64_t bits) : bits_(bits), length_(length), kind_(kind) {}

  std::uint64_t bits_ = 0;
  std::uint32_t length_ = 0;
  Kind kind_ = Kind::none;
};

/// The objects of one file. Texts lie in the file's content, which must outlive it.
struct PickleDocument {
  PickleValue root;
  std::vector<std::vector<PickleValue>> containers;  // a dict: key, value, key, value

  std::vector<PickleValue> const& items(PickleValue const& container) const {
    return containers[container.container_index()];
  }
  /// Null: no dict, or no such key.
  PickleValue const* find(PickleValue const& dict, std::string_view key) const {
    if (dict.kind() != PickleValue::Kind::dict) { return nullptr; }
    auto const& entries = items(dict);
    // Backwards: of a key that was set twice the later value counts.
    for (auto i = entries.size(); i >= 2; i -= 2) {
      if (entries[i - 2].is_text() && entries[i - 2].as_text() == key) { return &entries[i - 1]; }
    }
    return nullptr;
  }
};

/// A pickle machine that knows data only: protocols 0 to 5 as far as they build dicts, lists, tuples, sets, strings,
/// numbers, bytes, booleans and None. An instruction that would import or call something is refused by name.
///
/// It does not recurse, each byte of the file makes at most one small object, and all together may take `max_memory`.
class PickleReader {
 public:
  PickleReader(std::string_view content, std::string const& name, Bytes max_memory)
      : content_(content), name_(name), max_memory_(static_cast<std::uint64_t>(max_memory.count)) {}

  PickleDocument read() {
    while (!done_) {
      if (at_ >= content_.size()) {
        fail_at(at_, "the pickle ends before its STOP" + std::string(content_.empty() ? "" : ": cut short?"));
      }
      opcode_at_ = at_;
      execute(static_cast<unsigned char>(content_[at_++]));
    }
    return std::move(document_);
  }

 private:
  using Kind = PickleValue::Kind;

  [[noreturn]] void fail_at(std::size_t offset, std::string const& what) const {
    fail_trace(name_, at_byte(offset), what);
  }
  [[noreturn]] void fail(std::string const& what) const { fail_at(opcode_at_, what); }
  [[noreturn]] void refuse(std::string const& opcode, std::string const& what) const {
    fail("the pickle's " + opcode + ' ' + what +
         "; a memory snapshot is plain data, and nothing that a file asks for is run");
  }

  void execute(unsigned char opcode) {
    switch (opcode) {
      case 0x80: return read_protocol();
      case 0x95: return read_frame();
      case '.': return stop();
      // The stack.
      case '(': return push(PickleValue::mark());
      case '0': return void(pop());
      case '1': return void(take_since_mark());
      case '2': return push(top());
      // The memo.
      case 'p': return put(decimal_index(take_line()));
      case 'q': return put(little_endian(1));
      case 'r': return put(little_endian(4));
      case 0x94: return put(memo_size_);
      case 'g': return get(decimal_index(take_line()));
      case 'h': return get(little_endian(1));
      case 'j': return get(little_endian(4));
      // Atoms.
      case 'N': return push(PickleValue());
      case 0x88: return push(PickleValue::boolean(true));
      case 0x89: return push(PickleValue::boolean(false));
      case 'I': return read_decimal(/*is_long=*/false);
      case 'L': return read_decimal(/*is_long=*/true);
      case 'J': return push(PickleValue::integer(static_cast<std::int32_t>(little_endian(4))));
      case 'K': return push(PickleValue::integer(static_cast<std::int64_t>(little_endian(1))));
      case 'M': return push(PickleValue::integer(static_cast<std::int64_t>(little_endian(2))));
      case 0x8a: return read_long(little_endian(1));
      case 0x8b: return read_long(little_endian(4));
      case 'F': return read_float_text();
      case 'G': return read_float();
      case 'S': return read_quoted();
      case 'V': return push_text(take_line(), Kind::text);
      case 'T': return push_text(take(little_endian(4)), Kind::text);
      case 'U': return push_text(take(little_endian(1)), Kind::text);
      case 'X': return push_text(take(little_endian(4)), Kind::text);
      case 0x8c: return push_text(take(little_endian(1)), Kind::text);
      case 0x8d: return push_text(take(little_endian(8)), Kind::text);
      case 'B': return push_text(take(little_endian(4)), Kind::bytes);
      case 'C': return push_text(take(little_endian(1)), Kind::bytes);
      case 0x8e:
      case 0x96: return push_text(take(little_endian(8)), Kind::bytes);
      // Containers.
      case ']': return push_container(Kind::list, {});
      case '}': return push_container(Kind::dict, {});
      case ')': return push_container(Kind::tuple, {});
      case 0x8f: return push_container(Kind::set, {});
      case 'l': return push_container(Kind::list, take_since_mark());
      case 'd': return push_container(Kind::dict, pairs(take_since_mark()));
      case 't': return push_container(Kind::tuple, take_since_mark());
      case 0x91: return push_container(Kind::set, take_since_mark());
      case 0x85: return push_container(Kind::tuple, take_last(1));
      case 0x86: return push_container(Kind::tuple, take_last(2));
      case 0x87: return push_container(Kind::tuple, take_last(3));
      case 'a': return extend(Kind::list, take_last(1));
      case 'e': return extend(Kind::list, take_since_mark());
      case 's': return extend(Kind::dict, take_last(2));
      case 'u': return extend(Kind::dict, pairs(take_since_mark()));
      case 0x90: return extend(Kind::set, take_since_mark());
      default: return refuse_opcode(opcode);
    }
  }

  [[noreturn]] void refuse_opcode(unsigned char opcode) {
    switch (opcode) {
      case 'c': refuse_global("GLOBAL");
      case 'i': refuse_global("INST");
      case 0x93: refuse_stack_global();
      case 'R': refuse("REDUCE", "would call a function");
      case 'b': refuse("BUILD", "would set the state of an object");
      case 'o': refuse("OBJ", "would make an object");
      case 0x81: refuse("NEWOBJ", "would make an object");
      case 0x92: refuse("NEWOBJ_EX", "would make an object");
      case 'P': refuse("PERSID", "would load something from outside");
      case 'Q': refuse("BINPERSID", "would load something from outside");
      case 0x82: refuse("EXT1", "would import an extension");
      case 0x83: refuse("EXT2", "would import an extension");
      case 0x84: refuse("EXT4", "would import an extension");
      case 0x97: refuse("NEXT_BUFFER", "would take data from outside");
      case 0x98: refuse("READONLY_BUFFER", "would take data from outside");
      default: break;
    }
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "0x%02X", static_cast<unsigned>(opcode));
    fail(std::string("there is no pickle instruction ") + code.data());
  }
  [[noreturn]] void refuse_global(std::string const& opcode) {
    auto const module = take_line();
    refuse(opcode, "imports '" + printable(module) + '.' + printable(take_line()) + '\'');
  }
  [[noreturn]] void refuse_stack_global() {
    std::string what = "imports something";
    if (stack_.size() >= 2 && stack_.back().is_text() && stack_[stack_.size() - 2].is_text()) {
      what = "imports '" + printable(stack_[stack_.size() - 2].as_text()) + '.' + printable(stack_.back().as_text()) +
             '\'';
    }
    refuse("STACK_GLOBAL", what);
  }

  // ---- Bytes
  std::string_view take(std::uint64_t count) {
    if (count > content_.size() - at_) {
      fail("needs " + std::to_string(count) + " bytes, and " + std::to_string(content_.size() - at_) +
           " are left: cut short?");
    }
    auto const taken = content_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return taken;
  }
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t value = 0;
    auto const bytes = take(count);
    for (std::size_t i = count; i > 0; --i) { value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]); }
    return value;
  }
  std::string_view take_line() {
    auto const end = content_.find('\n', at_);
    if (end == std::string_view::npos) { fail("its line does not end: cut short?"); }
    auto line = take(end - at_);
    ++at_;
    if (!line.empty() && line.back() == '\r') { line.remove_suffix(1); }
    return line;
  }
  std::uint64_t decimal_index(std::string_view text) {
    std::uint32_t index = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail("'" + printable(text) + "' is no place in the memo");
    }
    return index;
  }

  // ---- The stack
  void push(PickleValue value) {
    account(sizeof(PickleValue));
    stack_.push_back(value);
  }
  PickleValue const& top() const {
    if (stack_.empty() || stack_.back().kind() == Kind::mark) { fail("takes from an empty stack"); }
    return stack_.back();
  }
  PickleValue pop() {
    if (stack_.empty()) { fail("takes from an empty stack"); }
    auto const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> take_last(std::size_t count) {
    std::vector<PickleValue> taken(count);
    for (std::size_t i = count; i > 0; --i) {
      taken[i - 1] = top();
      stack_.pop_back();
    }
    return taken;
  }
  std::vector<PickleValue> take_since_mark() {
    auto first = stack_.end();
    while (first != stack_.begin() && std::prev(first)->kind() != Kind::mark) { --first; }
    if (first == stack_.begin()) { fail("closes what was not opened (no MARK on the stack)"); }
    std::vector<PickleValue> taken(first, stack_.end());
    stack_.erase(std::prev(first), stack_.end());
    return taken;
  }
  std::vector<PickleValue> pairs(std::vector<PickleValue> values) const {
    if (values.size() % 2 != 0) {
      fail("a dict gets " + std::to_string(values.size()) + " keys and values: an odd number");
    }
    return values;
  }
  void stop() {
    document_.root = pop();
    if (document_.root.kind() == Kind::mark) { fail("stops with nothing but a MARK"); }
    done_ = true;
  }

  // ---- The memo
  void put(std::uint64_t index) {
    auto const value = top();
    account(sizeof(PickleValue));
    // Almost always the next free place; a file may name any.
    if (index < memo_.size()) {
      memo_[static_cast<std::size_t>(index)] = value;
    } else if (index == memo_.size()) {
      memo_.push_back(value);
      ++memo_size_;
    } else {
      account(kMapEntry);
      if (sparse_memo_.insert_or_assign(index, value).second) { ++memo_size_; }
    }
  }
  void get(std::uint64_t index) {
    if (index < memo_.size()) { return push(memo_[static_cast<std::size_t>(index)]); }
    auto const found = sparse_memo_.find(index);
    if (found == sparse_memo_.end()) { fail("the memo has nothing at " + std::to_string(index)); }
    push(found->second);
  }

  // ---- Atoms
  void read_protocol() {
    auto const protocol = little_endian(1);
    if (protocol > 5) { fail("pickle protocol " + std::to_string(protocol) + " is not known (0 to 5 are)"); }
  }
  void read_frame() {
    auto const length = little_endian(8);
    if (length > content_.size() - at_) {
      fail("a frame of " + std::to_string(length) + " bytes, and " + std::to_string(content_.size() - at_) +
           " are left: cut short?");
    }
  }
  void read_decimal(bool is_long) {
    auto text = take_line();
    if (!is_long && (text == "00" || text == "01")) { return push(PickleValue::boolean(text == "01")); }
    if (is_long && !text.empty() && text.back() == 'L') { text.remove_suffix(1); }
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size() || text.empty() || error == std::errc::invalid_argument) {
      fail("'" + printable(text) + "' is not a whole number");
    }
    if (error == std::errc()) { return push(PickleValue::integer(value)); }
    std::uint64_t large = 0;
    auto const large_error = std::from_chars(text.data(), text.data() + text.size(), large).ec;
    push(PickleValue::large_integer(large, large_error == std::errc()));
  }
  /// Two's complement, little endian, of any length.
  void read_long(std::uint64_t count) {
    auto const bytes = take(count);
    auto const negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    auto fits = true;
    for (std::size_t i = bytes.size(); i > 0; --i) {
      auto const byte = static_cast<unsigned char>(bytes[i - 1]);
      // What is beyond 8 bytes may only repeat the sign.
      if (i > 8) {
        fits = fits && byte == (negative ? 0xFFU : 0U);
      } else {
        value = (value << 8) | byte;
      }
    }
    auto const sign_agrees = ((value >> 63) != 0) == negative;
    if (fits && sign_agrees) { return push(PickleValue::integer(static_cast<std::int64_t>(value))); }
    push(PickleValue::large_integer(value, fits && !negative));
  }
  void read_float_text() {
    auto const text = std::string(take_line());
    char* end = nullptr;
    auto const value = std::strtod(text.c_str(), &end);
    if (text.empty() || end != text.c_str() + text.size()) { fail("'" + printable(text) + "' is not a number"); }
    push(PickleValue::real(value));
  }
  void read_float() {
    std::uint64_t bits = 0;
    for (auto const byte : take(8)) { bits = (bits << 8) | static_cast<unsigned char>(byte); }
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    push(PickleValue::real(value));
  }
  /// Escapes stay as they are: what is looked for has none.
  void read_quoted() {
    auto const text = take_line();
    auto const quoted =
        text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
    if (!quoted) { fail("'" + printable(text) + "' is no quoted string"); }
    push_text(text.substr(1, text.size() - 2), Kind::text);
  }
  void push_text(std::string_view text, Kind kind) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) { fail("a string of more than 4 GiB"); }
    push(PickleValue::text(text, kind));
  }

  // ---- Containers
  void push_container(Kind kind, std::vector<PickleValue> values) {
    account(sizeof(std::vector<PickleValue>) + kAllocation + values.size() * sizeof(PickleValue));
    document_.containers.push_back(std::move(values));
    push(PickleValue::container(kind, document_.containers.size() - 1));
  }
  void extend(Kind kind, std::vector<PickleValue> const& values) {
    auto const& target = top();
    if (target.kind() != kind) {
      fail(std::string("adds to ") + target.kind_name() + " as if it were " +
           PickleValue::container(kind, 0).kind_name());
    }
    // Twice: a vector that grows has room to spare.
    account(2 * values.size() * sizeof(PickleValue));
    auto& items = document_.containers[target.container_index()];
    items.insert(items.end(), values.begin(), values.end());
  }

  void account(std::uint64_t bytes) {
    memory_ += bytes;
    if (memory_ > max_memory_) {
      fail("its objects would take more than " + to_string(Bytes{static_cast<std::int64_t>(max_memory_)}) +
           ", the limit that was set");
    }
  }

  static constexpr std::uint64_t kAllocation = 32;  // what the heap adds to an allocation of its own
  static constexpr std::uint64_t kMapEntry = 64;

  std::string_view content_;
  std::string const& name_;
  std::uint64_t max_memory_;
  std::uint64_t memory_ = 0;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  bool done_ = false;
  PickleDocument document_;
  std::vector<PickleValue> stack_;
  std::vector<PickleValue> memo_;
  std::unordered_map<std::uint64_t, PickleValue> sparse_memo_;
  std::uint64_t memo_size_ = 0;  // what MEMOIZE takes for its next index: as many as were put, wherever
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch

#include "pickled_tensors.hpp"

#include <maxbatch/search/errors.hpp>

#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <caffe2/serialize/inline_container.h>

namespace maxbatch::models {
namespace {

struct Value;
using ValuePtr = std::shared_ptr<Value>;

/// What a pickle builds, as far as tensors in dicts need it.
struct Value {
  enum class Kind { none, number, text, tuple, list, dict, name_of_class, storage, tensor, other, mark };
  Kind kind = Kind::other;
  std::int64_t number = 0;
  std::string text;             // text, name_of_class; of other: what it is
  std::vector<ValuePtr> items;  // tuple, list; of a dict keys and values in turn
  at::Tensor tensor;            // of a storage: flat
};

char const* to_string(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::none: return "None";
    case Value::Kind::number: return "number";
    case Value::Kind::text: return "text";
    case Value::Kind::tuple: return "tuple";
    case Value::Kind::list: return "list";
    case Value::Kind::dict: return "dict";
    case Value::Kind::tensor: return "tensor";
    default: return "Python object";
  }
}

struct BadPickle {
  std::string what;
};

std::optional<at::ScalarType> type_of_storage(std::string const& class_name) {
  static std::map<std::string, at::ScalarType> const known = {
      {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},     {"torch.HalfStorage", at::kHalf},
      {"torch.LongStorage", at::kLong},   {"torch.BFloat16Storage", at::kBFloat16}, {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},         {"torch.ByteStorage", at::kByte},
      {"torch.BoolStorage", at::kBool}};
  auto const found = known.find(class_name);
  return found == known.end() ? std::nullopt : std::make_optional(found->second);
}

class PickleReader {
 public:
  explicit PickleReader(caffe2::serialize::PyTorchStreamReader& archive) : archive_(archive) {
    std::tie(bytes_, size_) = archive_.getRecord("data.pkl");
  }

  ValuePtr read() {
    for (;;) {
      auto const opcode = static_cast<unsigned char>(*take(1));
      if (opcode == '.') { return pop(); }
      run(opcode);
    }
  }

 private:
  using Kind = Value::Kind;

  static ValuePtr make(Kind kind) {
    auto value = std::make_shared<Value>();
    value->kind = kind;
    return value;
  }

  // ---- bytes ----
  char const* take(std::size_t count) {
    if (count > size_ - at_) { throw BadPickle{"it ends too early"}; }
    auto const* const from = static_cast<char const*>(bytes_.get()) + at_;
    at_ += count;
    return from;
  }
  /// Little-endian, as pickles are.
  std::uint64_t take_unsigned(std::size_t bytes) {
    std::uint64_t number = 0;
    auto const* const from = take(bytes);
    for (std::size_t i = bytes; i-- > 0;) { number = number << 8 | static_cast<unsigned char>(from[i]); }
    return number;
  }
  std::int64_t take_signed(std::size_t bytes) {
    if (bytes == 0) { return 0; }
    if (bytes > 8) { throw BadPickle{"it holds a number of more than 64 bits"}; }
    auto const unused = 64 - 8 * bytes;
    return static_cast<std::int64_t>(take_unsigned(bytes) << unused) >> unused;
  }
  std::string take_line() {
    std::string line;
    for (char c = *take(1); c != '\n'; c = *take(1)) { line += c; }
    return line;
  }

  // ---- stack ----
  void push(ValuePtr value) { stack_.push_back(std::move(value)); }
  void push_number(std::int64_t number) {
    push(make(Kind::number));
    stack_.back()->number = number;
  }
  void push_text(std::size_t length) {
    push(make(Kind::text));
    stack_.back()->text.assign(take(length), length);
  }
  ValuePtr pop() {
    if (stack_.empty()) { throw BadPickle{"it is damaged"}; }
    auto value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  Value& top() {
    if (stack_.empty()) { throw BadPickle{"it is damaged"}; }
    return *stack_.back();
  }
  std::vector<ValuePtr> pop_to_mark() {
    std::vector<ValuePtr> items;
    for (auto value = pop(); value->kind != Kind::mark; value = pop()) { items.push_back(std::move(value)); }
    return {items.rbegin(), items.rend()};
  }
  void push_tuple(std::size_t count) {
    auto tuple = make(Kind::tuple);
    tuple->items.resize(count);
    while (count-- > 0) { tuple->items[count] = pop(); }
    push(std::move(tuple));
  }
  void append(std::vector<ValuePtr> const& items) {
    auto& to = top().items;
    to.insert(to.end(), items.begin(), items.end());
  }

  void run(unsigned char opcode) {
    switch (opcode) {
      case 0x80: take(1); return;  // protocol
      case '(': return push(make(Kind::mark));
      case 'N': return push(make(Kind::none));
      case 0x88: return push_number(1);  // True
      case 0x89: return push_number(0);
      case 'J': return push_number(take_signed(4));
      case 'K': return push_number(static_cast<std::int64_t>(take_unsigned(1)));
      case 'M': return push_number(static_cast<std::int64_t>(take_unsigned(2)));
      case 0x8a: return push_number(take_signed(take_unsigned(1)));
      case 'G': take(8); return push(make(Kind::number));  // a float: no part of a tensor
      case 'X': return push_text(take_unsigned(4));
      case 0x8c: return push_text(take_unsigned(1));
      case ')': return push(make(Kind::tuple));
      case ']': return push(make(Kind::list));
      case '}': return push(make(Kind::dict));
      case 't': {
        auto tuple = make(Kind::tuple);
        tuple->items = pop_to_mark();
        return push(std::move(tuple));
      }
      case 0x85: return push_tuple(1);
      case 0x86: return push_tuple(2);
      case 0x87: return push_tuple(3);
      case 'q': memo_[take_unsigned(1)] = stack_.empty() ? nullptr : stack_.back(); return;
      case 'r': memo_[take_unsigned(4)] = stack_.empty() ? nullptr : stack_.back(); return;
      case 'h': return push_memo(take_unsigned(1));
      case 'j': return push_memo(take_unsigned(4));
      case 'a': {
        auto item = pop();
        return append({std::move(item)});
      }
      case 's': {
        auto value = pop();
        auto key = pop();
        return append({std::move(key), std::move(value)});
      }
      case 'e':
      case 'u': {
        auto const items = pop_to_mark();
        return append(items);
      }
      case 'b': pop(); return;  // an attribute, such as state_dict()'s _metadata
      case 'c': {
        auto module = take_line();
        push(make(Kind::name_of_class));
        stack_.back()->text = std::move(module) + "." + take_line();
        return;
      }
      case 'Q': return push(storage_of(*pop()));
      case 'R': {
        auto const arguments = pop();
        auto const callee = pop();
        return push(result_of(*callee, *arguments));
      }
      default: throw BadPickle{"it holds more than tensors in dicts (pickle opcode " + std::to_string(opcode) + ")"};
    }
  }

  void push_memo(std::uint64_t index) {
    auto const found = memo_.find(index);
    if (found == memo_.end() || !found->second) { throw BadPickle{"it is damaged"}; }
    push(found->second);
  }

  static Value const& item(Value const& tuple, std::size_t index, Kind kind) {
    if (index >= tuple.items.size() || tuple.items[index]->kind != kind) { throw BadPickle{"it is damaged"}; }
    return *tuple.items[index];
  }

  /// ('storage', class, key, device, elements)
  ValuePtr storage_of(Value const& id) {
    auto const& class_name = item(id, 1, Kind::name_of_class).text;
    auto const type = type_of_storage(class_name);
    if (!type) { throw BadPickle{"it holds a " + class_name + ", which is not supported"}; }
    auto const& key = item(id, 2, Kind::text).text;
    auto& storage = storages_[key];
    if (!storage) {
      auto [data, size] = archive_.getRecord("data/" + key);
      storage = make(Kind::storage);
      c10::Storage const bytes(c10::Storage::use_byte_size_t(), size, std::move(data));
      storage->tensor =
          at::empty({0}, *type).set_(bytes, 0, {static_cast<std::int64_t>(size / c10::elementSize(*type))}, {1});
    }
    return storage;
  }

  static std::vector<std::int64_t> numbers_of(Value const& tuple) {
    std::vector<std::int64_t> numbers;
    for (auto const& number : tuple.items) { numbers.push_back(number->number); }
    return numbers;
  }

  static ValuePtr result_of(Value const& callee, Value const& arguments) {
    if (callee.text == "collections.OrderedDict") { return make(Kind::dict); }
    if (callee.text == "torch._utils._rebuild_parameter" || callee.text == "torch.jit._pickle.restore_type_tag") {
      if (arguments.items.empty()) { throw BadPickle{"it is damaged"}; }
      return arguments.items[0];
    }
    if (callee.text == "torch._utils._rebuild_tensor_v2") {
      auto tensor = make(Kind::tensor);
      auto const& flat = item(arguments, 0, Kind::storage).tensor;
      auto const offset = item(arguments, 1, Kind::number).number;
      // LibTorch checks that the view lies inside.
      tensor->tensor = flat.as_strided(numbers_of(item(arguments, 2, Kind::tuple)),
                                       numbers_of(item(arguments, 3, Kind::tuple)), offset);
      return tensor;
    }
    auto other = make(Kind::other);
    other->text = callee.text;
    return other;
  }

  caffe2::serialize::PyTorchStreamReader& archive_;
  at::DataPtr bytes_;
  std::size_t size_ = 0;
  std::size_t at_ = 0;
  std::vector<ValuePtr> stack_;
  std::map<std::uint64_t, ValuePtr> memo_;
  std::map<std::string, ValuePtr> storages_;
};

std::string described(Value const& value) {
  return to_string(value.kind) + (value.kind == Value::Kind::other ? " " + value.text : std::string());
}

std::map<std::string, at::Tensor> tensors_of(Value const& value) {
  if (value.kind != Value::Kind::dict) { throw BadPickle{"it holds a " + described(value) + ", not a dict"}; }
  std::map<std::string, at::Tensor> tensors;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    auto const& key = *value.items[i];
    auto const& entry = *value.items[i + 1];
    // Training programs like to wrap the dict.
    if ((key.text == "state_dict" || key.text == "model") && entry.kind == Value::Kind::dict) {
      return tensors_of(entry);
    }
    if (key.kind != Value::Kind::text || entry.kind != Value::Kind::tensor) {
      throw BadPickle{"its entry '" + key.text + "' is a " + described(entry) + ", not a tensor"};
    }
    tensors.emplace(key.text, entry.tensor);
  }
  return tensors;
}

}  // namespace

std::map<std::string, at::Tensor> read_pickled_tensors(std::string const& file) {
  auto const refuse = [&](std::string const& what) {
    throw InvalidArgument("no state dict could be read from '" + file + "': " + what);
  };
  if (!std::filesystem::is_regular_file(file)) { refuse("there is no such file"); }
  std::map<std::string, at::Tensor> tensors;
  try {
    caffe2::serialize::PyTorchStreamReader archive(file);
    tensors = tensors_of(*PickleReader(archive).read());
  } catch (BadPickle const& error) { refuse(error.what); } catch (c10::Error const& error) {
    std::string const text = error.what_without_backtrace();
    refuse("it is not a file that `torch.save(model.state_dict(), file)` wrote (" + text.substr(0, text.find('\n')) +
           ")");
  }
  return tensors;
}

}  // namespace maxbatch::models

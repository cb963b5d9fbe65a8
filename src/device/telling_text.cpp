#include "telling_text.hpp"

namespace maxbatch::detail {

std::string without_backtrace(std::string text) {
  auto const backtrace = text.find("\nException raised from ");
  if (backtrace != std::string::npos) { text.resize(backtrace); }
  return text;
}

std::string_view without_script_traceback(std::string_view text) {
  constexpr std::string_view wrapper = "The following operation failed in the TorchScript interpreter.";
  constexpr std::string_view message = "\nRuntimeError: ";
  auto const wrapped = text.find(wrapper);
  if (wrapped == std::string_view::npos) { return text; }
  auto const inner = text.find(message, wrapped);
  return inner == std::string_view::npos ? text : text.substr(inner + message.size());
}

std::string_view first_line(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  auto const begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) { return {}; }
  auto const end = text.find('\n', begin);
  auto const line = text.substr(begin, end == std::string_view::npos ? end : end - begin);
  return line.substr(0, line.find_last_not_of(blanks) + 1);
}

std::string shortened(std::string text, std::size_t limit) {
  constexpr std::string_view ellipsis = "...";
  if (text.size() <= limit) { return text; }
  auto end = limit - ellipsis.size();
  auto const continues_a_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && continues_a_character(end)) { --end; }
  text.resize(end);
  return text.append(ellipsis);
}

}  // namespace maxbatch::detail

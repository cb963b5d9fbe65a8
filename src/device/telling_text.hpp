#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace maxbatch::detail {

/// Cuts off what c10 appends from "Exception raised from" on: frames name functions and files, and those names would be
/// taken for what the failure says.
std::string without_backtrace(std::string text);

/// Of TorchScript's wrapping (a traceback of script source, then the message) the message; other texts as they are. The
/// traceback quotes the user's code, comments included, which is no evidence either.
std::string_view without_script_traceback(std::string_view text);

/// The first line that is not blank, without surrounding blanks.
std::string_view first_line(std::string_view text);

/// At most `limit` bytes, "..." for what is missing; never half a UTF-8 character.
std::string shortened(std::string text, std::size_t limit);

}  // namespace maxbatch::detail

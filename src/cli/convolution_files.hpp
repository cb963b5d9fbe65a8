#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// The questions of a file, a line each, without its comments; each once, in the file's order. `option` named the file.
/// Throws: UsageError when the file cannot be read, with file and line for what is no question.
std::vector<std::string> read_questions(std::string const& option, std::filesystem::path const& path);

/// Adds questions to a file of them, which need not be there yet: each stands there once, in alphabetical order.
/// Returns how many are new.  Throws: UsageError when the file is none of questions, or cannot be written.
std::size_t merge_questions(std::string const& option, std::filesystem::path const& path,
                            std::vector<std::string> const& questions);

/// Where profile-gpu writes the convolution table that belongs to a profile: NAME.convolutions.txt beside NAME.card.txt.
std::filesystem::path table_beside(std::filesystem::path const& profile);

/// Whole or not at all: nobody ever reads half a file.  Throws: UsageError.
void replace_file(std::string const& option, std::filesystem::path const& path, std::string const& text);

/// Throws: UsageError.
std::string read_whole_file(std::string const& option, std::filesystem::path const& path);

}  // namespace maxbatch::cli

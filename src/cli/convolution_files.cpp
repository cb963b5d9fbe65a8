#include "convolution_files.hpp"

#include "dry_cuda/libraries/convolution_question.hpp"
#include "usage_error.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include <unistd.h>

namespace maxbatch::cli {
namespace {

bool says_something(std::string const& line) {
  auto const first = line.find_first_not_of(" \t\r");
  return first != std::string::npos && line[first] != '#';
}

}  // namespace

std::string read_whole_file(std::string const& option, std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw UsageError(option + ": " + path.string() + " cannot be read");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_file(std::string const& option, std::filesystem::path const& path, std::string const& text) {
  // A pipe, or /dev/stderr, is written to and not replaced.
  auto const is_special = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  auto written = path;
  if (!is_special) { written += ".new" + std::to_string(getpid()); }
  std::ofstream file(written, std::ios::binary);
  file << text;
  auto const is_whole = static_cast<bool>(file.flush());
  file.close();
  std::error_code error;
  if (is_whole && !is_special) { std::filesystem::rename(written, path, error); }
  if (!is_whole || error) {
    std::error_code ignored;
    if (!is_special) { std::filesystem::remove(written, ignored); }
    throw UsageError(option + ": " + path.string() + " cannot be written");
  }
}

std::vector<std::string> read_questions(std::string const& option, std::filesystem::path const& path) {
  std::istringstream lines(read_whole_file(option, path));
  std::vector<std::string> questions;
  std::unordered_set<std::string> seen;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!says_something(line)) { continue; }
    try {
      auto question = dry::ConvolutionQuestion::parse(line).text();
      if (seen.insert(question).second) { questions.push_back(std::move(question)); }
    } catch (std::invalid_argument const& error) {
      throw UsageError(option + ": " + path.string() + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
  return questions;
}

std::size_t merge_questions(std::string const& option, std::filesystem::path const& path,
                            std::vector<std::string> const& questions) {
  std::set<std::string> all;
  if (std::filesystem::exists(path)) {
    for (auto const& question : read_questions(option, path)) { all.insert(question); }
  }
  std::size_t added = 0;
  for (auto const& question : questions) { added += all.insert(question).second ? std::size_t{1} : std::size_t{0}; }
  std::string text =
      "# Convolutions that no table answered; on a machine with the card: maxbatch profile-gpu --questions FILE\n";
  for (auto const& question : all) { text += question + '\n'; }
  replace_file(option, path, text);
  return added;
}

std::filesystem::path table_beside(std::filesystem::path const& profile) {
  auto name = profile.filename().string();
  for (std::string const ending : {".card.txt", ".txt", ".card"}) {
    if (name.size() <= ending.size() || name.compare(name.size() - ending.size(), ending.size(), ending) != 0) {
      continue;
    }
    name.resize(name.size() - ending.size());
    break;
  }
  return profile.parent_path() / (name + ".convolutions.txt");
}

}  // namespace maxbatch::cli

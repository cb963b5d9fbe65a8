// The convolution tables, questions and counts of this process.
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/libraries/convolution_table.hpp"
#include "dry_cuda/libraries/convolution_table_text.hpp"
#include "dry_cuda/libraries/real_library.hpp"

#include <cudnn_graph.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace maxbatch::dry {
namespace {

std::string environment_path(char const* name) {
  char const* const value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, before the program changes it
  return value == nullptr ? "" : value;
}

/// What cuDNN plans changes from version to version, and a table of another one would be believed without reason.
bool is_for(std::string_view table, std::string const& card, std::string const& cudnn) {
  return convolution_table_header(table, "card") == card && convolution_table_header(table, "cudnn") == cudnn;
}

ConvolutionTable read_tables() {
  ConvolutionTable table;
  auto const cudnn = std::to_string(MAXBATCH_DRY_REAL(kCudnn, cudnnGetVersion)());
  for (auto const text : built_in_convolution_tables()) {
    if (is_for(text, card_profile().name, cudnn)) table.add_sorted(text);
  }
  auto const path = environment_path("MAXBATCH_CONVOLUTION_TABLE");
  if (path.empty()) return table;
  std::ifstream file(path);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  if (!file) end_with_sentence("the convolution table " + path + " cannot be read");
  if (!is_for(text, card_profile().name, cudnn)) {
    end_with_sentence("the convolution table " + path + " is for " + convolution_table_header(text, "card") +
                      " and cuDNN " + convolution_table_header(text, "cudnn") + ", not for " + card_profile().name +
                      " and cuDNN " + cudnn);
  }
  try {
    table.add(text);
  } catch (std::runtime_error const& error) { end_with_sentence(path + ": " + error.what()); }
  return table;
}

}  // namespace

ConvolutionTable const& convolution_table() {
  static auto const* const table = new ConvolutionTable(read_tables());
  return *table;
}

ConvolutionQuestionLog& convolution_questions() {
  static auto* const log = new ConvolutionQuestionLog(environment_path("MAXBATCH_CONVOLUTION_QUESTIONS"));
  return *log;
}

}  // namespace maxbatch::dry

#pragma once

#include "dry_cuda/libraries/convolution_table_text.hpp"

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch::test {

/// Each `every`th answer of a convolution table.
inline dry::ConvolutionAnswers some_answers(std::string const& table, std::size_t every) {
  dry::ConvolutionAnswers answers;
  std::size_t number = 0;
  dry::read_convolution_table(table, [&](dry::ConvolutionAtBatch const& asked, std::vector<std::int64_t> workspaces) {
    if (++number % every == 0) { answers[dry::question_text(asked)] = std::move(workspaces); }
  });
  return answers;
}

inline void write_questions(std::string const& path, dry::ConvolutionAnswers const& answers) {
  std::ofstream file(path);
  for (auto const& [question, workspaces] : answers) { file << question << '\n'; }
}

}  // namespace maxbatch::test

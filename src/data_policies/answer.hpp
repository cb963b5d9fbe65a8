#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

/// What an operator whose result depends on data is told on a dry card: how many, or which value. A value type that knows no
/// LibTorch; the grammar is in docs/data_policies.md.
struct Answer {
  enum class Kind {
    worst,   ///< the count that needs most memory: all that there can be
    none,    ///< a count of 0
    share,   ///< of all that there can be
    number,  ///< so many, if there are so many; for a scalar, its value
    truth    ///< true or false: 1 or 0
  };
  Kind kind = Kind::worst;
  double amount = 0;            ///< of `share`, in percent; of `number`; 1 or 0 of `truth`
  std::vector<Answer> in_turn;  ///< where not empty: these in turn, over and over, and the two above mean nothing

  friend bool operator==(Answer const& left, Answer const& right) {
    return left.kind == right.kind && left.amount == right.amount && left.in_turn == right.in_turn;
  }
};

/// Reads `worst`, `none`, `25%`, `512`, `at most 512`, `true`, `false`, or several with commas and `in turn` behind.
/// Throws: std::invalid_argument naming the text.
Answer read_answer(std::string_view text);
/// The text from which read_answer makes the same answer.
std::string answer_text(Answer const& answer);

/// The one of `in_turn` whose turn it is at call `call`, counted from 0; otherwise the answer itself.
Answer const& answer_at(Answer const& answer, std::int64_t call);

/// How many, where `all` is what `worst` stands for and there can never be more than `most`. In [0, most].
std::int64_t count_of(Answer const& answer, std::int64_t all, std::int64_t most);

/// Whether it says which value a scalar has; otherwise it is about counts alone.
bool has_value(Answer const& answer);

}  // namespace maxbatch::dry

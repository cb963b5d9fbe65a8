#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// Somebody's command line with a place for a number.
class VariedCommand {
 public:
  /// `argument`: the number takes the place of what stands after it (`--batch-size 8`), or after its equals sign
  /// (`--batch-size=8`, `batch_size=8`). Empty: it takes the place of each `{}`.
  /// Throws: UsageError when there is no such place.
  VariedCommand(std::vector<std::string> const& command, std::string const& argument);

  std::vector<std::string> with(std::int64_t number) const;
  /// "python train.py --batch-size {}", as a shell would take it.
  std::string text() const;
  /// What is varied, for people: "--batch-size"; "{}" where it has no name.
  std::string const& name() const { return name_; }

 private:
  std::vector<std::string> command_;  // with `{}` in the place, and braces of the program's own marked
  std::vector<bool> is_varied_;
  std::string name_;
};

}  // namespace maxbatch::cli

#pragma once

#include <string>

namespace maxbatch::process {

/// A value for a variable in the environment of a program, by which everything that it starts is known, in whatever session or
/// group it ends up: launchers of distributed training make new ones.
class ProcessMark {
 public:
  static constexpr char const* kVariable = "MAXBATCH_TRIAL";

  ProcessMark();
  std::string const& value() const { return value_; }

  /// Ends all processes that carry the mark and belong to this user, and those that they start meanwhile.
  void kill_all() const;

 private:
  std::string value_;
};

}  // namespace maxbatch::process

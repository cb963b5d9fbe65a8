#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::cli {

enum class LogLevel { trace, debug, info, warn, error, off };

std::vector<std::string> const& log_level_names();
std::optional<LogLevel> parse_log_level(std::string_view name);

/// The program's log, by spdlog, which no file that knows LibTorch may include. Lines go where `write` puts them: beside a
/// live progress line someone has to make room for them.
class Log {
 public:
  Log(LogLevel level, std::function<void(std::string_view line)> write);
  ~Log();
  Log(Log const&) = delete;
  Log& operator=(Log const&) = delete;

  void debug(std::string_view text);
  void info(std::string_view text);
  void warn(std::string_view text);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace maxbatch::cli

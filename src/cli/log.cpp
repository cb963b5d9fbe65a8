#include "log.hpp"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace maxbatch::cli {
namespace {

class FunctionSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

 protected:
  void sink_it_(spdlog::details::log_msg const& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  std::function<void(std::string_view)> write_;
};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace: return spdlog::level::trace;
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: break;
  }
  return spdlog::level::off;
}

}  // namespace

std::vector<std::string> const& log_level_names() {
  static std::vector<std::string> const names = {"trace", "debug", "info", "warn", "error", "off"};
  return names;
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  auto const& names = log_level_names();
  auto const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) { return std::nullopt; }
  return static_cast<LogLevel>(std::distance(names.begin(), found));
}

struct Log::Implementation {
  spdlog::logger logger;
};

Log::Log(LogLevel level, std::function<void(std::string_view)> write)
    : implementation_(
          new Implementation{spdlog::logger("maxbatch", std::make_shared<FunctionSink>(std::move(write)))}) {
  auto& logger = implementation_->logger;
  logger.set_formatter(std::make_unique<spdlog::pattern_formatter>("[%H:%M:%S.%e] %l: %v",
                                                                   spdlog::pattern_time_type::local,
                                                                   /*eol=*/""));
  logger.set_level(to_spdlog(level));
}
Log::~Log() = default;

void Log::debug(std::string_view text) { implementation_->logger.debug("{}", text); }
void Log::info(std::string_view text) { implementation_->logger.info("{}", text); }
void Log::warn(std::string_view text) { implementation_->logger.warn("{}", text); }

}  // namespace maxbatch::cli

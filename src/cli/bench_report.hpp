#pragma once

#include <maxbatch/report/report_subject.hpp>
#include <maxbatch/training/speed.hpp>

#include <optional>
#include <string>

namespace maxbatch::cli {

/// What `bench` prints.
struct BenchReport {
  ReportSubject subject;
  SpeedOptions options;
  SpeedResult speed;
  std::optional<std::int64_t> boundary;  ///< the largest batch, where a search was asked for
};

std::string bench_text(BenchReport const& report);
std::string bench_json(BenchReport const& report);

}  // namespace maxbatch::cli

#pragma once

#include "report_page.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace maxbatch::dry {

/// The launcher's page, as this process finds it under `path`; null where there is none, or one of another build.
ReportPage* map_report_page(std::string const& path);

/// A record of it for this process; null where no more are free.
ProcessRecord* claim_record(ReportPage& page);

/// Its number and command line.
void describe_process(ProcessRecord& record);

/// Cut to what there is room for.
template <std::size_t size>
void copy_text(std::array<char, size>& to, std::string const& text) {
  auto const length = text.copy(to.data(), size - 1);
  to.at(length) = '\0';
}

}  // namespace maxbatch::dry

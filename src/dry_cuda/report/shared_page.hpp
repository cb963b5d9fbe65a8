#pragma once

#include "report_page.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace maxbatch::dry {

/// So many bytes of a file, shared with whoever maps it; null where it is not there or is smaller.
void* map_shared_file(std::string const& path, std::size_t bytes);

/// A page of the launcher's (ReportPage, EventPage), as this process finds it under `path`; null where there is none, or one of
/// another build.
template <typename Page>
Page* map_page(std::string const& path) {
  auto* const page = static_cast<Page*>(map_shared_file(path, sizeof(Page)));
  return page != nullptr && page->magic == Page::kMagic ? page : nullptr;
}

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

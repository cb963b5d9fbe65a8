#include "shared_page.hpp"

#include <array>
#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

std::string command_line() {
  std::string text;
  auto const file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) { return text; }
  std::array<char, 255> bytes{};
  auto const count = read(file, bytes.data(), bytes.size());
  close(file);
  for (ssize_t i = 0; i < count; ++i) {
    auto const letter = bytes.at(static_cast<std::size_t>(i));
    text += letter == '\0' ? ' ' : letter;
  }
  while (!text.empty() && text.back() == ' ') { text.pop_back(); }
  return text;
}

}  // namespace

void* map_shared_file(std::string const& path, std::size_t bytes) {
  if (path.empty()) { return nullptr; }
  auto const file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) { return nullptr; }
  struct stat status {};
  void* memory = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

ProcessRecord* claim_record(ReportPage& page) {
  auto const number = page.processes.fetch_add(1);
  return number < ReportPage::kProcesses ? &page.process.at(static_cast<std::size_t>(number)) : nullptr;
}

void describe_process(ProcessRecord& record) {
  record.process_id = getpid();
  copy_text(record.command, command_line());
}

}  // namespace maxbatch::dry

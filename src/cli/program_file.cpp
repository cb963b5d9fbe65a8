#include "program_file.hpp"

#include "usage_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace maxbatch::cli {
namespace {

[[noreturn]] void refuse(std::string const& program, std::string const& why) {
  throw UsageError("'" + program + "' " + why);
}

bool is_there(std::string const& path) { return access(path.c_str(), F_OK) == 0; }

std::vector<std::string> search_path() {
  char const* const text = std::getenv("PATH");
  std::istringstream folders(text == nullptr ? "/bin:/usr/bin" : text);
  std::vector<std::string> found;
  for (std::string folder; std::getline(folders, folder, ':');) { found.push_back(folder.empty() ? "." : folder); }
  return found;
}

/// The file that exec would take; where none can be executed, one that is at least there.
std::optional<std::string> find_file(std::string const& program) {
  if (program.find('/') != std::string::npos) { return is_there(program) ? std::optional(program) : std::nullopt; }
  std::optional<std::string> second_best;
  for (auto const& folder : search_path()) {
    auto const path = folder + '/' + program;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) { continue; }
    if (access(path.c_str(), X_OK) == 0) { return path; }
    if (!second_best) { second_best = path; }
  }
  return second_best;
}

bool ends_with(std::string const& text, std::string const& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void check_rights(std::string const& program, std::string const& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) { refuse(program, std::string("cannot be read: ") + std::strerror(errno)); }
  if (S_ISDIR(status.st_mode)) { refuse(program, "is a folder, not a program"); }
  if (access(path.c_str(), X_OK) != 0) {
    auto const interpreter = ends_with(path, ".py") ? "python " : ends_with(path, ".sh") ? "sh " : "";
    refuse(program, std::string("is not executable; make it so (chmod +x)") +
                        (*interpreter == '\0' ? "" : std::string(", or start it as: -- ") + interpreter + program));
  }
  auto const other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
  auto const other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getegid();
  auto const capabilities = geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  if (other_user || other_group || capabilities) {
    refuse(program, std::string("runs with rights of its own (") +
                        (other_user    ? "setuid"
                         : other_group ? "setgid"
                                       : "capabilities") +
                        "), and the system then lets no library be put ahead of it; run a copy of it without them");
  }
}

/// The machine code's own interpreter, which is the dynamic loader; nothing in a program without one.
std::optional<std::string> loader_of(std::string const& bytes) {
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    auto const place = header.e_phoff + static_cast<std::size_t>(i) * header.e_phentsize;
    Elf64_Phdr part{};
    if (place + sizeof(part) > bytes.size()) { break; }
    std::memcpy(&part, bytes.data() + place, sizeof(part));
    if (part.p_type != PT_INTERP || part.p_offset + part.p_filesz > bytes.size()) { continue; }
    return std::string(bytes.c_str() + part.p_offset);
  }
  return std::nullopt;
}

void check_machine_code(std::string const& program, std::string const& bytes) {
  auto const machine = static_cast<unsigned char>(bytes[EI_NIDENT + 2]) +
                       static_cast<unsigned>(static_cast<unsigned char>(bytes[EI_NIDENT + 3])) * 256;
  if (bytes[EI_CLASS] != ELFCLASS64) { refuse(program, "is a 32-bit program; CUDA 13, and so a dry card, is 64-bit"); }
  if (machine != EM_X86_64) { refuse(program, "is for another kind of processor than x86-64"); }
  auto const loader = loader_of(bytes);
  if (!loader) {
    refuse(program,
           "is linked statically, without the dynamic loader, so nothing can stand in for CUDA in it; link it "
           "dynamically");
  }
  if (!is_there(*loader)) { refuse(program, "needs the dynamic loader " + *loader + ", which is not there"); }
}

void check(std::string const& program, int depth);

/// What #! names: the interpreter, or the program that env is to find.
void check_script(std::string const& program, std::string const& bytes, int depth) {
  std::istringstream words(bytes.substr(2, bytes.find('\n') - 2));
  std::vector<std::string> const line{std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
  if (line.empty()) { return; }
  auto interpreter = line.front();
  auto const by_env =
      ends_with(interpreter, "/env") && line.size() > 1 && line[1][0] != '-' && line[1].find('=') == std::string::npos;
  if (is_there(interpreter) && by_env) { interpreter = line[1]; }
  if (!find_file(interpreter)) {
    refuse(program, "is a script for " + interpreter + ", which is not there; start it as: -- INTERPRETER " + program);
  }
  constexpr int kMostInterpreters = 4;  // Linux follows no more
  if (depth < kMostInterpreters) { check(interpreter, depth + 1); }
}

void check(std::string const& program, int depth) {
  auto const path = find_file(program);
  if (!path) {
    refuse(program, program.find('/') == std::string::npos ? "is in no folder of PATH; give its path" : "is not there");
  }
  check_rights(program, *path);
  // Program headers and the loader's name lie in the first page of every program that a linker has written.
  std::ifstream file(*path, std::ios::binary);
  std::string bytes(std::size_t{64} << 10, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() >= sizeof(Elf64_Ehdr) && bytes.compare(0, SELFMAG, ELFMAG) == 0) {
    check_machine_code(program, bytes);
  } else if (bytes.size() >= sizeof(Elf32_Ehdr) && bytes.compare(0, SELFMAG, ELFMAG) == 0) {
    refuse(program, "is a 32-bit program; CUDA 13, and so a dry card, is 64-bit");
  } else if (bytes.compare(0, 2, "#!") == 0) {
    check_script(program, bytes, depth);
  }
}

}  // namespace

void check_program_file(std::string const& program) { check(program, 0); }

}  // namespace maxbatch::cli

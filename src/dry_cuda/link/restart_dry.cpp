// Note [Linked ahead of LibTorch]
// A process is on a dry card or on a real one from its first instruction: CUDA's libraries bind to whatever stands first.
// So a program that is linked with this library and finds a card named in its environment (MAXBATCH_CARD, or
// MAXBATCH_CARD_PROFILE) starts itself once more, with libmaxbatch_dry_cuda.so ahead of every other library. It is then the
// same process with the same arguments, and nothing of it has run yet: this constructor is the first of all (-z initfirst).
// Without such a variable, it reads the environment once and is never heard of again: CUDA's calls do not come by here.
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace {

constexpr char const* kLibrary = "libmaxbatch_dry_cuda.so";
constexpr std::size_t kMostVariables = 16384;

/// libc's own environment is not there yet.
char const* variable(char* const* environment, char const* name) {
  auto const length = std::strlen(name);
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      return *environment + length + 1;
    }
  }
  return nullptr;
}

bool says_something(char const* value) { return value != nullptr && *value != '\0'; }

bool is_the_library(char const* path) {
  auto const* const slash = std::strrchr(path, '/');
  return std::strcmp(slash == nullptr ? path : slash + 1, kLibrary) == 0;
}

bool is_loaded() {
  auto const look = [](dl_phdr_info* info, std::size_t, void*) {
    return info->dlpi_name != nullptr && is_the_library(info->dlpi_name) ? 1 : 0;
  };
  return dl_iterate_phdr(look, nullptr) != 0;
}

void say(char const* text) { [[maybe_unused]] auto const written = write(STDERR_FILENO, text, std::strlen(text)); }

[[noreturn]] void end_with(char const* sentence, char const* detail = "") {
  say("maxbatch: MAXBATCH_CARD is set, ");
  say(sentence);
  say(detail);
  say(".\n");
  _exit(2);
}

/// Where the environment says, else beside this library.
void find_library(char* const* environment, char (&path)[PATH_MAX]) {
  if (auto const* const said = variable(environment, "MAXBATCH_DRY_CUDA_LIBRARY"); says_something(said)) {
    if (std::strlen(said) >= sizeof(path)) { end_with("and MAXBATCH_DRY_CUDA_LIBRARY is too long a path"); }
    std::strcpy(path, said);  // NOLINT(clang-analyzer-security.insecureAPI.strcpy): its length was looked at
    return;
  }
  Dl_info ours{};
  auto const known = dladdr(reinterpret_cast<void*>(&is_loaded), &ours) != 0 && ours.dli_fname != nullptr;
  auto const* const slash = known ? std::strrchr(ours.dli_fname, '/') : nullptr;
  auto const folder = slash == nullptr ? std::size_t{0} : static_cast<std::size_t>(slash - ours.dli_fname) + 1;
  if (folder == 0 || folder + std::strlen(kLibrary) >= sizeof(path)) {
    end_with("and where the library that stands in for CUDA lies is not known; set MAXBATCH_DRY_CUDA_LIBRARY");
  }
  std::memcpy(path, ours.dli_fname, folder);
  std::strcpy(path + folder, kLibrary);  // NOLINT(clang-analyzer-security.insecureAPI.strcpy): likewise
}

/// The program's own file. One that has been replaced meanwhile can still be started by its link.
void find_program(char (&path)[PATH_MAX]) {
  auto const length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  path[length > 0 ? length : 0] = '\0';
  if (length <= 0 || access(path, X_OK) != 0) { std::strcpy(path, "/proc/self/exe"); }  // NOLINT: it fits
  auto const* const slash = std::strrchr(path, '/');
  if (slash != nullptr && std::strncmp(slash, "/ld-", 4) == 0) {
    end_with(
        "but the program was started by way of the dynamic loader, which starts it no second time; use "
        "`maxbatch dry-run --card NAME -- PROGRAM`");
  }
}

void restart_dry(char** arguments, char** environment) {
  static char library[PATH_MAX];
  static char program[PATH_MAX];
  static char preload[2 * PATH_MAX];
  static char* variables[kMostVariables];
  find_library(environment, library);
  if (access(library, R_OK) != 0) { end_with("and the library that stands in for CUDA is not there: ", library); }
  auto const* const others = variable(environment, "LD_PRELOAD");
  if (others != nullptr && std::strstr(others, kLibrary) != nullptr) {
    end_with("but the system let no library be put ahead of this program (setuid, or capabilities?)");
  }
  find_program(program);
  std::strcpy(preload, "LD_PRELOAD=");  // NOLINT: it fits
  std::strcat(preload, library);        // NOLINT: it fits
  if (says_something(others)) {
    if (std::strlen(others) + std::strlen(preload) + 2 > sizeof(preload)) { end_with("and LD_PRELOAD is too long"); }
    std::strcat(preload, ":");     // NOLINT: it fits
    std::strcat(preload, others);  // NOLINT: it fits
  }
  std::size_t count = 0;
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, "LD_PRELOAD=", 11) == 0) { continue; }
    if (count + 2 >= kMostVariables) { end_with("and there are too many variables in the environment"); }
    variables[count++] = *environment;
  }
  variables[count] = preload;
  execve(program, arguments, variables);
  end_with("and the program cannot be started once more: ", program);
}

/// The dynamic loader hands every constructor what main gets.
__attribute__((constructor)) void begin(int, char** arguments, char** environment) {
  auto const names_a_card = says_something(variable(environment, "MAXBATCH_CARD")) ||
                            says_something(variable(environment, "MAXBATCH_CARD_PROFILE"));
  if (names_a_card && !is_loaded()) { restart_dry(arguments, environment); }
}

}  // namespace

/// What needs_restart.cpp refers to.
extern "C" __attribute__((visibility("default"))) int const maxbatch_dry_cuda_restart;
int const maxbatch_dry_cuda_restart = 1;

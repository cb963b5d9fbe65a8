#include "dry_restart.hpp"

#include "process/dry_world.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <unistd.h>

namespace maxbatch::cli {
namespace {

/// As the program was started; a program of a user's has its own names and options around ours.
std::vector<std::string> arguments_of_this_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string const all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size();) {
    auto const end = all.find('\0', begin);
    arguments.push_back(all.substr(begin, end - begin));
    if (end == std::string::npos) { break; }
    begin = end + 1;
  }
  return arguments;
}

void name_the_device(std::vector<std::string>& arguments) {
  constexpr char const* kThere = "cuda:0";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--device" && i + 1 < arguments.size()) {
      arguments[i + 1] = kThere;
    } else if (arguments[i].rfind("--device=", 0) == 0) {
      arguments[i] = std::string("--device=") + kThere;
    }
  }
}

}  // namespace

void restart_on_dry_card(std::string const& card) {
  process::DryWorldOrder order;
  order.card_name = card;
  order.card_profile = card_profile_text(CardCatalogue::built_in().find(card));
  try {
    process::DryWorld const world(order);
    world.outlive_exec();
    auto arguments = arguments_of_this_process();
    name_the_device(arguments);
    auto environment = process::environment_with(world.environment());
    auto const program = std::filesystem::read_symlink("/proc/self/exe").string();
    execve(program.c_str(), process::pointers_to(arguments).data(), process::pointers_to(environment).data());
    throw UsageError("a dry card needs this program to start itself, and " + program +
                     " does not start: " + std::strerror(errno));
  } catch (process::NoDryWorld const& error) { throw UsageError(error.what()); }
}

}  // namespace maxbatch::cli

#include "access_fault.hpp"

#include "card.hpp"

#include <array>
#include <cstdint>
#include <string_view>

#include <signal.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

struct sigaction previous {};

/// Only what a signal handler may do.
void say(std::string_view text) {
  [[maybe_unused]] auto const written = write(STDERR_FILENO, text.data(), text.size());
}

void say_address(void const* pointer) {
  std::array<char, 18> text{};
  text.fill('0');
  text[1] = 'x';
  auto rest = reinterpret_cast<std::uintptr_t>(pointer);
  for (auto place = text.size(); place-- > 2; rest /= 16) { text.at(place) = "0123456789abcdef"[rest % 16]; }
  say({text.data(), text.size()});
}

void handle(int signal, siginfo_t* info, void* context) {
  if (is_device_address(info->si_addr)) {
    say("maxbatch dry-run: the host accessed device memory, at ");
    say_address(info->si_addr);
    say("; on a real card this is a segmentation fault, too.\n");
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler == SIG_IGN) { return; }
  if (previous.sa_handler != SIG_DFL) {
    previous.sa_handler(signal);
    return;
  }
  // The instruction runs again, and this time nobody catches its fault.
  sigaction(SIGSEGV, &previous, nullptr);
}

}  // namespace

void explain_access_faults() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous);
}

}  // namespace maxbatch::dry

#pragma once

#include <string>

namespace maxbatch::cli {

/// Starts this program anew, in this process and with the same arguments, on a dry card: there `--device CARD` reads
/// `--device cuda:0`. Whether a process has a dry card is settled before its CUDA libraries are loaded, so it cannot change its
/// mind later.
/// Throws: UsageError where there is no dry card to be had; does not return.
[[noreturn]] void restart_on_dry_card(std::string const& card);

}  // namespace maxbatch::cli

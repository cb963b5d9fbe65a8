#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/card.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// No card of that name, or several. The text says which are near.
class UnknownCard : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The build of LibTorch that kernels_for speaks of: "2.11.0+cu130".
std::string_view kernels_build();
/// The architectures that this build holds machine code for, ascending; it holds nothing that could be compiled later.
std::vector<ComputeCapability> kernels_in_build();
/// The newest of them that a card can load: code for X.Y runs on X.Z with Z >= Y. None: LibTorch cannot run on the card.
std::optional<ComputeCapability> kernels_for(ComputeCapability card);

/// The cards that people train on.
/// Threads: immutable.
class CardCatalogue {
 public:
  static CardCatalogue const& built_in();

  std::vector<Card> const& all() const { return cards_; }
  /// By name, alias or device name; upper case, spaces, dashes and the words NVIDIA, GeForce and Tesla do not matter.
  /// Throws: UnknownCard, with the nearest names.
  Card const& find(std::string_view name) const;
  /// Those that every word of `text` occurs in: names, aliases, device name, architecture or compute capability.
  std::vector<Card const*> search(std::string_view text) const;
  /// The name that `text` most probably is a slip of.
  std::optional<std::string> nearest(std::string_view text) const;

 private:
  CardCatalogue();

  std::vector<Card> cards_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/card_catalogue_inl.hpp>
#endif

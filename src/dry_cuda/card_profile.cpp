#include "card_profile.hpp"

#include "dry_cuda/activation/environment.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <sstream>

namespace maxbatch::dry {

CardProfile catalogued_card_profile(std::string const& name) {
  std::istringstream text(maxbatch::card_profile_text(CardCatalogue::built_in().find(name)));
  return read_card_profile(text, name);
}

CardProfile const& card_profile() {
  static CardProfile const card = [] {
    auto const& path = environment().card_profile_path;
    try {
      return path.empty() ? catalogued_card_profile(environment().card_name) : read_card_profile(path);
    } catch (std::exception const& error) { end_with_sentence(error.what()); }
  }();
  return card;
}

}  // namespace maxbatch::dry

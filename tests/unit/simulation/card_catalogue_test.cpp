#include <maxbatch/simulation/card_catalogue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<Card> const& cards() { return CardCatalogue::built_in().all(); }

std::vector<std::string> names_of(std::vector<Card const*> const& found) {
  std::vector<std::string> names(found.size());
  std::transform(found.begin(), found.end(), names.begin(), [](Card const* card) { return std::string(card->name); });
  return names;
}

std::string complaint_about(std::string const& name) {
  try {
    CardCatalogue::built_in().find(name);
  } catch (UnknownCard const& error) { return error.what(); }
  return "";
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) { words.push_back(word); }
  return words;
}

TEST(CardCatalogue, KnowsTheCardsThatPeopleTrainOn) {
  EXPECT_GE(cards().size(), 40U);
  for (auto const* name :
       {"GTX 1080 Ti", "RTX 2080 Ti", "RTX 3090", "RTX 4090", "RTX 5090", "RTX A6000", "P100-PCIE-16GB",
        "V100-SXM2-32GB", "T4", "A100-SXM4-80GB", "H100 80GB HBM3", "H200", "B200"}) {
    EXPECT_NO_THROW(CardCatalogue::built_in().find(name)) << name;
  }
}

TEST(CardCatalogue, CallsNoTwoCardsTheSame) {
  std::set<std::string> taken;
  for (auto const& card : cards()) {
    EXPECT_TRUE(taken.insert(std::string(card.name)).second) << card.name;
    for (auto const& alias : words_of(card.aliases)) { EXPECT_TRUE(taken.insert(alias).second) << alias; }
  }
  // Not by spelling alone: each name and alias finds its own card.
  for (auto const& card : cards()) {
    EXPECT_EQ(&CardCatalogue::built_in().find(card.name), &card);
    for (auto const& alias : words_of(card.aliases)) {
      EXPECT_EQ(&CardCatalogue::built_in().find(alias), &card) << alias;
    }
  }
}

TEST(CardCatalogue, SaysWhereEveryFigureIsFrom) {
  for (auto const& card : cards()) {
    std::set<std::string_view> names;
    for (auto const& figure : card.figures()) {
      EXPECT_TRUE(names.insert(figure.name).second) << card.name << ' ' << figure.name;
      EXPECT_GT(figure.source.text.size(), 10U) << card.name << ' ' << figure.name;
      if (figure.name == "reserved_shared_memory_per_block_bytes") {
        EXPECT_GE(figure.value, 0) << card.name;
      } else {
        EXPECT_GT(figure.value, 0) << card.name << ' ' << figure.name;
      }
    }
    EXPECT_EQ(names.size(), 21U) << card.name;
  }
}

TEST(CardCatalogue, EstimatesSayTheirRuleAndQuotesTheirNumber) {
  for (auto const& card : cards()) {
    auto const& source = card.total_memory_source;
    auto const text = std::string(source.text);
    if (source.evidence == FigureEvidence::estimated) {
      EXPECT_THAT(text, testing::AnyOf(HasSubstr("as the "), HasSubstr(" less "))) << card.name;
      continue;
    }
    if (source.evidence == FigureEvidence::measured) { continue; }
    auto const bytes = std::to_string(card.total_memory.count);
    auto const mebibytes = std::to_string(card.total_memory.count >> 20);
    EXPECT_THAT(text,
                testing::AnyOf(HasSubstr(bytes), HasSubstr(mebibytes + "MiB"), HasSubstr(mebibytes + " MiB"),
                               HasSubstr(mebibytes + "MB"), HasSubstr(mebibytes + " MB"), HasSubstr(mebibytes + ".")))
        << card.name;
    if (text.find("MBytes (" + bytes) != std::string::npos) {
      // deviceQuery rounds to the nearest.
      auto const rounded = std::to_string((card.total_memory.count + (1 << 19)) >> 20);
      EXPECT_THAT(text, testing::ContainsRegex(rounded + " MBytes")) << card.name;
    }
  }
}

TEST(CardCatalogue, MemoryIsALittleLessThanTheBoxSays) {
  for (auto const& card : cards()) {
    EXPECT_LT(card.total_memory, card.marketed_memory) << card.name;
    auto const kept = static_cast<double>(headroom(card.marketed_memory, card.total_memory).count) /
                      static_cast<double>(card.marketed_memory.count);
    // ECC in GDDR takes a sixteenth, the driver up to a tenth of a small card.
    EXPECT_LT(kept, 0.1) << card.name;
    EXPECT_EQ(card.total_memory.count % (1 << 16), 0) << card.name << " is no whole number of 64 KiB pages";
    EXPECT_LT(card.context.when_training().count, card.total_memory.count / 4) << card.name;
    EXPECT_LT(card.context.at_start(), card.context.when_training()) << card.name;
  }
}

TEST(CardCatalogue, HardwareIsPlausible) {
  for (auto const& card : cards()) {
    auto const& fixed = card.architecture;
    EXPECT_TRUE(card.multiprocessors >= 10 && card.multiprocessors <= 200) << card.name;
    EXPECT_TRUE(card.clock_khz >= 1'000'000 && card.clock_khz <= 3'000'000) << card.name;
    EXPECT_TRUE(card.memory_clock_khz >= 500'000 && card.memory_clock_khz <= 16'000'000) << card.name;
    EXPECT_EQ(card.memory_bus_bits % 32, 0) << card.name;
    EXPECT_GE(card.l2_cache, Bytes{1 << 20}) << card.name;
    EXPECT_LE(fixed.shared_memory_per_block_optin, fixed.shared_memory_per_multiprocessor) << card.name;
    EXPECT_LE(fixed.shared_memory_per_block, fixed.shared_memory_per_block_optin) << card.name;
    EXPECT_EQ(
        fixed.shared_memory_per_block_optin + fixed.reserved_shared_memory_per_block,
        fixed.capability.major >= 8 ? fixed.shared_memory_per_multiprocessor : fixed.shared_memory_per_block_optin)
        << card.name;
    EXPECT_EQ(fixed.max_threads_per_multiprocessor % fixed.warp_size, 0) << card.name;
  }
}

TEST(CardCatalogue, LargerCardsOfAFamilyAreNotSmaller) {
  auto const& catalogue = CardCatalogue::built_in();
  std::vector<std::vector<std::string>> const families = {
      {"1060", "1070", "1070ti", "1080", "1080ti"},
      {"2060", "2070", "2070super", "2080", "2080super", "2080ti", "titan-rtx"},
      {"3070", "3080", "3090", "3090ti"},
      {"4060", "4060ti-8gb", "4070", "4070ti", "4080", "4080super", "4090"},
      {"5060ti-16gb", "5070ti", "5080", "5090"},
      {"a100-40gb", "h100-sxm", "h200", "b200"},
  };
  for (auto const& family : families) {
    for (std::size_t i = 1; i < family.size(); ++i) {
      auto const& smaller = catalogue.find(family[i - 1]);
      auto const& larger = catalogue.find(family[i]);
      EXPECT_LE(smaller.multiprocessors, larger.multiprocessors) << family[i];
      EXPECT_LE(smaller.marketed_memory, larger.marketed_memory) << family[i];
    }
  }
}

TEST(CardCatalogue, TheMeasuredCardIsTheH200) {
  auto const& card = CardCatalogue::built_in().find("H200");
  EXPECT_EQ(card.device_name, "NVIDIA H200");
  EXPECT_EQ(card.total_memory, Bytes{150109880320});
  EXPECT_EQ(card.multiprocessors, 132);
  EXPECT_EQ(card.l2_cache, Bytes{62914560});
  EXPECT_EQ(card.clock_khz, 1980000);
  EXPECT_EQ(card.memory_clock_khz, 3201000);
  EXPECT_EQ(card.architecture.shared_memory_per_block_optin, Bytes{232448});
  EXPECT_EQ(card.architecture.max_blocks_per_multiprocessor, 32);
  EXPECT_EQ(card.total_memory_source.evidence, FigureEvidence::measured);
  EXPECT_EQ(card.context.source.evidence, FigureEvidence::measured);
  EXPECT_EQ(card.context.at_start(), Bytes{518 << 20});
  EXPECT_EQ(card.context.when_training(), Bytes{610 << 20});
  for (auto const& other : cards()) {
    if (other.name != card.name) { EXPECT_EQ(other.context.source.evidence, FigureEvidence::estimated) << other.name; }
  }
}

TEST(CardCatalogue, FindsACardAsPeopleWriteIt) {
  auto const& catalogue = CardCatalogue::built_in();
  for (auto const* name : {"rtx-2080-ti", "RTX 2080 Ti", "2080ti", "2080 Ti", "NVIDIA GeForce RTX 2080 Ti",
                           "GeForce RTX 2080 Ti", "rtx2080ti", "rtx_2080_ti"}) {
    EXPECT_EQ(catalogue.find(name).name, "rtx-2080-ti") << name;
  }
  EXPECT_EQ(catalogue.find("2080").name, "rtx-2080");  // not the Ti
  EXPECT_EQ(catalogue.find("Tesla V100-SXM2-16GB").name, "v100-sxm2-16gb");
  EXPECT_EQ(catalogue.find("NVIDIA A100-SXM4-80GB").name, "a100-sxm4-80gb");
  EXPECT_EQ(catalogue.find("A6000").name, "rtx-a6000");
}

TEST(CardCatalogue, AnswersASlipWithTheNearestName) {
  EXPECT_EQ(complaint_about("rtx-2080-to"), "no card is called 'rtx-2080-to'; did you mean 'rtx-2080-ti'?");
  EXPECT_THAT(complaint_about("4o90"), HasSubstr("did you mean 'rtx-4090'?"));
  EXPECT_THAT(complaint_about("toaster"), AllOf(HasSubstr("'toaster'"), HasSubstr("maxbatch cards")));
  EXPECT_THAT(complaint_about(""), HasSubstr("maxbatch cards"));
  EXPECT_THAT(complaint_about("NVIDIA"), HasSubstr("maxbatch cards"));
}

TEST(CardCatalogue, DoesNotChooseBetweenCardsOfOneName) {
  EXPECT_THAT(complaint_about("a100"), AllOf(HasSubstr("a100-pcie-40gb"), HasSubstr("a100-sxm4-80gb")));
  EXPECT_EQ(complaint_about("NVIDIA GeForce RTX 4060 Ti"),
            "'NVIDIA GeForce RTX 4060 Ti' is more than one card: rtx-4060-ti-8gb, rtx-4060-ti-16gb");
  EXPECT_THAT(complaint_about("rtx 6000"), HasSubstr("rtx-6000-ada"));  // or the Quadro: not for us to say
}

TEST(CardCatalogue, SearchesInNamesAndArchitectures) {
  auto const& catalogue = CardCatalogue::built_in();
  EXPECT_THAT(names_of(catalogue.search("2080")), ElementsAre("rtx-2080", "rtx-2080-super", "rtx-2080-ti"));
  EXPECT_THAT(names_of(catalogue.search("h100 pcie")), ElementsAre("h100-pcie"));
  EXPECT_THAT(names_of(catalogue.search("VOLTA titan")), ElementsAre("titan-v"));
  EXPECT_THAT(names_of(catalogue.search("10.0")), ElementsAre("b200"));
  EXPECT_THAT(catalogue.search("toaster"), IsEmpty());
  EXPECT_THAT(catalogue.search("--"), IsEmpty());
  EXPECT_EQ(catalogue.search("").size(), catalogue.all().size());
}

TEST(CardCatalogue, SaysWhichCardsLibTorchHasNoKernelsFor) {
  EXPECT_EQ(kernels_for({8, 9}), (ComputeCapability{8, 6}));
  EXPECT_EQ(kernels_for({9, 0}), (ComputeCapability{9, 0}));
  EXPECT_EQ(kernels_for({12, 0}), (ComputeCapability{12, 0}));
  EXPECT_EQ(kernels_for({7, 0}), std::nullopt);
  EXPECT_EQ(kernels_for({6, 1}), std::nullopt);
  for (auto const& card : cards()) {
    auto const old = card.architecture.name == "Pascal" || card.architecture.name == "Volta";
    EXPECT_EQ(kernels_for(card.architecture.capability).has_value(), !old) << card.name;
  }
}

TEST(CardCatalogue, WritesAProfileForTheDryCard) {
  EXPECT_EQ(card_profile_text(CardCatalogue::built_in().find("2080ti")).substr(0, 29), "# rtx-2080-ti; total_bytes is");
  EXPECT_THAT(card_profile_text(CardCatalogue::built_in().find("2080ti")),
              HasSubstr("\nname = NVIDIA GeForce RTX 2080 Ti\nmajor = 7\nminor = 5\nmultiprocessors = 68\n"
                        "threads_per_multiprocessor = 1024\nblocks_per_multiprocessor = 16\n"
                        "registers_per_multiprocessor = 65536\nshared_bytes_per_multiprocessor = 65536\n"
                        "shared_bytes_per_block_optin = 65536\nl2_bytes = 5767168\nmemory_bus_bits = 352\n"
                        "clock_khz = 1545000\nmemory_clock_khz = 7000000\necc = 0\ntotal_bytes = 11348672512\n"));
}

// docs/cards.md is written by this test and checked in. After a change of the cards:
//   MAXBATCH_REWRITE_CARDS_MD=1 simulation_test --gtest_filter='*DocumentationHoldsTheseCards'

std::string documented_cards() {
  std::ostringstream text;
  text << "| card | also | architecture | multiprocessors | total memory, MiB | evidence | context, MiB | LibTorch "
       << kernels_build() << " |\n|---|---|---|---:|---:|---|---:|---|\n";
  for (auto const& card : cards()) {
    auto const kernels = kernels_for(card.architecture.capability);
    std::string aliases;
    for (auto const& alias : words_of(card.aliases)) { aliases += (aliases.empty() ? "" : ", ") + alias; }
    text << "| " << card.name << " | " << aliases << " | " << card.architecture.name << ' '
         << to_string(card.architecture.capability) << " | " << card.multiprocessors << " | "
         << (card.total_memory.count >> 20) << " | " << to_string(card.total_memory_source.evidence) << ": "
         << card.total_memory_source.text << " | " << (card.context.when_training().count >> 20) << " | "
         << (kernels ? "kernels for " + to_string(*kernels) : "no kernels") << " |\n";
  }
  return text.str();
}

TEST(CardCatalogue, DocumentationHoldsTheseCards) {
  auto const path = std::string(MAXBATCH_TEST_DATA_DIR) + "/../../docs/cards.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string const text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string const begin = "<!-- cards: begin -->\n";
  std::string const end = "<!-- cards: end -->\n";
  auto const first = text.find(begin);
  auto const last = text.find(end);
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos);
  auto const table = text.substr(first + begin.size(), last - first - begin.size());
  if (std::getenv("MAXBATCH_REWRITE_CARDS_MD") != nullptr) {
    std::ofstream(path) << text.substr(0, first + begin.size()) << documented_cards() << text.substr(last);
    GTEST_SKIP() << "rewrote " << path;
  }
  EXPECT_EQ(table, documented_cards())
      << "docs/cards.md is not of these cards; the comment above tells how to rewrite it";
}

}  // namespace
}  // namespace maxbatch

#include "dry_cuda/card_profile.hpp"

#include <maxbatch/simulation/card_catalogue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace maxbatch::test {
namespace {

class ProfileFile {
 public:
  explicit ProfileFile(std::string const& text)
      : path_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << text;
  }
  ~ProfileFile() { std::filesystem::remove(path_); }
  ProfileFile(ProfileFile const&) = delete;
  ProfileFile& operator=(ProfileFile const&) = delete;
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

std::string complaint_about(std::string const& text) {
  ProfileFile const file(text);
  try {
    dry::read_card_profile(file.path());
  } catch (std::runtime_error const& error) { return error.what(); }
  return "none";
}

TEST(CardProfile, ReadsWhatTheCatalogueWritesForEveryCard) {
  for (auto const& card : CardCatalogue::built_in().all()) {
    ProfileFile const file(card_profile_text(card));
    auto const profile = dry::read_card_profile(file.path());
    auto const& architecture = card.architecture;
    EXPECT_EQ(profile.name, card.device_name);
    EXPECT_EQ(profile.major, architecture.capability.major);
    EXPECT_EQ(profile.minor, architecture.capability.minor);
    EXPECT_EQ(profile.multiprocessors, card.multiprocessors);
    EXPECT_EQ(profile.threads_per_multiprocessor, architecture.max_threads_per_multiprocessor);
    EXPECT_EQ(profile.blocks_per_multiprocessor, architecture.max_blocks_per_multiprocessor);
    EXPECT_EQ(profile.registers_per_multiprocessor, architecture.registers_per_multiprocessor);
    EXPECT_EQ(profile.shared_bytes_per_multiprocessor, architecture.shared_memory_per_multiprocessor.count);
    EXPECT_EQ(profile.shared_bytes_per_block_optin, architecture.shared_memory_per_block_optin.count);
    EXPECT_EQ(profile.l2_bytes, card.l2_cache.count);
    EXPECT_EQ(profile.memory_bus_bits, card.memory_bus_bits);
    EXPECT_EQ(profile.clock_khz, card.clock_khz);
    EXPECT_EQ(profile.memory_clock_khz, card.memory_clock_khz);
    EXPECT_EQ(profile.ecc, card.ecc);
    EXPECT_EQ(profile.total_bytes, card.total_memory.count);
    // The catalogue says what the driver takes, the dry card takes it piece by piece (memory/card.cpp); 2 MiB come with growth.
    EXPECT_EQ(profile.local_memory_bytes, card.context.local_memory.count) << card.name;
    EXPECT_EQ(profile.grown_local_memory_bytes + (2 << 20), card.context.grown_local_memory.count) << card.name;

    ProfileFile const again(dry::card_profile_text(profile));
    EXPECT_EQ(dry::card_profile_text(dry::read_card_profile(again.path())), dry::card_profile_text(profile));
  }
}

TEST(CardProfile, LocalMemoryOfAnH200IsTheMeasuredOne) {
  ProfileFile const file("");
  auto const profile = dry::read_card_profile(file.path());
  EXPECT_EQ(profile.local_memory_bytes, std::int64_t{414} << 20);
  EXPECT_EQ(profile.grown_local_memory_bytes, std::int64_t{504} << 20);
}

TEST(CardProfile, ComesFromTheCatalogueByAnyOfItsNames) {
  EXPECT_EQ(dry::catalogued_card_profile("RTX 2080 Ti").name, "NVIDIA GeForce RTX 2080 Ti");
  EXPECT_THROW(dry::catalogued_card_profile("rtx-9999"), UnknownCard);
}

TEST(CardProfile, NamesTheLineThatItCannotRead) {
  EXPECT_THAT(complaint_about("name = X\nmajor\n"), testing::HasSubstr("line 2: 'major' is not 'key = value'"));
  EXPECT_THAT(complaint_about("colour = red\n"), testing::HasSubstr("names nothing that a card has"));
  EXPECT_THAT(complaint_about("major = nine\n"), testing::HasSubstr("not a count"));
  EXPECT_THAT(complaint_about("total_bytes = -1\n"), testing::HasSubstr("not a count"));
  EXPECT_EQ(complaint_about("# nothing\n\n  major = 9  # Hopper\n"), "none");
}

}  // namespace
}  // namespace maxbatch::test

#include <maxbatch/device/budgeted_cpu_device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace maxbatch::test {
namespace {

using ::testing::HasSubstr;

std::string what_the_second_copy_is_told() {
  auto* const library = dlopen(MAXBATCH_TEST_SECOND_COPY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) { return std::string("cannot open it: ") + dlerror(); }
  auto* const claims = reinterpret_cast<char const* (*)()>(dlsym(library, "maxbatch_second_copy_claims"));
  return claims != nullptr ? claims() : "cannot call it";
}

TEST(SingleCopy, ASecondCopyIsRefusedAndToldWhereTheFirstIs) {
  auto const device = budgeted_cpu_device();
  auto const told = what_the_second_copy_is_told();
  EXPECT_THAT(told, HasSubstr("Another copy of maxbatch in this process"));
  EXPECT_THAT(told, HasSubstr("libmaxbatch.so"));
  EXPECT_THAT(told, HasSubstr("Link all parts of the program to the one shared library"));
  EXPECT_NO_THROW(budgeted_cpu_device(Bytes{1 << 20}, 1)) << "the first copy goes on";
}

using SingleCopyDeathTest = ::testing::Test;

TEST(SingleCopyDeathTest, WeAreRefusedWhereAnotherCopyWasFirst) {
  // In a process of its own: claims are for good.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        auto const told = what_the_second_copy_is_told();
        if (!told.empty()) { std::_Exit(2); }
        for (int attempt = 0; attempt < 2; ++attempt) {
          try {
            budgeted_cpu_device();
            std::_Exit(3);
          } catch (std::logic_error const& error) { std::fprintf(stderr, "%s\n", error.what()); }
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "Another copy of maxbatch in this process");
}

}  // namespace
}  // namespace maxbatch::test

#include "session.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// One process for all: loading LibTorch takes longer than the tests.
TEST(CardsCommand, ListsSearchesAndExplains) {
  auto const all = run({"cards"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.err, IsEmpty());
  EXPECT_THAT(all.out,
              AllOf(StartsWith("card "), HasSubstr("rtx-2080-ti"), HasSubstr("measured"), HasSubstr("no kernels")));
  EXPECT_EQ(static_cast<std::size_t>(std::count(all.out.begin(), all.out.end(), '\n')),
            1 + CardCatalogue::built_in().all().size());

  auto const some = run({"cards", "2080"});
  EXPECT_EQ(some.code, 0);
  EXPECT_EQ(std::count(some.out.begin(), some.out.end(), '\n'), 4);
  EXPECT_THAT(some.out, Not(HasSubstr("[1]")));
  EXPECT_THAT(run({"cards", "2080", "--figures"}).out, AllOf(HasSubstr("[1]"), HasSubstr("rtx-2080-super")));

  auto const one = run({"cards", "rtx", "2080", "ti"});
  EXPECT_THAT(one.out, AllOf(StartsWith("rtx-2080-ti  (also 2080ti)\n"), HasSubstr("total_memory_bytes"),
                             HasSubstr("11348672512"), HasSubstr("runs its kernels for 7.5"), HasSubstr("https://")));
  EXPECT_THAT(run({"cards", "1080ti"}).out, HasSubstr("has no kernels for it"));

  auto const json_of_one = json::parse(run({"cards", "2080ti", "--format", "json"}).out);
  ASSERT_EQ(json_of_one.size(), 1U);
  EXPECT_EQ(json_of_one[0]["card"], "rtx-2080-ti");
  EXPECT_EQ(json_of_one[0]["compute_capability"], "7.5");
  EXPECT_EQ(json_of_one[0]["libtorch"]["kernels"], "7.5");
  EXPECT_EQ(json_of_one[0]["figures"]["total_memory_bytes"]["value"], 11348672512);
  EXPECT_EQ(json_of_one[0]["figures"]["total_memory_bytes"]["evidence"], "published");
  EXPECT_EQ(json_of_one[0]["figures"]["context_local_memory_bytes"]["evidence"], "estimated");
  EXPECT_TRUE(json::parse(run({"cards", "v100-16gb", "--format=json"}).out)[0]["libtorch"]["kernels"].is_null());

  auto const none = run({"cards", "rtx-2o80"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_EQ(none.err, "maxbatch: no card matches 'rtx-2o80'; did you mean 'rtx-2080'? See maxbatch --help.\n");
  EXPECT_EQ(run({"cards", "toaster"}).code, 2);
  EXPECT_EQ(run({"cards", "--format", "xml"}).code, 2);
  EXPECT_EQ(run({"cards", "--help"}).code, 0);
}

}  // namespace
}  // namespace maxbatch::test

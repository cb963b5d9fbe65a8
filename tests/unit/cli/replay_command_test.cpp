#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::string data(std::string const& name) { return std::string(MAXBATCH_TEST_DATA_DIR) + '/' + name; }

json replayed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "replay");
  arguments.insert(arguments.end(), {"--format", "json"});
  return json::parse(run(arguments).out);
}

void expect_complaint(std::vector<std::string> const& arguments, std::string const& text) {
  auto const session = run(arguments);
  EXPECT_EQ(session.code, 2);
  EXPECT_THAT(session.out, IsEmpty());
  EXPECT_THAT(session.err, AllOf(StartsWith("maxbatch: "), HasSubstr(text)));
}

// One process for all: loading LibTorch takes longer than the tests.
TEST(ReplayCommand, AnswersAndExplains) {
  auto const resnet = data("recordings/resnet50-sgd-b8.csv.gz");
  auto const gpt = data("recordings/gpt-r0q25-b8-cap8273MiB.csv.gz");

  auto const one = replayed({resnet});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0]["file"], resnet);
  EXPECT_EQ(one[0]["fits"], true);
  EXPECT_EQ(one[0]["peak_allocated_bytes"], 1041725440);
  EXPECT_EQ(one[0]["peak_reserved_bytes"], 1170210816);
  EXPECT_EQ(one[0]["segment_count"], 75);
  EXPECT_EQ(one[0]["retry_count"], 0);
  EXPECT_TRUE(one[0]["failed_request_bytes"].is_null());
  EXPECT_EQ(one[0]["smallest_budget_bytes"], 1064 * kMiB);
  EXPECT_EQ(one[0]["isolated_fits"].size(), 1U);
  EXPECT_LE(one[0]["peak_requested_bytes"], one[0]["peak_allocated_bytes"]);
  EXPECT_EQ(one[0]["addresses"], "recorded");

  // What the smallest budget says is so, on both sides.
  EXPECT_EQ(replayed({resnet, "--budget", "1064MiB"})[0]["fits"], true);
  auto const below = replayed({resnet, "--budget", "1062MiB"})[0];
  EXPECT_EQ(below["fits"], false);
  EXPECT_GT(below["failed_request_bytes"], 0);
  auto const isolated = one[0]["isolated_fits"][0].get<std::int64_t>();
  EXPECT_EQ(replayed({resnet, "--budget", std::to_string(isolated)})[0]["fits"], true);

  // Several files, and the exit code of the worst.
  auto const both = run({"replay", resnet, gpt, "--budget", "8273MiB"});
  EXPECT_EQ(both.code, 3);
  EXPECT_THAT(both.out,
              AllOf(StartsWith("recording "), HasSubstr("does not fit under 8,273 MiB: a request for"),
                    HasSubstr("the recording ends with a refused request"), HasSubstr("every larger budget")));
  EXPECT_EQ(replayed({gpt, "--budget", "8273MiB"})[0]["failed_request_bytes"], 1132189696);
  EXPECT_EQ(run({"replay", gpt}).code, 0);

  // Another device, other settings, other addresses.
  EXPECT_EQ(replayed({resnet, "--card", "rtx-2080-ti"})[0]["card"], "rtx-2080-ti");
  auto const expandable = replayed({resnet, "--allocator-settings", "expandable_segments:True"})[0];
  EXPECT_EQ(expandable["allocator_settings"], "expandable_segments:True");
  EXPECT_LT(expandable["peak_reserved_bytes"], 1170210816);
  auto const modelled = replayed({resnet, "--addresses", "modelled", "--seeds", "3"})[0];
  EXPECT_EQ(modelled["peak_reserved_bytes"], 1170210816);
  EXPECT_EQ(modelled["draws"]["count"], 3);
  EXPECT_EQ(modelled["addresses"], "modelled");

  // Devices of one snapshot.
  auto const devices = replayed({data("snapshots/two.pickle.gz")});
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1]["device"], 1);

  expect_complaint({"replay", "no such file"}, "no such file: cannot be read: No such file or directory");
  expect_complaint({"replay", resnet, data("swin_large_peaks.csv")}, "swin_large_peaks.csv: line 3: ");
  expect_complaint({"replay", resnet, "--budget", "much"}, "--budget 'much' is not an amount of memory");
  expect_complaint({"replay", resnet, "--card", "rtx-2o80"}, "--card: no card is called 'rtx-2o80'");
  expect_complaint({"replay", resnet, "--allocator-settings", "expandable_segments:maybe"}, "--allocator-settings: ");
  expect_complaint({"replay", resnet, "--addresses", "real"}, "--addresses 'real' is not known");
  expect_complaint({"replay", resnet, "--seeds", "3"}, "add --addresses modelled");
  expect_complaint({"replay", resnet, "--allocator-settings", "per_process_memory_fraction:0.5"},
                   "give --card or --budget");
  EXPECT_EQ(run({"replay", resnet, "--card", "h200", "--budget", "1GiB"}).code, 2);
  EXPECT_EQ(run({"replay"}).code, 2);
  EXPECT_EQ(run({"replay", "--help"}).code, 0);
}

TEST(TraceCommand, ConvertsBetweenFormats) {
  auto const folder = testing::TempDir() + "/trace_command_test";
  auto const expect_same_replay = [&](std::string const& from, std::string const& to) {
    auto const converted = run({"trace", "convert", from, to});
    ASSERT_EQ(converted.code, 0) << converted.err;
    EXPECT_THAT(converted.out, IsEmpty());
    auto before = replayed({from})[0];
    auto after = replayed({to})[0];
    for (auto const* key : {"peak_requested_bytes", "peak_reserved_bytes", "segment_count", "smallest_budget_bytes"}) {
      EXPECT_EQ(before[key], after[key]) << to << ' ' << key;
    }
    std::remove(to.c_str());
  };
  expect_same_replay(data("recordings/resnet50-sgd-b8.csv.gz"), folder + ".trace");
  expect_same_replay(data("recordings/resnet50-sgd-b8.csv.gz"), folder + ".pickle.gz");
  expect_same_replay(data("snapshots/truncated.pickle.gz"), folder + ".trace.gz");
  expect_same_replay(data("snapshots/truncated.pickle.gz"), folder + ".pkl");
  expect_same_replay(data("snapshots/plain.pickle.gz"), folder + ".csv");

  auto const late = data("snapshots/late.pickle.gz");
  expect_complaint({"trace", "convert", late, folder + ".csv"}, "CSV has no place for them");
  expect_complaint({"trace", "convert", late, folder + ".dat"}, "ends in none of");
  expect_complaint({"trace", "convert", data("snapshots/two.pickle.gz"), folder + ".csv"}, "choose one with --device");
  expect_complaint({"trace", "convert", late, folder + ".trace", "--device", "4"}, "--device 4: ");
  expect_complaint({"trace", "convert", late, "/no/such/folder/x.trace"},
                   "cannot be written: No such file or directory");
  EXPECT_EQ(run({"trace", "convert", data("snapshots/two.pickle.gz"), folder + ".csv", "--device", "1"}).code, 0);
  std::remove((folder + ".csv").c_str());
  EXPECT_EQ(run({"trace"}).code, 2);
}

}  // namespace
}  // namespace maxbatch::test

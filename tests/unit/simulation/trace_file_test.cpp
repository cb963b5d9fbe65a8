#include "support/recordings.hpp"
#include <maxbatch/simulation/trace_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using namespace std::string_literals;

AllocationTrace parse(std::string const& content) { return parse_allocation_traces(content, "it").front(); }

std::string complaint_about(std::string const& content, TraceReadOptions const& options = {}) {
  try {
    parse_allocation_traces(content, "it", options);
  } catch (TraceError const& error) { return error.what(); }
  return "no complaint";
}

// ---- CSV

TEST(TraceCsv, ReadsARecording) {
  auto const trace = recording("recordings/resnet50-sgd-b8.csv.gz");
  ASSERT_THAT(trace.events, SizeIs(5770));
  EXPECT_EQ(trace.events[0].action, TraceAction::segment_alloc);
  EXPECT_EQ(trace.events[0].address, 140260778442752U);
  EXPECT_EQ(trace.events[0].size, 2097152);
  ASSERT_THAT(trace.marks, SizeIs(4));
  EXPECT_EQ(trace.marks[0].label, "setup");
  EXPECT_EQ(trace.marks[0].event, 334U);
  EXPECT_EQ(trace.marks[3].statistic("reserved_peak"), 1170210816);
  EXPECT_EQ(trace.last_statistic("allocated_peak"), 1041725440);
  EXPECT_EQ(trace.last_statistic("unknown"), std::nullopt);
}

TEST(TraceCsv, TakesWhatOtherWritersMakeOfIt) {
  auto const trace = parse(
      "\xEF\xBB\xBF"
      "alloc,16,5,94564948663136\r\n\r\n# a comment\n\"mark:a,b:1:x=7:y=-2\",0,0,0\noom,99,512,0\n"
      "free_completed,16,5,94564948663136");
  ASSERT_THAT(trace.events, SizeIs(3));
  EXPECT_EQ(trace.streams.at(trace.events[0].stream), 94564948663136U);
  EXPECT_EQ(trace.events[1].address, 99U);
  ASSERT_THAT(trace.marks, SizeIs(1));
  EXPECT_EQ(trace.marks[0].label, "a,b:1");
  EXPECT_EQ(trace.marks[0].statistic("y"), -2);
}

TEST(TraceCsv, SaysWhereAndWhat) {
  auto const expect = [](std::string const& content, std::string const& what) {
    EXPECT_EQ(complaint_about(content), "it: " + what) << content;
  };
  expect("", "is empty");
  expect("action,address,size,stream\n", "holds no events");
  expect("alloc,1,2,3\nalloc,x,2,3\n", "line 2: address 'x' is not a whole number");
  expect("alloc,1,-2,0\n", "line 1: a negative size");
  expect("alloc,1,2 ,0\n", "line 1: size '2 ' is not a whole number");
  expect("alloc,1,99999999999999999999,0\n", "line 1: size '99999999999999999999' does not fit into 64 bits");
  expect("alloc,1,1125899906842625,0\n", "line 1: a size above 1 PiB");
  expect("alloc,18446744073709551615,1,0\n", "line 1: an address range that ends beyond 64 bits");
  expect("alloc,1,2\n", "line 1: has fewer than the 4 fields action,address,size,stream");
  expect("alloc,1,2,3,4\n", "line 1: has more than 4 fields");
  expect("alloc,1,2,3\naction,address,size,stream\n",
         "line 2: the names of the columns may stand in the first line only");
  expect("action,size,address,stream\n",
         "line 1: the columns are 'action,size,address,stream' and must be 'action,address,size,stream'");
  expect("mark:a:x=1:y\n", "line 1: a mark's 'y' is not of the form name=value");
  expect("mark:a:x=one\n", "line 1: a mark's value 'one' is not a whole number");
  expect("\"mark:a\n", "line 1: a quoted field does not end");
  EXPECT_THAT(complaint_about("# ok\nmalloc,1,2,3\n"),
              StartsWith("it: line 2: 'malloc' is no action of the allocator's"));
  EXPECT_THAT(complaint_about("phase_start:x,0,0,0\n"), HasSubstr("'phase_start:' is no mark"));
  EXPECT_THAT(complaint_about("\x1b[2J" + std::string(70000, 'a')),
              AllOf(HasSubstr("is 70004 bytes long"), Not(HasSubstr("\x1b"))));

  std::string many;
  for (int i = 0; i <= 65536; ++i) { many += "alloc," + std::to_string(i) + ",0," + std::to_string(i) + '\n'; }
  EXPECT_THAT(complaint_about(many), HasSubstr("line 65537: more than 65,535 streams"));
}

// ---- What a file is

TEST(TraceFile, TellsWhatAFileIsFromItsContent) {
  EXPECT_THAT(complaint_about("PK\x03\x04..."),
              HasSubstr("not an allocation trace but a zip archive, such as torch.save"));
  EXPECT_THAT(complaint_about("\xFD\x37zXZ\0"s), HasSubstr("xz"));
  EXPECT_THAT(complaint_about("{\"a\": 1}"), HasSubstr("JSON"));
  EXPECT_THAT(complaint_about("<html>"), HasSubstr("HTML"));
  EXPECT_THAT(complaint_about("ab\0c"s), HasSubstr("byte 2: is neither an allocation trace nor text"));
  EXPECT_THROW(read_allocation_traces(data_file("no such file")), TraceError);
  EXPECT_THROW(read_allocation_traces(data_file("")), TraceError);
  EXPECT_THROW(recording("snapshots/two.pickle.gz"), TraceError);  // of two devices
}

TEST(TraceFile, CompressedFilesAreUnpackedWithinBounds) {
  auto const trace = parse("alloc,16,5,0\n");
  auto const path = testing::TempDir() + "/trace_file_test.csv.gz";
  std::string zeros;
  for (int i = 0; i < 3000; ++i) { zeros += "alloc," + std::to_string(16 * i) + ",5,0\n"; }
  write_allocation_trace(path, parse(zeros), TraceFormat::csv);
  EXPECT_THAT(read_allocation_trace(path).events, SizeIs(3000));

  TraceReadOptions small;
  small.max_unpacked = Bytes{40000};
  auto const read_with = [&](TraceReadOptions const& options) -> std::string {
    try {
      read_allocation_traces(path, options);
    } catch (TraceError const& error) { return error.what(); }
    return "";
  };
  EXPECT_THAT(read_with(small), HasSubstr("unpacks to more than 39.1 KiB, the limit that was set"));
  small.max_unpacked = Bytes{100};
  EXPECT_THAT(read_with(small), HasSubstr("is larger than 100 B"));

  auto const content = [&] {
    std::string bytes;
    std::FILE* const file = std::fopen(path.c_str(), "rb");
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) { bytes += static_cast<char>(c); }
    std::fclose(file);
    return bytes;
  }();
  std::remove(path.c_str());
  EXPECT_THAT(complaint_about(content.substr(0, content.size() / 2)), HasSubstr("the compressed data end too early"));
  EXPECT_THAT(complaint_about(content + "tail"), HasSubstr("the compressed data are damaged"));
  // Members follow each other: here with the names of the columns between them.
  EXPECT_THAT(complaint_about(content + content), StartsWith("it: line 3002: the names of the columns"));
  auto damaged = content;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_THAT(complaint_about(damaged), AllOf(StartsWith("it: byte "), Not(HasSubstr("no complaint"))));
}

// ---- Our own format

TEST(TraceBinary, GivesBackExactlyWhatWasWritten) {
  for (auto const* name :
       {"recordings/gpt2-b1.csv.gz", "recordings/gpt-r0q25-b8-cap8273MiB.csv.gz", "snapshots/plain.pickle.gz",
        "snapshots/truncated.pickle.gz", "snapshots/expandable_truncated.pickle.gz"}) {
    auto trace = recording(name);
    trace.device_name = "NVIDIA H200";
    trace.total_memory = Bytes{150109880320};
    trace.limit = Bytes{0};
    trace.world = TraceWorld::measured;
    trace.events[3].pool = trace.pool_index({4, 7});
    trace.events[5].label = trace.label_index("aten::mm");
    auto const content = format_allocation_trace(trace, TraceFormat::binary);
    EXPECT_EQ(parse(content), trace) << name;
    EXPECT_LT(content.size(), 15 * trace.events.size()) << name;
  }
}

TEST(TraceBinary, NoticesEveryDamagedByteAndEveryCut) {
  auto const content = format_allocation_trace(
      parse("segment_alloc,2097152,2097152,0\nalloc,2097152,5,0\nmark:a:x=1\n"), TraceFormat::binary);
  for (std::size_t i = 0; i < content.size(); ++i) {
    auto damaged = content;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_NE(complaint_about(damaged), "no complaint") << i;
    EXPECT_NE(complaint_about(content.substr(0, i)), "no complaint") << i;
  }
  EXPECT_THAT(complaint_about(content + "x"), HasSubstr("bytes are announced"));
  auto newer = content;
  newer[8] = 2;
  EXPECT_THAT(complaint_about(newer), HasSubstr("byte 12: version 2 of the binary format is not known"));
}

// ---- Memory snapshots

TEST(MemorySnapshot, ReadsWhatPyTorchDumped) {
  auto const trace = recording("snapshots/plain.pickle.gz");
  EXPECT_THAT(trace.events, SizeIs(358));
  EXPECT_THAT(trace.initial_segments, IsEmpty());
  EXPECT_THAT(trace.streams, SizeIs(2));
  EXPECT_GT(trace.events[0].time_us, 1700000000000000);
  ASSERT_THAT(trace.marks, SizeIs(12));  // three steps of the optimizer, and its zero_grad
  EXPECT_EQ(trace.marks[0].kind, TraceMark::Kind::phase_begin);
  EXPECT_EQ(trace.marks[0].label, "Optimizer.step#AdamW.step");
  EXPECT_EQ(recording("snapshots/settings.pickle.gz").allocator_settings,
            "roundup_power2_divisions:4,max_split_size_mb:64");

  auto const devices = recordings_in("snapshots/two.pickle.gz");
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_EQ(devices[1].device_index, 1);
  EXPECT_EQ(devices[0].events[9].action, TraceAction::oom);
  EXPECT_EQ(devices[0].events[9].address, 149409431552U);
}

TEST(MemorySnapshot, WorksOutWhatExistedBeforeAHistoryThatWasCutShort) {
  auto const late = recording("snapshots/late.pickle.gz");
  EXPECT_THAT(late.initial_segments, SizeIs(7));
  // The same program: the last 150 of 356 events.
  auto const cut = recording("snapshots/truncated.pickle.gz");
  ASSERT_THAT(cut.events, SizeIs(150));
  EXPECT_THAT(cut.initial_segments, SizeIs(20));
  std::int64_t held = 0;
  for (auto const& segment : cut.initial_segments) {
    std::int64_t covered = 0;
    for (auto const& block : segment.blocks) {
      covered += block.size;
      held += block.state == TraceBlock::State::inactive ? 0 : block.size;
    }
    EXPECT_EQ(covered, segment.size);
  }
  EXPECT_GT(held, 0);
}

TEST(MemorySnapshot, IsReadInEveryProtocol) {
  auto const expected = parse_allocation_traces(
      format_allocation_trace(recordings_in("snapshots/two.pickle.gz")[0], TraceFormat::binary), "it");
  for (int protocol = 0; protocol <= 5; ++protocol) {
    auto const traces =
        recordings_in("../fuzz/corpus/snapshot/two_devices_protocol" + std::to_string(protocol) + ".pickle");
    ASSERT_THAT(traces, SizeIs(2)) << protocol;
    EXPECT_EQ(traces[0], expected[0]) << protocol;
  }
}

TEST(MemorySnapshot, RunsNothing) {
  EXPECT_EQ(
      complaint_about("\x80\x02"
                      "cos\nsystem\nX\x04\0\0\0true\x85R."s),
      "it: byte 2: the pickle's GLOBAL imports 'os.system'; a memory snapshot is plain data, and nothing that a file "
      "asks for is run");
  EXPECT_THAT(complaint_about("\x80\x04\x8c\x05posix\x8c\x06system\x93."),
              HasSubstr("STACK_GLOBAL imports 'posix.system'"));
  EXPECT_THAT(complaint_about("(dp0\n(ios\nsystem\n."), HasSubstr("INST imports 'os.system'"));
  for (auto const& [opcode, name] : std::vector<std::pair<std::string, std::string>>{{"R", "REDUCE"},
                                                                                     {"b", "BUILD"},
                                                                                     {"o", "OBJ"},
                                                                                     {"\x81", "NEWOBJ"},
                                                                                     {"\x92", "NEWOBJ_EX"},
                                                                                     {"Q", "BINPERSID"},
                                                                                     {"P1\n", "PERSID"},
                                                                                     {"\x82\x01", "EXT1"},
                                                                                     {"\x97", "NEXT_BUFFER"}}) {
    EXPECT_THAT(complaint_about("\x80\x04N" + opcode + "."), StartsWith("it: byte 3: the pickle's " + name + ' '))
        << name;
  }
}

TEST(MemorySnapshot, HostileFilesAreRefused) {
  auto const expect = [](std::string const& content, std::string const& what) {
    EXPECT_THAT(complaint_about("\x80\x04" + content), HasSubstr(what));
  };
  expect("", "byte 2: the pickle ends before its STOP");
  expect("X\xff\xff\xff\xff.", "byte 2: needs 4294967295 bytes, and 1 are left: cut short?");
  expect("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "needs 18446744073709551615 bytes");
  expect("\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "byte 2: a frame of 9223372036854775807 bytes");
  expect("h\x05.", "byte 2: the memo has nothing at 5");
  expect("0.", "takes from an empty stack");
  expect("(.", "stops with nothing but a MARK");
  expect("e.", "closes what was not opened");
  expect("}(Nu.", "a dict gets 1 keys and values: an odd number");
  expect("}Na.", "adds to a dict as if it were a list");
  expect("\x06.", "there is no pickle instruction 0x06");
  EXPECT_THAT(complaint_about("\x80\x63."), HasSubstr("pickle protocol 99 is not known"));
  expect("}.", "the snapshot has no 'device_traces'");
  expect("].", "holds segments without a history");
  expect("}(X\x0d\0\0\0device_traces]u."s, "holds no history");
  expect("}(X\x0d\0\0\0device_tracesNu."s, "device_traces is None, not a list");
  // Lists within lists, without a stack that could overflow.
  expect(std::string(1000000, ']') + std::string(999999, 'a') + '.', "holds segments without a history");
  // A list that holds itself.
  expect("]\x94h\0a."s, "holds segments without a history");
  // One trace that stands for a thousand devices, and one event that stands in it a thousand times.
  auto bomb = "}(X\x0d\0\0\0device_traces](]("s +
              "}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x01X\x04\0\0\0sizeK\x01u\x94"s;
  for (int i = 0; i < 1000; ++i) { bomb += "h\0"s; }
  bomb += "e\x94";
  for (int i = 0; i < 1000; ++i) { bomb += "h\x01"; }
  expect(bomb + "eu.", "repeats the same objects many times over");

  TraceReadOptions small;
  small.max_unpacked = Bytes{100000};
  EXPECT_THAT(complaint_about("\x80\x04" + std::string(50000, '}') + '.', small),
              HasSubstr("its objects would take more than 97.7 KiB, the limit that was set"));
}

TEST(MemorySnapshot, SaysWhichFieldIsWrong) {
  auto const snapshot = [](std::string const& event) {
    return "\x80\x04}(X\x0d\0\0\0device_traces](]("s + event + "eeu.";
  };
  auto const text = [](std::string const& value) { return "\x8c"s + static_cast<char>(value.size()) + value; };
  auto const action = text("action");
  EXPECT_THAT(complaint_about(snapshot("N")), HasSubstr("device 0, event 0 is None, not a dict"));
  EXPECT_THAT(complaint_about(snapshot("}")), HasSubstr("device 0, event 0 has no 'action'"));
  EXPECT_THAT(complaint_about(snapshot("}(" + action + text("alloc") + "u")), HasSubstr("event 0 has no 'size'"));
  EXPECT_THAT(complaint_about(snapshot("}(" + action + text("grab") + "u")), HasSubstr("'grab' is no action"));
  EXPECT_THAT(complaint_about(snapshot("}(" + action + text("alloc") + text("size") + "NX\x04\0\0\0addrK\x01u"s)),
              HasSubstr("'size' is None, not an int of up to 63 bits"));
}

TEST(MemorySnapshot, WrittenOnesAreReadBack) {
  for (auto const* name : {"snapshots/plain.pickle.gz", "snapshots/truncated.pickle.gz", "snapshots/settings.pickle.gz",
                           "snapshots/expandable_truncated.pickle.gz"}) {
    auto const trace = recording(name);
    auto const again = parse(format_allocation_trace(trace, TraceFormat::snapshot));
    EXPECT_EQ(again.events, trace.events) << name;
    EXPECT_EQ(again.initial_segments, trace.initial_segments) << name;
    EXPECT_EQ(again.allocator_settings, trace.allocator_settings) << name;
    EXPECT_THAT(again.marks, SizeIs(trace.marks.size())) << name;
  }
  // Without times and requests to free, which the viewer needs.
  auto const bare = recording("recordings/gpt-r0q25-b8-cap8273MiB.csv.gz");
  auto const viewable = parse(format_allocation_trace(bare, TraceFormat::snapshot));
  EXPECT_GT(viewable.events.size(), bare.events.size());
  EXPECT_THROW(format_allocation_trace(parse("free_completed,1,2,0\n"), TraceFormat::snapshot), TraceError);
  EXPECT_THROW(format_allocation_trace(recording("snapshots/late.pickle.gz"), TraceFormat::csv), TraceError);
}

TEST(TraceCsv, WrittenOnesAreReadBack) {
  auto trace = recording("recordings/gpt2-b1.csv.gz");
  trace.limit = Bytes{11219763200};
  trace.total_memory = Bytes{150109880320};
  trace.allocator_settings = "expandable_segments:False";
  trace.world = TraceWorld::dry;
  TraceMark phase;
  phase.kind = TraceMark::Kind::phase_begin;
  phase.label = "forward, the first";
  trace.marks.insert(trace.marks.begin(), phase);
  EXPECT_EQ(parse(format_allocation_trace(trace, TraceFormat::csv)), trace);
}

}  // namespace
}  // namespace maxbatch::test

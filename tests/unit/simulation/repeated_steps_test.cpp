#include <maxbatch/simulation/program_run.hpp>
#include <maxbatch/simulation/repeated_steps.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
namespace {

using Kind = ProgramOperation::Kind;

/// One weight; each step makes an output, which the next step lets go of, and two tensors of its own.
class Program {
 public:
  Program() { make(1000); }

  Program& step(std::vector<std::int64_t> const& sizes, std::int64_t output = 4096) {
    mark(TraceMark::Kind::step_begin);
    std::vector<std::uint32_t> own;
    own.reserve(sizes.size());
    for (auto const size : sizes) { own.push_back(make(size)); }
    if (output_) { free(*output_); }
    output_ = make(output);
    for (auto request = own.rbegin(); request != own.rend(); ++request) { free(*request); }
    mark(TraceMark::Kind::step_end);
    return *this;
  }
  Program& free(std::uint32_t request) {
    made_.operations.push_back({Kind::free, request});
    return *this;
  }
  AllocationProgram const& get() const { return made_; }

 private:
  std::uint32_t make(std::int64_t size) {
    auto const request = static_cast<std::uint32_t>(made_.requests.size());
    ProgramRequest asked;
    asked.size = size;
    made_.requests.push_back(asked);
    made_.operations.push_back({Kind::allocate, request});
    return request;
  }
  void mark(TraceMark::Kind kind) {
    TraceMark made;
    made.event = made_.operations.size();
    made.kind = kind;
    made_.marks.push_back(made);
  }

  AllocationProgram made_;
  std::optional<std::uint32_t> output_;
};

TEST(RepeatedSteps, AreTheProgramThatMoreStepsWouldHaveMade) {
  Program three;
  Program seven;
  for (int i = 0; i < 3; ++i) { three.step({512, 70000}); }
  for (int i = 0; i < 7; ++i) { seven.step({512, 70000}); }
  auto const longer = with_further_steps(three.get(), 4);
  EXPECT_TRUE(longer.requests == seven.get().requests);
  EXPECT_TRUE(longer.operations == seven.get().operations);
}

TEST(RepeatedSteps, EndWithTheLastStepWhateverTheProgramDidThen) {
  Program program;
  for (int i = 0; i < 3; ++i) { program.step({512}); }
  program.free(0);
  auto const longer = with_further_steps(program.get(), 2);
  EXPECT_EQ(longer.requests.size(), program.get().requests.size() + 4);
  EXPECT_TRUE(run_program(longer, {}).fits);
  for (auto const& operation : longer.operations) {
    EXPECT_FALSE(operation.kind == Kind::free && operation.request == 0) << "what came after the last step is left out";
  }
}

TEST(RepeatedSteps, AreNotMadeUpWhereStepsDiffer) {
  Program growing;
  for (std::int64_t const size : {512, 1024, 2048}) { growing.step({size}); }
  EXPECT_EQ(with_further_steps(growing.get(), 3), growing.get());

  Program two;
  two.step({512}).step({512});
  EXPECT_EQ(with_further_steps(two.get(), 3), two.get()) << "where the first of two steps begins is not told";

  Program letting_go;
  letting_go.step({512}).step({512}).step({512});
  auto with_old = letting_go.get();
  with_old.operations.insert(with_old.operations.end() - 1, {Kind::free, 0});  // the weight, inside the last step
  with_old.marks.back().event = with_old.operations.size();
  EXPECT_EQ(with_further_steps(with_old, 3), with_old);
}

}  // namespace
}  // namespace maxbatch

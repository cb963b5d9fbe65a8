#include "dry_cuda/libraries/cudnn_planning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace maxbatch::dry {
namespace {

using Notes = CudnnPlanning::EngineNotes;
using testing::ElementsAre;

/// Goes the way of a program from tensors to a plan, with descriptors that are only addresses.
class Program {
 public:
  explicit Program(cudnnDataType_t type, bool channels_last = false) {
    std::vector<std::int64_t> const input{8, 64, 56, 56};
    std::vector<std::int64_t> strides{64 * 56 * 56, 56 * 56, 56, 1};
    if (channels_last) strides = {64 * 56 * 56, 1, 56 * 64, 64};
    auto const x = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    auto const w = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    auto const convolution = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(x, CUDNN_ATTR_TENSOR_DIMENSIONS, input);
    set(x, CUDNN_ATTR_TENSOR_STRIDES, strides);
    planning.attribute_set(x, CUDNN_ATTR_TENSOR_DATA_TYPE, 1, &type);
    set(w, CUDNN_ATTR_TENSOR_DIMENSIONS, {32, 64, 3, 3});
    for (auto const name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                            CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
      set(convolution, name, {1, 1});
    }
    auto const operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution);
    graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    for (auto const gone : {x, w, convolution, operation}) planning.destroyed(gone);
  }

  std::vector<cudnnBackendDescriptor_t> ask(std::vector<Notes> const& notes) {
    auto const heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    EXPECT_TRUE(planning.plans_a_convolution(heuristics));
    std::vector<cudnnBackendDescriptor_t> configurations;
    for (auto const& note : notes) {
      static_cast<void>(note);
      configurations.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    }
    planning.configurations_found(heuristics, configurations.data(), notes);
    return configurations;
  }

  cudnnBackendDescriptor_t plan(cudnnBackendDescriptor_t configuration) {
    auto const made = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    planning.plan_finalized(made);
    return made;
  }

  std::vector<std::string> questions(cudnnBackendDescriptor_t plan) const {
    auto const convolution = planning.convolution_of(plan);
    return convolution ? convolution->questions : std::vector<std::string>{};
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    auto* const descriptor = static_cast<cudnnBackendDescriptor_t>(static_cast<void*>(&addresses_.at(used_++)));
    planning.created(descriptor, type);
    return descriptor;
  }
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
           std::vector<std::int64_t> const& values) {
    planning.attribute_set(descriptor, name, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    planning.attribute_set(descriptor, name, 1, &other);
  }

  CudnnPlanning planning;
  cudnnBackendDescriptor_t graph = nullptr;

 private:
  std::array<char, 64> addresses_{};
  std::size_t used_ = 0;
};

constexpr Notes kPlain{false, false};
constexpr Notes kTensorCore{true, false};
constexpr Notes kDownConverting{true, true};
constexpr Notes kNondeterministic{false, false, true};

TEST(CudnnPlanning, PutsTheQuestionTogether) {
  Program program(CUDNN_DATA_HALF, /*channels_last=*/true);
  auto const plan = program.plan(program.ask({kTensorCore})[0]);
  EXPECT_THAT(program.questions(plan),
              ElementsAre("backward_filter 8,64,56,56 32,64,3,3 1,1 1,1 1,1 channels_last half any"));
}

TEST(CudnnPlanning, SeesWhetherTf32IsAllowedByTheEngineThatIsTaken) {
  Program allowed(CUDNN_DATA_FLOAT);
  EXPECT_THAT(allowed.questions(allowed.plan(allowed.ask({kTensorCore, kPlain})[0])),
              ElementsAre(testing::EndsWith(" float tf32")));
  Program forbidden(CUDNN_DATA_FLOAT);
  EXPECT_THAT(forbidden.questions(forbidden.plan(forbidden.ask({kTensorCore, kPlain})[1])),
              ElementsAre(testing::EndsWith(" float fp32")));
}

TEST(CudnnPlanning, AsksBothWaysWhereNoEngineTells) {
  Program program(CUDNN_DATA_FLOAT);
  // What converts its inputs is passed over either way.
  auto const plan = program.plan(program.ask({kDownConverting, kPlain})[1]);
  EXPECT_THAT(program.questions(plan), ElementsAre(testing::EndsWith(" float fp32"), testing::EndsWith(" float tf32")));
}

// See Note [What the notes that are read tell].
TEST(CudnnPlanning, SeesWhetherTf32IsAllowedByTheNotesThatAreRead) {
  struct Case {
    std::vector<int> reads;  // of kDownConverting, kNondeterministic, kPlain, kTensorCore
    char const* math;
  };
  for (auto const& known :
       {Case{{1, 1, 1, 1}, " float tf32"}, Case{{1, 2, 2, 2}, " float fp32"}, Case{{2, 1, 2, 2}, " float tf32"},
        Case{{2, 1, 3, 3}, " float fp32"}, Case{{0, 0, 2, 0}, " float fp32"}, Case{{0, 0, 3, 0}, " float fp32"}}) {
    Program program(CUDNN_DATA_FLOAT);
    auto const configurations = program.ask({kDownConverting, kNondeterministic, kPlain, kTensorCore});
    for (std::size_t i = 0; i < known.reads.size(); ++i) {
      for (int read = 0; read < known.reads[i]; ++read) program.planning.engine_read(configurations[i]);
    }
    program.planning.engine_read(configurations[2]);  // for the plan
    EXPECT_THAT(program.questions(program.plan(configurations[2])), ElementsAre(testing::EndsWith(known.math)))
        << testing::PrintToString(known.reads);
  }
}

TEST(CudnnPlanning, AsksBothWaysWhereReadsFitNoFilter) {
  Program program(CUDNN_DATA_FLOAT);
  auto const configurations = program.ask({kPlain, kTensorCore});
  program.planning.engine_read(configurations[0]);
  for (int read = 0; read < 7; ++read) program.planning.engine_read(configurations[1]);
  program.planning.engine_read(configurations[0]);  // for the plan
  EXPECT_EQ(program.questions(program.plan(configurations[0])).size(), 2U);
}

TEST(CudnnPlanning, CountsOnOverTheFallbackHeuristics) {
  Program program(CUDNN_DATA_FLOAT);
  program.ask({kTensorCore});
  auto const fallback = program.ask({kPlain});
  EXPECT_THAT(program.questions(program.plan(fallback[0])), ElementsAre(testing::EndsWith(" float fp32")));
}

TEST(CudnnPlanning, RanksThePlansOfAGraph) {
  Program program(CUDNN_DATA_HALF);
  auto const configurations = program.ask({kTensorCore, kTensorCore});
  auto const first = program.plan(configurations[0]);
  auto const second = program.plan(configurations[1]);
  EXPECT_EQ(program.planning.convolution_of(first)->rank, 0U);
  EXPECT_EQ(program.planning.convolution_of(second)->rank, 1U);
}

TEST(CudnnPlanning, HasNoQuestionForSeveralOperationsAtOnce) {
  Program program(CUDNN_DATA_HALF);
  auto const fused = program.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::array<cudnnBackendDescriptor_t, 2> const operations{program.graph, program.graph};
  program.planning.attribute_set(fused, CUDNN_ATTR_OPERATIONGRAPH_OPS, 2, operations.data());
  auto const heuristics = program.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  program.set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, fused);
  EXPECT_FALSE(program.planning.plans_a_convolution(heuristics));
}

TEST(CudnnPlanning, ForgetsADescriptorWhoseAddressIsUsedAgain) {
  Program program(CUDNN_DATA_HALF);
  auto const plan = program.plan(program.ask({kPlain})[0]);
  program.planning.destroyed(plan);
  EXPECT_FALSE(program.planning.convolution_of(plan));
  program.planning.created(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_FALSE(program.planning.convolution_of(plan));
}

}  // namespace
}  // namespace maxbatch::dry

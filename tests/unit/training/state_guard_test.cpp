#include "state_guard_small_net.hpp"
#include "support/state_hash.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(StateGuard const& guard) {
  std::vector<std::string> names;
  for (auto const& [name, tensor] : guard.resident_tensors()) { names.push_back(name); }
  return names;
}

StateHash hash_of(torch::Tensor const& tensor) { return std::move(StateHash().add("tensor", tensor)); }
StateHash hash_of(torch::nn::Module const& module) { return std::move(StateHash().add(module)); }

void restore(StateGuard& guard) {
  guard.restore_structure();
  guard.restore_values();
}

/// Counts what LibTorch's CPU allocator grants on this thread.
class AllocationCount {
 public:
  AllocationCount() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int count() const { return counter_->count; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*address*/, std::int64_t size, std::size_t /*allocated*/, std::size_t /*reserved*/,
                           c10::Device /*device*/) override {
      count += size > 0 ? 1 : 0;
    }
    bool memoryProfilingEnabled() const override { return true; }
    int count = 0;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

// ---- values, bit for bit, in place

TEST(TensorStateGuard, KeepsBitsThatNoNumberShows) {
  auto const tensor = torch::zeros(4);
  std::uint32_t const bits[] = {0x7fc12345U /* NaN with a payload */, 0x80000000U /* -0 */, 0x7f800001U /* signaling */,
                                1U};
  std::memcpy(tensor.data_ptr(), bits, sizeof(bits));
  auto const guard = make_state_guard(tensor);
  tensor.fill_(3);
  restore(*guard);
  EXPECT_EQ(std::memcmp(tensor.data_ptr(), bits, sizeof(bits)), 0);
}

TEST(TensorStateGuard, KeepsWhatLiesBetweenTheElementsOfAStridedView) {
  auto const whole = torch::arange(24).reshape({4, 6});
  auto const view = whole.slice(1, 1, 6, 2);
  auto const before = whole.clone();
  auto const guard = make_state_guard(view);
  whole.zero_();
  restore(*guard);
  EXPECT_TRUE(whole.equal(before));
}

TEST(TensorStateGuard, IsSeenThroughAliasesOfTheUser) {
  auto const tensor = torch::ones({2, 2});
  auto const alias = tensor.view(-1);
  auto const* const address = tensor.data_ptr();
  auto const guard = make_state_guard(tensor);
  tensor.zero_();
  restore(*guard);
  EXPECT_EQ(tensor.data_ptr(), address);
  EXPECT_TRUE(alias.equal(torch::ones(4)));
}

TEST(TensorStateGuard, RestoresEveryKindOfTensor) {
  std::vector<std::pair<char const*, torch::Tensor>> const tensors = {
      {"float", torch::randn({3, 4})},
      {"scalar", torch::tensor(2.5)},
      {"empty", torch::zeros({0, 3})},
      {"bool", torch::tensor({true, false, true})},
      {"bf16", torch::randn({5}).to(torch::kBFloat16)},
      {"float8", torch::randn({5}).to(torch::kFloat8_e4m3fn)},
      {"int64", torch::arange(7)},
      {"complex", torch::randn({3}, torch::kComplexFloat)},
      {"conjugate", torch::randn({3}, torch::kComplexFloat).conj()},
      {"transposed", torch::randn({3, 4}).t()},
      {"channels last", torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"expanded", torch::randn({3, 1}).expand({3, 4})},
      {"quantized", at::quantize_per_tensor(torch::randn({4}), 0.1, 10, torch::kQInt8)},
  };
  for (auto const& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    auto const before = hash_of(tensor);
    auto const guard = make_state_guard(tensor);
    if (auto const bytes = tensor.storage().nbytes(); bytes > 0) {
      std::memset(tensor.storage().mutable_data(), 1, bytes);
      EXPECT_NE(hash_of(tensor), before);
    }
    restore(*guard);
    EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
  }
}

TEST(TensorStateGuard, RestoresInferenceTensorsInAndOutOfInferenceMode) {
  torch::Tensor tensor;
  {
    c10::InferenceMode const inference;
    tensor = torch::ones(3);
  }
  auto const before = hash_of(tensor);
  for (bool const inside : {false, true}) {
    c10::InferenceMode const inference(inside);
    auto const guard = make_state_guard(tensor);
    std::memset(tensor.data_ptr(), 0, tensor.nbytes());
    restore(*guard);
    EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
  }
}

TEST(TensorStateGuard, RestoresALeafWithoutGivingItAHistory) {
  auto const leaf = torch::ones(3, torch::requires_grad());
  auto const before = hash_of(leaf);
  auto const guard = make_state_guard(leaf);
  leaf.data().zero_();
  restore(*guard);
  EXPECT_THAT(before.differences(hash_of(leaf)), IsEmpty());
}

TEST(TensorStateGuard, MakesAGraphOfATrialUnusableRatherThanWrong) {
  auto const weight = torch::full({3}, 2.0, torch::requires_grad());
  auto const guard = make_state_guard(weight);
  weight.data().fill_(5);
  auto const loss = (weight * weight).sum();  // saves the weight of the trial
  restore(*guard);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(TensorStateGuard, RestoresASecondTimeAndInAnyOrder) {
  auto const tensor = torch::ones(3, torch::requires_grad());
  tensor.mutable_grad() = torch::full({3}, 7.0);
  auto const before = hash_of(tensor);
  auto const guard = make_state_guard(tensor);
  auto const spoil = [&] {
    tensor.data().fill_(-1);
    tensor.mutable_grad() = torch::zeros(3);
  };
  spoil();
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
  guard->restore_structure();
  EXPECT_FALSE(tensor.grad().defined());
  guard->restore_structure();
  spoil();
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
}

TEST(TensorStateGuard, DoesNothingWhenItIsDropped) {
  auto const tensor = torch::ones(3, torch::requires_grad());
  tensor.mutable_grad() = torch::ones(3);
  auto guard = make_state_guard(tensor);
  tensor.data().fill_(4);
  auto const spoiled = hash_of(tensor);
  guard.reset();
  EXPECT_THAT(spoiled.differences(hash_of(tensor)), IsEmpty());
}

TEST(TensorStateGuard, MakingOneChangesNothing) {
  auto const tensor = torch::ones(3, torch::requires_grad());
  tensor.mutable_grad() = torch::ones(3);
  auto const before = hash_of(tensor);
  auto const version = tensor._version();
  auto const guard = make_state_guard(tensor);
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
  EXPECT_EQ(tensor._version(), version);
  EXPECT_EQ(tensor.grad().use_count(), 1U);
}

TEST(TensorStateGuard, TakesItsSnapshotOutsideLibTorchsAllocator) {
  auto const tensor = torch::ones(1000, torch::requires_grad());
  tensor.mutable_grad() = torch::ones(1000);
  AllocationCount const allocations;
  auto const guard = make_state_guard(tensor);
  EXPECT_EQ(allocations.count(), 0);
  guard->restore_structure();
  EXPECT_EQ(allocations.count(), 0);
  guard->restore_values();
  EXPECT_EQ(allocations.count(), 1);  // the gradient
}

// ---- place and flags

TEST(TensorStateGuard, PutsTheOriginalStorageBackAfterSetData) {
  auto const tensor = torch::ones({2, 3}, torch::requires_grad());
  auto const before = hash_of(tensor);
  auto const guard = make_state_guard(tensor);
  tensor.set_data(torch::zeros({7}, torch::kDouble));
  guard->restore_structure();
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{2, 3}));
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
}

TEST(TensorStateGuard, PutsTheGeometryBackAfterAnInPlaceResize) {
  auto const tensor = torch::ones({2, 3});
  auto const before = hash_of(tensor);
  auto const guard = make_state_guard(tensor);
  tensor.t_();
  tensor.resize_({2, 2});
  restore(*guard);
  EXPECT_THAT(before.differences(hash_of(tensor)), IsEmpty());
}

TEST(TensorStateGuard, BringsValuesBackIntoAStorageThatWasFreed) {
  auto const tensor = torch::ones({2, 3});
  auto const guard = make_state_guard(tensor);
  tensor.storage().set_nbytes(0);
  tensor.storage().set_data_ptr_noswap(tensor.storage().allocator()->allocate(0));
  restore(*guard);
  EXPECT_TRUE(tensor.equal(torch::ones({2, 3})));
}

TEST(TensorStateGuard, PutsRequiresGradBack) {
  auto const frozen = torch::ones(2);
  auto const trained = torch::ones(2, torch::requires_grad());
  auto const frozen_guard = make_state_guard(frozen);
  auto const trained_guard = make_state_guard(trained);
  frozen.requires_grad_(true);
  trained.requires_grad_(false);
  frozen_guard->restore_structure();
  trained_guard->restore_structure();
  EXPECT_FALSE(frozen.requires_grad());
  EXPECT_TRUE(trained.requires_grad());
}

TEST(TensorStateGuard, FreesTheHistoryThatAnInPlaceOperationGaveToABuffer) {
  auto const buffer = torch::ones(2);
  auto const weight = torch::ones(2, torch::requires_grad());
  auto const before = hash_of(buffer);
  auto const guard = make_state_guard(buffer);
  buffer.mul_(weight);
  ASSERT_FALSE(buffer.is_leaf());
  guard->restore_structure();
  EXPECT_TRUE(buffer.is_leaf());
  EXPECT_FALSE(buffer.requires_grad());
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(buffer)), IsEmpty());
}

// ---- gradients

class GradientOfAGuardedTensor : public ::testing::Test {
 protected:
  torch::Tensor weight = torch::ones({2, 3}, torch::requires_grad());
};

TEST_F(GradientOfAGuardedTensor, StaysAbsentIfItWas) {
  auto const guard = make_state_guard(weight);
  weight.sum().backward();
  restore(*guard);
  EXPECT_FALSE(weight.grad().defined());
}

TEST_F(GradientOfAGuardedTensor, LeavesTheMemoryDuringTrialsIfNobodyElseSeesIt) {
  weight.mutable_grad() = torch::full({2, 3}, 7.0);
  auto const observer =
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(
          weight.grad().storage().unsafeGetStorageImpl()));
  auto const guard = make_state_guard(weight);
  EXPECT_THAT(names_of(*guard), ElementsAre("tensor"));
  guard->restore_structure();
  EXPECT_TRUE(observer.expired());
  guard->restore_values();
  EXPECT_TRUE(weight.grad().equal(torch::full({2, 3}, 7.0)));
}

TEST_F(GradientOfAGuardedTensor, ComesBackWithItsLayout) {
  weight = torch::ones({2, 3, 4, 5}, torch::requires_grad());
  weight.mutable_grad() = torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  auto const before = hash_of(weight);
  auto const guard = make_state_guard(weight);
  guard->restore_structure();
  guard->restore_values();
  EXPECT_TRUE(weight.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_THAT(before.differences(hash_of(weight)), IsEmpty());
}

TEST_F(GradientOfAGuardedTensor, ComesBackInTheSameTensorIfSomebodyHoldsIt) {
  weight.mutable_grad() = torch::full({2, 3}, 7.0);
  auto const held = weight.grad();
  auto const guard = make_state_guard(weight);
  EXPECT_THAT(names_of(*guard), ElementsAre("tensor", "tensor.grad"));
  guard->restore_structure();
  EXPECT_FALSE(weight.grad().defined());
  weight.sum().backward();
  held.zero_();
  restore(*guard);
  EXPECT_TRUE(weight.grad().is_same(held));
  EXPECT_TRUE(held.equal(torch::full({2, 3}, 7.0)));
}

TEST_F(GradientOfAGuardedTensor, ComesBackAsAViewOfItsBucket) {
  auto const bucket = torch::arange(10).to(torch::kFloat);
  auto const expected = bucket.clone();
  weight.mutable_grad() = bucket.slice(0, 2, 8).view({2, 3});
  auto const guard = make_state_guard(weight);
  guard->restore_structure();
  bucket.zero_();
  guard->restore_values();
  EXPECT_TRUE(weight.grad().is_alias_of(bucket));
  EXPECT_TRUE(bucket.equal(expected));
}

TEST_F(GradientOfAGuardedTensor, MayLieInMemoryOfTheUser) {
  std::vector<float> memory(6, 3.0F);
  weight.mutable_grad() = torch::from_blob(memory.data(), {2, 3});
  auto const guard = make_state_guard(weight);
  guard->restore_structure();
  std::fill(memory.begin(), memory.end(), 0.0F);
  guard->restore_values();
  EXPECT_EQ(weight.grad().data_ptr(), memory.data());
  EXPECT_EQ(memory, std::vector<float>(6, 3.0F));
}

TEST_F(GradientOfAGuardedTensor, MayHaveAHistory) {
  auto const loss = weight.square().sum();
  loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  auto const expected = weight.grad().detach().clone();
  auto const guard = make_state_guard(weight);
  guard->restore_structure();
  EXPECT_FALSE(weight.grad().defined());
  guard->restore_values();
  EXPECT_TRUE(weight.grad().equal(expected));
  EXPECT_NE(weight.grad().grad_fn(), nullptr);
}

TEST_F(GradientOfAGuardedTensor, MayBeSparseUnlessItIsShared) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  embedding(torch::tensor({1, 3})).sum().backward();
  ASSERT_TRUE(embedding->weight.grad().is_sparse());
  auto const expected = embedding->weight.grad().to_dense();
  {
    auto const guard = make_state_guard(embedding);
    guard->restore_structure();
    embedding(torch::tensor({0})).sum().backward();
    restore(*guard);
  }
  EXPECT_TRUE(embedding->weight.grad().to_dense().equal(expected));
  auto const held = embedding->weight.grad();
  EXPECT_THAT([&] { make_state_guard(embedding); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("\"model.weight.grad\""), HasSubstr("Sparse"))));
}

// ---- modules

TEST(ModuleStateGuard, RestoresParametersBuffersAndModes) {
  auto net = make_small_net();
  net->norm->eval();  // frozen statistics in a net that trains
  small_net_loss(net).backward();
  auto const before = hash_of(*net);
  auto const guard = make_state_guard(net);
  net->train();
  small_net_loss(net).backward();
  net->eval();
  net->to(torch::kDouble);
  for (auto const& parameter : net->parameters()) { parameter.data().fill_(2); }
  net->norm->num_batches_tracked.add_(5);
  EXPECT_NE(hash_of(*net), before);
  guard->restore_structure();
  EXPECT_TRUE(net->is_training());
  EXPECT_FALSE(net->norm->is_training());
  EXPECT_TRUE(net->dropout->is_training());
  guard->restore_values();
  EXPECT_THAT(before.differences(hash_of(*net)), IsEmpty());
}

TEST(ModuleStateGuard, NamesItsTensors) {
  EXPECT_THAT(names_of(*make_state_guard(make_small_net())),
              ElementsAre("model.input.weight", "model.input.bias", "model.norm.weight", "model.norm.bias",
                          "model.norm.running_mean", "model.norm.running_var", "model.norm.num_batches_tracked",
                          "model.output.weight", "model.output.bias"));
}

TEST(ModuleStateGuard, TakesAModuleOnTheStack) {
  torch::nn::LinearImpl linear(2, 3);
  auto const before = hash_of(linear);
  auto const guard = make_state_guard(linear);
  linear.weight.data().zero_();
  linear.eval();
  restore(*guard);
  EXPECT_THAT(before.differences(hash_of(linear)), IsEmpty());
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    encoder = register_parameter("encoder", torch::randn({4, 3}));
    decoder = register_parameter("decoder", encoder);                      // the same tensor
    rows = register_buffer("rows", encoder.detach().slice(0, 0, 2));       // a view of the same storage
    nothing = register_parameter("nothing", {}, /*requires_grad=*/false);  // as Linear does without a bias
  }
  torch::Tensor encoder, decoder, rows, nothing;
};
TORCH_MODULE(Tied);

TEST(ModuleStateGuard, CopiesTiedWeightsOnceAndKeepsThemTied) {
  Tied tied;
  auto const before = hash_of(*tied);
  auto const guard = make_state_guard(tied);
  EXPECT_THAT(names_of(*guard), ElementsAre("model.encoder", "model.rows"));
  EXPECT_EQ(resident_bytes(guard->resident_tensors(), c10::kCPU).count, 512);
  tied->encoder.data().zero_();
  tied->rows.fill_(9);
  restore(*guard);
  EXPECT_THAT(before.differences(hash_of(*tied)), IsEmpty());
  EXPECT_TRUE(tied->rows.is_alias_of(tied->encoder));
}

/// Freezes a part whatever the mode of the whole, and counts.
struct FreezingImpl : torch::nn::Module {
  FreezingImpl() { norm = register_module("norm", torch::nn::BatchNorm1d(2)); }
  void train(bool on) override {
    ++calls;
    torch::nn::Module::train(on);
    norm->eval();
  }
  torch::nn::BatchNorm1d norm = nullptr;
  int calls = 0;
};
TORCH_MODULE(Freezing);

TEST(ModuleStateGuard, LetsAModuleThatOverridesTrainTakeBackWhatItDid) {
  Freezing module;
  module->train(true);
  ASSERT_FALSE(module->norm->is_training());
  auto const guard = make_state_guard(module);
  int const calls = module->calls;
  guard->restore_structure();
  EXPECT_EQ(module->calls, calls);  // nothing to take back
  module->eval();
  guard->restore_structure();
  EXPECT_TRUE(module->is_training());
  EXPECT_FALSE(module->norm->is_training());
}

struct LazyImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor const& x) {
    if (!weight.defined()) { weight = register_parameter("weight", torch::ones({x.size(1), 2})); }
    return x.mm(weight);
  }
  torch::Tensor weight;
};
TORCH_MODULE(Lazy);

TEST(ModuleStateGuard, LeavesAParameterThatAStepRegisteredButNotItsGradient) {
  Lazy lazy;
  auto const guard = make_state_guard(lazy);
  lazy(torch::ones({3, 4})).sum().backward();
  guard->restore_structure();
  EXPECT_EQ(lazy->parameters().size(), 1U);
  EXPECT_FALSE(lazy->weight.grad().defined());
}

TEST(ModuleStateGuard, RestoresASubmoduleThatAStepTookOut) {
  auto net = make_small_net();
  auto const before = hash_of(*net->output);
  auto output = net->output;
  auto const guard = make_state_guard(net);
  net->unregister_module("output");
  output->weight.data().zero_();
  output->eval();
  restore(*guard);
  EXPECT_THAT(before.differences(hash_of(*output)), IsEmpty());
}

TEST(ModuleStateGuard, MayOverlapWithOthers) {
  auto net = make_small_net();
  small_net_loss(net).backward();
  auto const held = net->input->weight.grad();
  auto const before = hash_of(*net);
  std::vector<std::unique_ptr<StateGuard>> guards;
  guards.push_back(make_state_guard(net));
  guards.push_back(make_state_guard(net->input));
  guards.push_back(make_state_guard(net->input->weight));
  for (auto const& guard : guards) { guard->restore_structure(); }
  small_net_loss(net).backward();
  for (auto const& parameter : net->parameters()) { parameter.data().zero_(); }
  for (auto const& guard : guards) { restore(*guard); }
  EXPECT_THAT(before.differences(hash_of(*net)), IsEmpty());
  EXPECT_TRUE(net->input->weight.grad().is_same(held));
}

TEST(ModuleStateGuard, RestoresStructureWithoutAllocating) {
  auto net = make_small_net();
  small_net_loss(net).backward();
  auto const optimizer = std::make_shared<torch::optim::AdamW>(net->parameters());
  optimizer->step();
  auto const guard = make_state_guard(net);
  auto const optimizer_guard = make_state_guard(optimizer);
  net->to(torch::kDouble);
  net->eval();
  net->input->weight.requires_grad_(false);
  AllocationCount const allocations;
  guard->restore_structure();
  optimizer_guard->restore_structure();
  EXPECT_EQ(allocations.count(), 0);
}

// ---- refusals

TEST(StateGuardRefusals, NameTheTensorAndSayWhy) {
  auto const says = [](auto const&... parts) { return ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(parts)...)); };
  EXPECT_THAT([] { make_state_guard(torch::Tensor()); }, says("undefined tensor"));
  EXPECT_THAT([] { make_state_guard(at::Generator()); }, says("undefined generator"));
  EXPECT_THAT([] { make_state_guard(std::shared_ptr<torch::nn::Module>()); }, says("null pointer"));
  EXPECT_THAT(
      [] {
        make_state_guard(torch::ones({2, 2}).to_sparse());
      },
      says("\"tensor\"", "Sparse", "indices and values"));
  EXPECT_THAT([] { make_state_guard(torch::ones({2, 2}).to_sparse_csr()); }, says("\"tensor\"", "SparseCsr"));
  EXPECT_THAT([] { make_state_guard(torch::ones(2, torch::kMeta)); }, says("\"tensor\"", "meta device"));
  torch::nn::Linear linear(2, 3);
  linear->register_buffer("mask", torch::ones(3).to_sparse());
  EXPECT_THAT([&] { make_state_guard(linear); }, says("\"model.mask\"", "Sparse"));
}

TEST(ResidentBytes, CountsStoragesOnceAndRoundedOnTheDeviceInQuestion) {
  auto const whole = torch::zeros(200);  // 800 bytes
  std::vector<StateGuard::NamedTensor> const tensors = {
      {"whole", whole}, {"view", whole.slice(0, 1, 3)}, {"one", torch::zeros(1)},
      {"none", {}},     {"empty", torch::zeros({0})},   {"elsewhere", torch::zeros(5, torch::kMeta)}};
  EXPECT_EQ(resident_bytes(tensors, c10::kCPU).count, 1024 + 512);
  EXPECT_EQ(resident_bytes({}, c10::kCPU).count, 0);
}

}  // namespace
}  // namespace maxbatch::test

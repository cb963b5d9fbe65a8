// What depends on data, in C++. Prints what it saw; policies_test.cpp runs it on a dry card.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

namespace app {

auto const kCard = at::device(at::kCUDA);

at::Tensor unknown_mask(std::int64_t size) { return at::rand({size}, kCard) > 0.5; }

__attribute__((noinline)) std::int64_t count_in_function() { return unknown_mask(1000).nonzero().size(0); }

void print_counts() {
  auto const mask = unknown_mask(1000);
  auto const values = at::rand({1000}, kCard);
  auto const labels = at::randint(5, {1000}, kCard.dtype(at::kLong));
  std::cout << "nonzero " << mask.nonzero().size(0) << "\nmasked_select " << values.masked_select(mask).size(0)
            << "\nindex " << values.index({mask}).size(0) << "\nunique " << std::get<0>(at::_unique2(labels)).size(0)
            << "\nunique_dim " << std::get<0>(at::unique_dim(labels.view({100, 10}), 0)).size(0) << "\nunique_bool "
            << std::get<0>(at::_unique2(mask)).size(0) << "\nbincount " << at::bincount(labels).size(0)
            << "\nbincount_7 " << at::bincount(labels, {}, 7).size(0) << "\nrepeat_interleave "
            << at::repeat_interleave(labels).size(0) << "\nmultinomial " << at::multinomial(values, 3).size(0)
            << "\nin_function " << count_in_function() << '\n';
  auto const sparse = at::sparse_coo_tensor(at::randint(9, {2, 30}, kCard.dtype(at::kLong)), at::rand({30}, kCard));
  std::cout << "coalesce " << sparse.coalesce()._nnz() << '\n';
}

void print_values() {
  auto const unknown = at::rand({4}, kCard);
  std::cout << "unknown " << unknown.sum().item<float>() << "\nany " << (unknown > 2).any().item<bool>() << "\nall "
            << (unknown < 2).all().item<bool>() << "\nequal " << at::equal(unknown, unknown.clone()) << '\n';
  auto scale = at::full({}, 65536.0, kCard);
  std::cout << "filled " << scale.item<double>() << '\n';
  at::rand({1 << 20}, kCard).mul_(2);  // launches that have nothing to do with it
  scale.mul_(2);
  std::cout << "doubled " << scale.item<double>() << '\n';
  auto const list = at::tensor({3, 1, 2}).to(at::kCUDA);
  std::cout << "list " << list.sum().item<std::int64_t>() << ' ' << list.max().item<std::int64_t>() << ' '
            << list.repeat_interleave(list).size(0) << ' ' << (list > 1).nonzero().size(0) << ' '
            << list.to(at::kCPU)[0].item<std::int64_t>() << '\n';
  list[0].fill_(7);
  std::cout << "written_in_part " << list.sum().item<std::int64_t>() << '\n';
  list.copy_(at::randint(5, {3}, kCard.dtype(at::kLong)));
  std::cout << "overwritten " << list.sum().item<std::int64_t>() << '\n';
  // The caching allocator gives the block to somebody else.
  auto first = at::full({2}, 5.0, kCard);
  auto const* const address = first.const_data_ptr();
  first.reset();
  auto const second = at::rand({2}, kCard);
  std::cout << "same_block " << (second.const_data_ptr() == address) << ' ' << second.sum().item<float>() << '\n';
}

void print_scaler() {
  auto scale = at::full({}, 1024.0, kCard);
  auto tracker = at::zeros({}, kCard.dtype(at::kInt));
  for (int step = 0; step < 5; ++step) {
    auto found = at::zeros({}, kCard);
    auto gradients = std::vector<at::Tensor>{at::rand({100}, kCard), at::rand({7}, kCard)};
    auto const inverse = scale.to(at::kDouble).reciprocal().to(at::kFloat);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
    std::cout << "found " << found.item<float>();
    at::_amp_update_scale_(scale, tracker, found, 2.0, 0.5, 3);
    std::cout << " scale " << scale.item<float>() << " tracker " << tracker.item<int>() << '\n';
  }
}

void print_threads() {
  std::vector<std::thread> threads;
  std::array<std::int64_t, 4> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    threads.emplace_back([i, &counts] {
      auto const device = static_cast<c10::DeviceIndex>(i % static_cast<std::size_t>(c10::cuda::device_count()));
      c10::cuda::CUDAGuard const on(device);
      c10::cuda::CUDAStreamGuard const stream(c10::cuda::getStreamFromPool(false, device));
      for (std::int64_t round = 0; round < 200; ++round) {
        auto const size = static_cast<std::int64_t>(i + 1) * 100;
        counts.at(i) += unknown_mask(size).nonzero().size(0) == size ? 1 : 0;
        counts.at(i) += at::full({}, round, kCard).item<std::int64_t>() == round ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) { thread.join(); }
  for (auto const count : counts) { std::cout << "right " << count << '\n'; }
}

void print_backward() {
  auto weight = at::rand({1000, 8}, kCard).requires_grad_();
  auto const chosen = (weight * 2).index({unknown_mask(1000)});
  // An operator that counts on autograd's thread: the gradient of a sparse embedding.
  auto const ids = at::randint(1000, {50}, kCard.dtype(at::kLong));
  auto const rows = at::embedding(weight, ids, -1, false, /*sparse=*/false);
  (chosen.sum() + rows.sum()).backward();
  std::cout << "gradient " << weight.grad().size(0) << '\n';
}

/// All that the caching allocator does, as one number.
std::uint64_t events_hash = 1469598103934665603U;
std::int64_t events_seen = 0;

void watch_events() {
  c10::cuda::CUDACachingAllocator::init(c10::cuda::device_count());
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
      [](c10::cuda::CUDACachingAllocator::TraceEntry const& entry) {
        auto const kind = static_cast<std::uint64_t>(entry.action_);
        events_hash = (events_hash ^ (entry.size_ * 16 + kind)) * 1099511628211U;
        ++events_seen;
      });
}

void print_events(bool known) {
  at::zeros({1}, kCard);
  watch_events();
  auto host = at::zeros({1000}, at::kBool);
  host.slice(0, 0, 300).fill_(true);
  auto const mask = known ? host.to(at::kCUDA) : at::empty({1000}, kCard.dtype(at::kBool)).copy_(unknown_mask(1000));
  auto const values = at::rand({1000, 64}, kCard);
  events_hash = 1469598103934665603U;
  events_seen = 0;
  auto const chosen = values.index({mask});
  auto const distinct = std::get<0>(at::unique_dim(chosen, 0));
  std::cout << "events " << events_seen << ' ' << events_hash << '\n';
}

void print_training() {
  at::zeros({1}, kCard);
  watch_events();
  auto weight = at::rand({256, 256}, kCard).requires_grad_();
  for (int step = 0; step < 3; ++step) {
    auto const loss = at::relu(at::mm(at::rand({64, 256}, kCard), weight)).square().mean();
    loss.backward();
    weight.data().sub_(weight.grad(), 0.1);
    weight.mutable_grad().reset();
  }
  std::cout << "events " << events_seen << ' ' << events_hash << '\n';
}

__attribute__((noinline)) int wait_for_mask() {
  auto mask = unknown_mask(10);
  auto rounds = 0;
  while ((mask & unknown_mask(10)).any().item<bool>() || rounds == 0 || !mask.logical_not().any().item<bool>()) {
    if (++rounds > 2'000'000) { break; }
  }
  return rounds;
}

void walk_over_elements() {
  auto const values = at::empty({300'000}, kCard.dtype(at::kInt)).random_();
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < values.size(0); ++i) { seen += values[i].item<int>() == 0 ? 1 : 0; }
  std::cout << "walked " << seen << '\n';
}

}  // namespace app

int main(int argc, char** argv) {
  auto const is = [&](char const* name) { return argc > 1 && std::strcmp(argv[1], name) == 0; };
  at::globalContext().lazyInitDevice(at::kCUDA);
  if (is("counts")) { app::print_counts(); }
  if (is("values")) { app::print_values(); }
  if (is("scaler")) { app::print_scaler(); }
  if (is("threads")) { app::print_threads(); }
  if (is("backward")) { app::print_backward(); }
  if (is("known_events")) { app::print_events(true); }
  if (is("unknown_events")) { app::print_events(false); }
  if (is("training")) { app::print_training(); }
  if (is("wait")) { std::cout << "rounds " << app::wait_for_mask() << '\n'; }
  if (is("walk")) { app::walk_over_elements(); }
  return 0;
}

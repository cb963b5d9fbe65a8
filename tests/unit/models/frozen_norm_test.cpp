// A norm that never changes, and its gradients, against the same arithmetic written out.
#include "models/layers/frozen_norm.hpp"

#include "support/frozen_norm_cases.hpp"

#include <torch/torch.h>

#include <gtest/gtest.h>

namespace maxbatch::test {
namespace {

TEST(FrozenNorm, IsWhatItSays) {
  torch::manual_seed(1);
  for (auto const type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (auto const relu : {false, true}) {
      for (auto const adds : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + (relu ? ", relu" : "") + (adds ? ", adds" : ""));
        expect_frozen_norm_as_written_out(type, relu, adds, at::kCPU);
      }
    }
  }
}

TEST(FrozenNorm, OverwritesItsInput) {
  FrozenNormCase const tried(at::kFloat, at::kCPU);
  auto const x = tried.x.clone();
  auto const y = models::frozen_norm(x, {}, tried.statistics, true);
  EXPECT_EQ(y.data_ptr(), x.data_ptr());
}

TEST(FrozenNorm, KeepsWhatIsNoNumber) {
  FrozenNormCase const tried(at::kFloat, at::kCPU);
  auto const x = at::full_like(tried.x, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(models::frozen_norm(x, {}, tried.statistics, true).isnan().all().item<bool>());
}

}  // namespace
}  // namespace maxbatch::test

#include "dry_cuda/runtime/kernel_resources.hpp"

#include "dry_cuda/card_profile.hpp"

#include <gtest/gtest.h>

namespace maxbatch::dry {
namespace {

// What torch 2.11.0+cu130 calls the kernel that counts the true elements of a mask of bool.
constexpr char kCountsNonZero[] =
    "_ZN14at_cuda_detail3cub6detail6reduce18DeviceReduceKernelINS2_10policy_hubIiyN4cuda3std3__"
    "44plusIvEEE10Policy1000EN6"
    "thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS18transform_iteratorIN2at6native43_GLOBAL__N__e625f313_10_"
    "Nonzero_cu_cba1aaa09NonZeroOpIbEEPKbNSD_11use_defaultESM_EEyS9_iNS7_10__identityEEEvT0_PT3_T1_NS0_"
    "13GridEvenShareISS_EET2_T4_";

TEST(KernelResources, AreThoseThatCuobjdumpTells) {
  KernelResourcesTable const h200(built_in_kernel_resources(), 90);
  EXPECT_EQ(h200.size(), 1154U);
  EXPECT_EQ(h200.find(kCountsNonZero).registers, 30);
  EXPECT_EQ(h200.find(kCountsNonZero).shared_bytes, 1068);
  KernelResourcesTable const turing(built_in_kernel_resources(), 75);
  EXPECT_EQ(turing.size(), h200.size());
}

TEST(KernelResources, AreAssumedForWhatNoTableKnows) {
  KernelResourcesTable const table(built_in_kernel_resources(), 90);
  EXPECT_EQ(table.find("_Z9my_kernelv").registers, KernelResources{}.registers);
  EXPECT_EQ(table.find("_Z9my_kernelv").shared_bytes, 0);
}

TEST(KernelResources, AreOfTheNewestCodeThatTheCardCanLoad) {
  auto const of = [](int major, int minor) {
    CardProfile card;
    card.major = major;
    card.minor = minor;
    return loaded_architecture(card);
  };
  EXPECT_EQ(of(9, 0), 90);
  EXPECT_EQ(of(8, 9), 86);
  EXPECT_EQ(of(8, 0), 80);
  EXPECT_EQ(of(7, 5), 75);
  EXPECT_EQ(of(6, 1), 75) << "no code at all; LibTorch says so";
  EXPECT_EQ(of(12, 0), 120);
}

}  // namespace
}  // namespace maxbatch::dry

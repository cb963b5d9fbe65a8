#include "dry_cuda/runtime/asserting_kernels.hpp"

#include <gtest/gtest.h>

namespace maxbatch::dry {
namespace {

TEST(AssertingKernels, AreThoseThatCuobjdumpTells) {
  EXPECT_EQ(AssertingKernels(built_in_asserting_kernels()).size(), 5883U);
  EXPECT_TRUE(kernel_asserts("_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb"));
  EXPECT_FALSE(kernel_asserts(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"));
  EXPECT_FALSE(kernel_asserts("_Z9my_kernelv"));
  EXPECT_FALSE(kernel_asserts(""));
}

TEST(AssertingKernels, AreReadFromLinesOfHashes) {
  AssertingKernels const table("# a remark: 0123456789\n0000000001 00000000ff\n\n0000000002\n");
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(AssertingKernels("").size(), 0U);
}

}  // namespace
}  // namespace maxbatch::dry

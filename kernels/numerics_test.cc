#include "kernels/numerics.h"

#include <limits>
#include <thread>

#include "gtest/gtest.h"

namespace sluice::kernels {
namespace {

TEST(NumericsTest, DenormalsAreZeroInTheThreadThatSetTheMode) {
  std::thread([] {
    volatile float smallest = std::numeric_limits<float>::min();
    volatile float denormal = smallest / 2;
    EXPECT_NE(denormal, 0.0f);
    SetNumericMode();
    EXPECT_TRUE(NumericModeIsSet());
    volatile float result = smallest / 2;  // Flushed.
    EXPECT_EQ(result, 0.0f);
    EXPECT_EQ(denormal * 4.0f, 0.0f);  // Taken as zero.
  }).join();
}

TEST(NumericsTest, ANewThreadStartsWithoutTheMode) {
  std::thread([] { EXPECT_FALSE(NumericModeIsSet()); }).join();
}

}  // namespace
}  // namespace sluice::kernels

#include "worker/model/clip_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference_device.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class ClipNormTest : public ::testing::TestWithParam<bool> {
 protected:
  ClipNormTest()
      : device_(GetParam() ? *kernels::MakeCpuDevice({})
                           : kernels::MakeReferenceDevice()) {
    device_->EnterThread();
  }
  // Clips `gradient`, of which `trained` is trained.
  std::vector<float> Clip(double limit,
                          const std::vector<ParameterRange>& trained,
                          std::vector<float> gradient) {
    const auto vector = device_->PrepareVector(trained);
    EXPECT_TRUE(vector.ok()) << vector.status();
    const double squares = *(*vector)->SumOfSquares(gradient.data());
    const absl::Status clipped = ClipNorm(limit, squares, gradient.size(),
                                          vector->get(), gradient.data());
    EXPECT_TRUE(clipped.ok()) << clipped;
    return gradient;
  }

  const std::unique_ptr<kernels::Device> device_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ClipNormTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Cpu" : "Reference";
                         });

TEST_P(ClipNormTest, ALongGradientKeepsItsDirectionAndGetsTheNormAllowed) {
  EXPECT_THAT(Clip(5, {{0, 2}}, {6, -8}), ElementsAre(3, -4));
}

TEST_P(ClipNormTest, AGradientWithinTheNormIsNotTouched) {
  EXPECT_THAT(Clip(5, {{0, 2}}, {3, -4}), ElementsAre(3, -4));
}

TEST_P(ClipNormTest, EveryElementCounts) {
  for (int size = 1; size < 40; ++size) {
    for (float g : Clip(1, {{0, size}}, std::vector<float>(size, 2))) {
      // The factor and its product round once each.
      EXPECT_NEAR(g, 1 / std::sqrt(size), 2.0 / (1 << 24)) << size;
    }
  }
}

TEST_P(ClipNormTest, RunningStatisticsNeitherCountNorChange) {
  EXPECT_THAT(Clip(5, {{0, 1}, {3, 4}}, {6, 100, 200, -8, 300}),
              ElementsAre(3, 100, 200, -4, 300));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Clip(5, {{1, 3}}, {infinity, 6, 8}), ElementsAre(infinity, 3, 4));
}

TEST_P(ClipNormTest, NanAndInfinityAreLeftForTheServersToReject) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Clip(1, {{0, 2}}, {1, infinity}), ElementsAre(1, infinity));
  const auto gradient = Clip(1, {{0, 2}}, {1, std::nanf("")});
  EXPECT_EQ(gradient[0], 1);
  EXPECT_TRUE(std::isnan(gradient[1]));
}

}  // namespace
}  // namespace sluice

#include "worker/model/accelerator/recorded_stack.h"

#include <memory>
#include <optional>
#include <vector>

#include "common/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SegmentsTest, ShortLayersAreJoinedUpToTwoMilliseconds) {
  EXPECT_THAT(JoinLayers({0.5e-3, 0.5e-3, 0.9e-3, 0.2e-3, 0.3e-3}),
              ElementsAre(Segment{0, 3}, Segment{3, 5}));
}

TEST(SegmentsTest, ALongerLayerIsAlone) {
  EXPECT_THAT(JoinLayers({0.1e-3, 7e-3, 0.1e-3, 0.1e-3, 3e-3, 3e-3}),
              ElementsAre(Segment{0, 1}, Segment{1, 2}, Segment{2, 4},
                          Segment{4, 5}, Segment{5, 6}));
}

TEST(SegmentsTest, WhatTakesNextToNothingIsNoSegmentOfItsOwn) {
  EXPECT_THAT(
      JoinLayers({3e-3, 10e-6, 3e-3, 30e-6, 3e-3}),
      ElementsAre(Segment{0, 2}, Segment{2, 3}, Segment{3, 4}, Segment{4, 5}));
}

TEST(SegmentsTest, LayersThatTakeNoTimeAreOneSegment) {
  EXPECT_THAT(JoinLayers({0, 0, 0}), ElementsAre(Segment{0, 3}));
  EXPECT_THAT(JoinLayers({}), IsEmpty());
}

// One on which every layer takes 0.7 ms.
class TickingClock : public Clock {
 public:
  absl::Time Now() override { return now_ += absl::Microseconds(700); }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// Three layers that compute nothing, and tell when they are called.
class RecordedLayersTest : public ::testing::Test {
 protected:
  absl::Status Run(const float* weights) {
    calls_.clear();
    const Pass pass = {.samples = 1, .weights = weights, .cancel = cancel_};
    const void* out = numbers_;
    for (const Segment& part : layers_.Begin(pass, numbers_, numbers_)) {
      SLUICE_ASSIGN_OR_RETURN(out, layers_.Run(part, pass, numbers_, out));
    }
    EXPECT_EQ(out, numbers_ + 3);  // One number further behind each layer.
    return absl::OkStatus();
  }

  absl::StatusOr<const void*> RunLayers(Segment layers, const void* x,
                                        const void* in) {
    const auto* numbers = static_cast<const float*>(x);
    EXPECT_EQ(in, numbers + layers.begin);
    calls_.push_back(layers);
    if (fails_at_.has_value() && *fails_at_ >= layers.begin &&
        *fails_at_ < layers.end) {
      return absl::AbortedError("as wished");
    }
    return numbers + layers.end;
  }

  const std::unique_ptr<kernels::Accelerator> device_ =
      kernels::cuda::MakeEmulatedGpu(/*libraries=*/true,
                                     kernels::Precision::kFp32);
  TickingClock clock_;
  const float numbers_[4] = {};
  CancelToken cancel_;
  std::vector<Segment> calls_;
  std::optional<size_t> fails_at_;  // A layer.
  RecordedLayers layers_{
      device_.get(), &clock_, 3,
      [this](const Pass&, Segment layers, const void* x, const void* in) {
        return RunLayers(layers, x, in);
      }};
};

TEST_F(RecordedLayersTest, LayersAreCalledUntilTheyAreRecorded) {
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(Run(numbers_).ok());
    EXPECT_THAT(calls_,
                ElementsAre(Segment{0, 1}, Segment{1, 2}, Segment{2, 3}));
  }
  ASSERT_TRUE(Run(numbers_).ok());
  EXPECT_THAT(calls_, ElementsAre(Segment{0, 2}, Segment{2, 3}));
  ASSERT_TRUE(Run(numbers_).ok());
  EXPECT_THAT(calls_, IsEmpty());
}

TEST_F(RecordedLayersTest, APassThatWasCutShortPreparesOrMeasuresNothing) {
  // One prepares and one measures, each tried again after it was cut short.
  for (int pass = 0; pass < 2; ++pass) {
    fails_at_ = 2;
    EXPECT_FALSE(Run(numbers_).ok());
    fails_at_.reset();
    ASSERT_TRUE(Run(numbers_).ok());
    EXPECT_EQ(calls_.size(), 3);
  }
  ASSERT_TRUE(Run(numbers_).ok());
  EXPECT_THAT(calls_, ElementsAre(Segment{0, 2}, Segment{2, 3}));
}

TEST_F(RecordedLayersTest, PassesOnTwoSetsOfArraysAreRecordedAndOthersAreNot) {
  const float second[4] = {}, third[4] = {};
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(Run(numbers_).ok());
  ASSERT_TRUE(Run(second).ok());
  EXPECT_THAT(calls_, ElementsAre(Segment{0, 2}, Segment{2, 3}));
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(Run(third).ok());
    EXPECT_THAT(calls_,
                ElementsAre(Segment{0, 1}, Segment{1, 2}, Segment{2, 3}));
  }
  for (const float* recorded : {numbers_, second}) {
    ASSERT_TRUE(Run(recorded).ok());
    EXPECT_THAT(calls_, IsEmpty());
  }
}

}  // namespace
}  // namespace sluice

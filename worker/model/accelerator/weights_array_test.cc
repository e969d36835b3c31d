#include "worker/model/accelerator/weights_array.h"

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "worker/testing/watched_flow.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// More than one of the pieces in which a GPU takes them.
constexpr int64_t kFloats = (3 << 20) + 1000;

class WeightsArrayTest : public ::testing::Test {
 protected:
  WeightsArrayTest() { std::iota(values_.begin(), values_.end(), 0.0f); }

  void Use(std::unique_ptr<kernels::Device> device) {
    device_ = std::move(device);
    device_->EnterThread();
    array_.emplace(*WeightsArray::Create(device_.get(), kFloats));
  }
  void UseEmulation() {
    Use(kernels::cuda::MakeEmulatedGpu(/*libraries=*/true,
                                       kernels::Precision::kFp32));
  }
  void Register() {
    registered_ = device_->accelerator()->Register(values_.data(),
                                                   kFloats * sizeof(float));
    ASSERT_NE(registered_, nullptr);
  }
  // Each wait is answered with a thousand more than it asks for.
  void Begin() {
    awaited_.clear();
    host_.emplace(values_, Watch{.wait = [this](int64_t end) {
                    awaited_.push_back(end);
                    return std::min(end + 1000, kFloats);
                  }});
    ASSERT_TRUE(array_->Begin(&*host_, &progress_).ok());
  }
  std::vector<float> OnDevice(int64_t floats) {
    std::vector<float> there(floats);
    EXPECT_TRUE(kernels::CopyToHost(device_.get(), array_->values().data(),
                                    there.data(), floats * sizeof(float))
                    .ok());
    return there;
  }
  std::vector<float> Values(int64_t floats) const {
    return {values_.begin(), values_.begin() + floats};
  }
  void ExpectPartsThenAll() {
    Begin();
    ASSERT_TRUE(array_->WaitUntil(100).ok());
    EXPECT_EQ(OnDevice(1100), Values(1100));
    ASSERT_TRUE(array_->WaitUntil(1100).ok());
    EXPECT_THAT(awaited_, ElementsAre(100));
    ASSERT_TRUE(array_->WaitUntil(kFloats).ok());
    EXPECT_THAT(awaited_, ElementsAre(100, kFloats));
    EXPECT_EQ(OnDevice(kFloats), values_);
  }

  std::unique_ptr<kernels::Device> device_;
  std::optional<WeightsArray> array_;
  std::vector<float> values_ = std::vector<float>(kFloats);
  std::unique_ptr<kernels::Registration> registered_;
  std::vector<int64_t> awaited_;
  std::optional<WatchedWeights> host_;
  TaskProgress progress_;
};

TEST_F(WeightsArrayTest, OnTheHostTheyAreReadWhereTheyAre) {
  Use(kernels::MakeReferenceDevice());
  ExpectPartsThenAll();
  EXPECT_EQ(array_->values().data(), values_.data());
  EXPECT_THAT(progress_.travels(), IsEmpty());
}

TEST_F(WeightsArrayTest, WhatHasComeIsBroughtToTheDevice) {
  UseEmulation();
  ExpectPartsThenAll();
  ASSERT_THAT(progress_.travels(), SizeIs(2));
  EXPECT_EQ(progress_.travels()[0].transfer, Transfer::kToDevice);
  // Nothing of one vector is taken for the next one's.
  for (float& value : values_) value += 0.5f;
  ExpectPartsThenAll();
}

TEST_F(WeightsArrayTest, WhatHasComeIsBroughtToAGpu) {
  auto gpu = kernels::MakeCudaDevice({});
  if (absl::IsNotFound(gpu.status())) {
    GTEST_SKIP() << "SKIPPED: " << gpu.status().message();
  }
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  Use(*std::move(gpu));
  ExpectPartsThenAll();
  for (float& value : values_) value += 0.5f;
  ExpectPartsThenAll();
  Register();
  for (float& value : values_) value += 0.25f;
  ExpectPartsThenAll();
}

TEST_F(WeightsArrayTest, RegisteredOnesAreReadWhenOperationsNeedThem) {
  UseEmulation();
  Register();
  ExpectPartsThenAll();
  for (float& value : values_) value += 0.5f;
  ExpectPartsThenAll();
}

// All have come, and the first operation does not wait for the copy of all.
TEST_F(WeightsArrayTest, WhatNoOperationNeedsYetIsNotSent) {
  constexpr int64_t kLeast = 1 << 18;
  UseEmulation();
  WeightsInPlace host(values_);
  ASSERT_TRUE(array_->Begin(&host, &progress_).ok());
  for (const auto& [end, there] : {std::pair<int64_t, int64_t>{1, kLeast},
                                   {kLeast, kLeast},
                                   {kLeast + 1, 2 * kLeast},
                                   {4 * kLeast + 5, 4 * kLeast + 5},
                                   {kFloats - 1, kFloats - 1},
                                   {kFloats, kFloats}}) {
    const auto waited = array_->WaitUntil(end);
    ASSERT_TRUE(waited.ok()) << waited.status();
    EXPECT_EQ(std::get<int64_t>(*waited), there);
    EXPECT_EQ(array_->complete(), there == kFloats);
    EXPECT_EQ(OnDevice(there), Values(there));
  }
  EXPECT_THAT(progress_.travels(), SizeIs(5));
}

TEST_F(WeightsArrayTest, WhatEndsAWaitIsTold) {
  UseEmulation();
  absl::StatusOr<OrRestarted<int64_t>> end =
      absl::UnavailableError("shard 1 is lost");
  WatchedWeights host(values_, {.wait = [&](int64_t) { return end; }});
  ASSERT_TRUE(array_->Begin(&host, &progress_).ok());
  EXPECT_EQ(array_->WaitUntil(1).status(), end.status());
  end = Restarted{};
  const auto waited = array_->WaitUntil(1);
  EXPECT_TRUE(waited.ok() && IsRestarted(*waited));
}

}  // namespace
}  // namespace sluice

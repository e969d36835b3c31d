#include "worker/model/weights_array.h"

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

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
    Use(kernels::cuda::MakeDeviceOn(
        kernels::cuda::MakeEmulatedBackend(/*libraries=*/true),
        kernels::Precision::kFp32));
  }
  // Each await is answered with a thousand more than it asks for.
  void Begin() {
    awaited_.clear();
    copies_.clear();
    ASSERT_TRUE(array_
                    ->Begin(
                        values_,
                        [this](int64_t end) {
                          awaited_.push_back(end);
                          return std::min(end + 1000, kFloats);
                        },
                        [this](bool begin) { copies_ += begin ? '(' : ')'; })
                    .ok());
  }
  std::vector<float> OnDevice(int64_t floats) {
    std::vector<float> there(floats);
    EXPECT_TRUE(device_
                    ->CopyToHost(array_->on_device(), there.data(),
                                 floats * sizeof(float))
                    .ok());
    return there;
  }
  std::vector<float> Values(int64_t floats) const {
    return {values_.begin(), values_.begin() + floats};
  }
  void ExpectPartsThenAll() {
    Begin();
    ASSERT_TRUE(array_->Need(100).ok());
    EXPECT_EQ(OnDevice(1100), Values(1100));
    ASSERT_TRUE(array_->Need(1100).ok());
    EXPECT_THAT(awaited_, ElementsAre(100));
    ASSERT_TRUE(array_->Need(kFloats).ok());
    EXPECT_THAT(awaited_, ElementsAre(100, kFloats));
    EXPECT_EQ(OnDevice(kFloats), values_);
  }

  std::unique_ptr<kernels::Device> device_;
  std::optional<WeightsArray> array_;
  std::vector<float> values_ = std::vector<float>(kFloats);
  std::vector<int64_t> awaited_;
  std::string copies_;  // "(": one begins; ")": it has ended.
};

TEST_F(WeightsArrayTest, OnTheHostTheyAreReadWhereTheyAre) {
  Use(kernels::MakeReferenceDevice());
  ExpectPartsThenAll();
  EXPECT_EQ(array_->on_device(), values_.data());
  EXPECT_EQ(copies_, "");
}

TEST_F(WeightsArrayTest, WhatHasComeIsBroughtToTheDevice) {
  UseEmulation();
  ExpectPartsThenAll();
  EXPECT_EQ(copies_, "()()");
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
}

TEST_F(WeightsArrayTest, WithNothingToAwaitAllAreThere) {
  UseEmulation();
  ASSERT_TRUE(array_->Begin(values_, nullptr).ok());
  ASSERT_TRUE(array_->Need(1).ok());
  EXPECT_EQ(OnDevice(kFloats), values_);
}

TEST_F(WeightsArrayTest, AnAwaitThatFailsIsTold) {
  UseEmulation();
  ASSERT_TRUE(array_
                  ->Begin(values_,
                          [](int64_t) -> absl::StatusOr<int64_t> {
                            return absl::UnavailableError("shard 1 is lost");
                          })
                  .ok());
  EXPECT_EQ(array_->Need(1), absl::UnavailableError("shard 1 is lost"));
}

}  // namespace
}  // namespace sluice

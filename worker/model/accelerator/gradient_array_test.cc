#include "worker/model/accelerator/gradient_array.h"

#include <algorithm>
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

// Three copies' worth and a rest.
constexpr int64_t kFloats = (3 << 18) + 1000;
constexpr int64_t kCopy = 1 << 18;

class GradientArrayTest : public ::testing::Test {
 protected:
  void Use(std::unique_ptr<kernels::Device> device) {
    device_ = std::move(device);
    device_->EnterThread();
    array_.emplace(*GradientArray::Create(device_.get(), kFloats));
  }
  // A GPU whose copies come as late as they may.
  void UseGpu() {
    Use(kernels::cuda::MakeEmulatedGpu(/*libraries=*/true,
                                       kernels::Precision::kFp32));
  }
  void Register() {
    registered_ = device_->accelerator()->Register(values_.data(),
                                                   kFloats * sizeof(float));
    ASSERT_NE(registered_, nullptr);
  }
  void Begin() {
    ready_.clear();
    host_.emplace(absl::MakeSpan(values_),
                  Watch{[this](int64_t from) { ready_.push_back(from); }});
    ASSERT_TRUE(array_->Begin(&*host_, &progress_).ok());
  }
  // As a layer does: writes floats `from` to `until`, number + `plus` each.
  void Write(int64_t from, int64_t until, float plus = 0) {
    std::vector<float> part(until - from);
    std::iota(part.begin(), part.end(), static_cast<float>(from) + plus);
    ASSERT_TRUE(kernels::CopyToDevice(device_.get(), part.data(),
                                      array_->values().data() + from,
                                      part.size() * sizeof(float))
                    .ok());
    ASSERT_TRUE(array_->FinalFrom(from).ok());
  }
  void ExpectAll(float plus = 0) {
    for (int64_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(values_[i], static_cast<float>(i) + plus) << i;
    }
  }

  std::unique_ptr<kernels::Device> device_;
  std::optional<GradientArray> array_;
  std::vector<float> values_ = std::vector<float>(kFloats, -1);
  std::unique_ptr<kernels::Registration> registered_;
  std::vector<int64_t> ready_;
  std::optional<WatchedGradient> host_;
  TaskProgress progress_;
};

TEST_F(GradientArrayTest, OnTheHostEveryPartIsThereAtOnce) {
  Use(kernels::MakeReferenceDevice());
  Begin();
  EXPECT_EQ(array_->values().data(), values_.data());
  Write(100, kFloats);
  EXPECT_THAT(ready_, ElementsAre(100));
  Write(0, 100);
  ASSERT_TRUE(array_->Finish().ok());
  EXPECT_THAT(ready_, ElementsAre(100, 0));
  EXPECT_THAT(progress_.travels(), IsEmpty());
  ExpectAll();
}

TEST_F(GradientArrayTest, PartsComeWhileLaterOnesAreComputed) {
  UseGpu();
  Begin();
  Write(kFloats - kCopy, kFloats);
  EXPECT_THAT(ready_, IsEmpty());
  EXPECT_EQ(values_.back(), -1);
  Write(kFloats - 2 * kCopy, kFloats - kCopy);
  EXPECT_THAT(ready_, ElementsAre(kFloats - kCopy));
  EXPECT_EQ(values_[kFloats - kCopy], kFloats - kCopy);
  Write(0, kFloats - 2 * kCopy);
  ASSERT_TRUE(array_->Finish().ok());
  EXPECT_THAT(ready_, ElementsAre(kFloats - kCopy, kFloats - 2 * kCopy, 0));
  ASSERT_THAT(progress_.travels(), SizeIs(1));
  EXPECT_EQ(progress_.travels()[0].transfer, Transfer::kToHost);
  ExpectAll();
}

// Nobody hears of a part that is still written to.
TEST_F(GradientArrayTest, PartsComeToRegisteredMemoryBeforeTheyAreToldOf) {
  UseGpu();
  Register();
  for (const float plus : {0.0f, 0.5f}) {
    Begin();
    Write(kFloats - kCopy, kFloats, plus);
    EXPECT_THAT(ready_, IsEmpty());
    Write(0, kFloats - kCopy, plus);
    EXPECT_THAT(ready_, ElementsAre(kFloats - kCopy));
    EXPECT_EQ(values_.back(), kFloats - 1 + plus);
    ASSERT_TRUE(array_->Finish().ok());
    EXPECT_EQ(ready_.back(), 0);
    ExpectAll(plus);
  }
}

TEST_F(GradientArrayTest, PartsComeFromAGpu) {
  auto gpu = kernels::MakeCudaDevice({});
  if (absl::IsNotFound(gpu.status())) {
    GTEST_SKIP() << "SKIPPED: " << gpu.status().message();
  }
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  Use(*std::move(gpu));
  for (const float plus : {0.0f, 0.5f, 0.25f}) {
    if (plus == 0.25f) Register();
    Begin();
    for (int64_t end = kFloats; end > 0; end -= 100000) {
      Write(std::max<int64_t>(end - 100000, 0), end, plus);
    }
    ASSERT_TRUE(array_->Finish().ok());
    EXPECT_EQ(ready_.back(), 0);
    EXPECT_TRUE(std::is_sorted(ready_.rbegin(), ready_.rend()));
    ExpectAll(plus);
  }
}

TEST_F(GradientArrayTest, SmallPartsTravelTogether) {
  UseGpu();
  Begin();
  for (int64_t end = kFloats; end > 0; end -= 1000) {
    Write(std::max<int64_t>(end - 1000, 0), end);
  }
  ASSERT_TRUE(array_->Finish().ok());
  // As soon as there are 262 of them, and once the rest.
  EXPECT_THAT(ready_, ElementsAre(kFloats - 263000, kFloats - 526000, 0));
  ExpectAll();
}

TEST_F(GradientArrayTest, WhatIsFinalAtOnceTravelsInParts) {
  UseGpu();
  Begin();
  Write(0, kFloats);
  EXPECT_THAT(ready_, IsEmpty());
  ASSERT_TRUE(array_->Finish().ok());
  // The rest is not worth a copy of its own.
  EXPECT_THAT(ready_, ElementsAre(kFloats - kCopy, kFloats - 2 * kCopy, 0));
  ASSERT_THAT(progress_.travels(), SizeIs(1));
  EXPECT_EQ(progress_.travels()[0].transfer, Transfer::kToHost);
  ExpectAll();
}

TEST_F(GradientArrayTest, OneThatWasGivenUpWritesNothingAnyMore) {
  UseGpu();
  Begin();
  Write(kFloats - kCopy, kFloats, 0.5f);
  std::vector<float> old = std::move(values_);
  values_.assign(kFloats, -1);
  Begin();
  Write(0, kFloats);
  ASSERT_TRUE(array_->Finish().ok());
  EXPECT_THAT(ready_, ElementsAre(kFloats - kCopy, kFloats - 2 * kCopy, 0));
  EXPECT_EQ(old, std::vector<float>(kFloats, -1));
  ExpectAll();
}

}  // namespace
}  // namespace sluice

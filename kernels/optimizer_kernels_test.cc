#include "kernels/optimizer_kernels.h"

#include <hwy/targets.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice::kernels {
namespace {

constexpr int kSizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 1009, 1025};

// Floats that begin `shift` floats after an aligned address.
class Floats {
 public:
  Floats(int n, int shift, std::mt19937* random) : n_(n), shift_(shift) {
    values_.resize(n + shift + 1, kGuard);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (int i = 0; i < n; ++i) data()[i] = uniform(*random);
  }
  float* data() { return values_.data() + shift_; }
  std::vector<float> copy() { return {data(), data() + n_}; }
  bool GuardsStand() const {
    return values_.back() == kGuard &&
           (shift_ == 0 || values_[shift_ - 1] == kGuard);
  }

 private:
  static constexpr float kGuard = 12345;
  int n_;
  int shift_;
  std::vector<float> values_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<SgdOptions> Variants() {
  return {{0.1f, 0, false, 0},        {0.1f, 0, false, 5e-4f},
          {0.1f, 0.9f, false, 0},     {0.1f, 0.9f, true, 0},
          {0.1f, 0.9f, false, 5e-4f}, {0.1f, 0.9f, true, 5e-4f}};
}

void ExpectTheReferencesBits(const SgdOptions& options, int k, int n,
                             int shift) {
  std::mt19937 random(n * 100 + k * 10 + shift);
  std::vector<Floats> gradients;
  std::vector<const float*> pointers;
  std::vector<float> factors;
  gradients.reserve(k);
  for (int i = 0; i < k; ++i) {
    gradients.emplace_back(n, (shift + i) % 4, &random);
    pointers.push_back(gradients.back().data());
    factors.push_back(1.0f / (i + 3));
  }
  Floats weights(n, shift, &random);
  Floats velocity(n, shift, &random);
  Floats updated(n, shift, &random);
  std::vector<float> velocity_twin = velocity.copy();
  std::vector<float> updated_twin(n);
  SgdUpdateReference(options, {pointers, factors}, n, weights.data(),
                     velocity_twin.data(), updated_twin.data());
  SgdUpdate(options, {pointers, factors}, n, weights.data(), velocity.data(),
            updated.data());
  const std::string what = absl::StrCat("n ", n, " k ", k, " shift ", shift);
  EXPECT_TRUE(SameBits(updated.copy(), updated_twin)) << what;
  EXPECT_TRUE(SameBits(velocity.copy(), velocity_twin)) << what;
  EXPECT_TRUE(updated.GuardsStand() && velocity.GuardsStand()) << what;
}

// Runs the test for every instruction set this machine has.
class SgdUpdateTest : public testing::Test {
 protected:
  void ForEachTarget(const std::function<void()>& body) {
    const int64_t targets = hwy::SupportedTargets();
    for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
      hwy::SetSupportedTargetsForTest(rest & ~(rest - 1));
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_F(SgdUpdateTest, GivesTheReferencesBitsAtEverySizeAndAlignment) {
  ForEachTarget([] {
    for (const SgdOptions& options : Variants()) {
      for (const int k : {1, 2, 3, 8}) {
        for (const int n : kSizes) {
          for (const int shift : {0, 1, 3}) {
            ExpectTheReferencesBits(options, k, n, shift);
          }
        }
      }
    }
  });
}

TEST_F(SgdUpdateTest, AnElementsBitsDoNotDependOnItsPosition) {
  const SgdOptions options{0.3f, 0.9f, true, 1e-3f};
  constexpr int kCount = 67;
  ForEachTarget([&options] {
    const std::vector<float> g1(kCount, 0.1f), g2(kCount, 0.7f);
    const std::vector<float> weights(kCount, 1.0f / 3);
    std::vector<float> velocity(kCount, 0.123f), updated(kCount);
    const float* gradients[] = {g1.data(), g2.data()};
    const float factors[] = {0.6f, 0.3f};
    SgdUpdate(options, {gradients, factors}, kCount, weights.data(),
              velocity.data(), updated.data());
    for (int i = 1; i < kCount; ++i) {
      EXPECT_EQ(updated[i], updated[0]) << i;
      EXPECT_EQ(velocity[i], velocity[0]) << i;
    }
  });
}

TEST_F(SgdUpdateTest, InPlaceGivesTheSameBits) {
  std::mt19937 random(1);
  Floats weights(1025, 0, &random), gradient(1025, 0, &random);
  std::vector<float> apart(1025);
  const float* gradients[] = {gradient.data()};
  const float factors[] = {1};
  const SgdOptions options{0.1f, 0, false, 0.01f};
  SgdUpdate(options, {gradients, factors}, 1025, weights.data(), nullptr,
            apart.data());
  SgdUpdate(options, {gradients, factors}, 1025, weights.data(), nullptr,
            weights.data());
  EXPECT_TRUE(SameBits(weights.copy(), apart));
}

// Two steps worked out by hand, in numbers that floats hold exactly.
TEST_F(SgdUpdateTest, FollowsTheFormula) {
  const float g1[] = {2}, g2[] = {4};
  const float* gradients[] = {g1, g2};
  const float factors[] = {0.5f, 0.25f};  // g = 1 + 1 = 2.
  float w[] = {8}, v[] = {4};
  // g = 2 + 8/4 = 4; v = 4/2 + 4 = 6; s = 6/2 + 4 = 7; w = 8 - 7/2.
  SgdUpdate({0.5f, 0.5f, true, 0.25f}, {gradients, factors}, 1, w, v, w);
  EXPECT_EQ(v[0], 6);
  EXPECT_EQ(w[0], 4.5f);
  // g = 2; v = 6/2 + 2 = 5; s = v; w = 4.5 - 5/2.
  SgdUpdate({0.5f, 0.5f, false, 0}, {gradients, factors}, 1, w, v, w);
  EXPECT_EQ(v[0], 5);
  EXPECT_EQ(w[0], 2);
}

TEST(FirstNonFiniteTest, FindsTheFirstNanOrInfinityWhereverItStands) {
  for (const int n : kSizes) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    EXPECT_EQ(FirstNonFinite(values), -1) << n;
    for (int at = 0; at < n; at += 7) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
        std::vector<float> damaged = values;
        damaged[at] = bad;
        damaged[n - 1] = bad;
        EXPECT_EQ(FirstNonFinite(damaged), at) << n;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::kernels

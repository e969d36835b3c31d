#include "kernels/optimizer_kernels.h"

#include <hwy/targets.h>

#include <cmath>
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

// Random floats from `least` to 2 that begin `shift` floats after an aligned
// address.
class Floats {
 public:
  Floats(int n, int shift, float least, std::mt19937* random)
      : n_(n), shift_(shift) {
    values_.resize(n + shift + 1, kGuard);
    std::uniform_real_distribution<float> uniform(least, 2);
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

// One optimizer with its options, and what it keeps between updates.
struct Case {
  std::string name;
  float first_state;  // State starts at this or above.
  // `state` has two arrays, of which each takes what it needs.
  std::function<void(const WeightedGradients&, int64_t, const float*weights,
                     float*const state[2], float*updated)>
      update, reference;
};

Case SgdCase(const SgdOptions& o) {
  return {absl::StrCat("sgd momentum ", o.momentum, " nesterov ", o.nesterov,
                       " decay ", o.weight_decay),
          -2,
          [o](const WeightedGradients& g, int64_t n, const float* w,
              float* const s[2], float* u) { SgdUpdate(o, g, n, w, s[0], u); },
          [o](const WeightedGradients& g, int64_t n, const float* w,
              float* const s[2],
              float* u) { SgdUpdateReference(o, g, n, w, s[0], u); }};
}

Case AdagradCase(const AdagradOptions& o) {
  return {
      absl::StrCat("adagrad decay ", o.weight_decay), 0.1f,
      [o](const WeightedGradients& g, int64_t n, const float* w,
          float* const s[2], float* u) { AdagradUpdate(o, g, n, w, s[0], u); },
      [o](const WeightedGradients& g, int64_t n, const float* w,
          float* const s[2],
          float* u) { AdagradUpdateReference(o, g, n, w, s[0], u); }};
}

Case AdamCase(const AdamOptions& o) {
  return {absl::StrCat("adam decay ", o.weight_decay, " decoupled ",
                       o.decoupled, " update ", o.update),
          0,
          [o](const WeightedGradients& g, int64_t n, const float* w,
              float* const s[2],
              float* u) { AdamUpdate(o, g, n, w, s[0], s[1], u); },
          [o](const WeightedGradients& g, int64_t n, const float* w,
              float* const s[2],
              float* u) { AdamUpdateReference(o, g, n, w, s[0], s[1], u); }};
}

Case MovingAverageCase(float share) {
  return {absl::StrCat("moving average share ", share), 0,
          [share](const WeightedGradients& g, int64_t n, const float* s,
                  float* const[2],
                  float* u) { MovingAverageUpdate(share, g, n, s, u); },
          [share](const WeightedGradients& g, int64_t n, const float* s,
                  float* const[2], float* u) {
            MovingAverageUpdateReference(share, g, n, s, u);
          }};
}

std::vector<Case> Cases() {
  const auto adam = [](double decay, bool decoupled, int64_t update) {
    return AdamCase({.learning_rate = 0.01,
                     .weight_decay = decay,
                     .decoupled = decoupled,
                     .update = update});
  };
  return {SgdCase({0.1f, 0, false, 0}),
          SgdCase({0.1f, 0, false, 5e-4f}),
          SgdCase({0.1f, 0.9f, false, 0}),
          SgdCase({0.1f, 0.9f, true, 0}),
          SgdCase({0.1f, 0.9f, false, 5e-4f}),
          SgdCase({0.1f, 0.9f, true, 5e-4f}),
          AdagradCase({0.1f, 0}),
          AdagradCase({0.1f, 5e-4f}),
          adam(0, false, 1),
          adam(5e-4, false, 2),
          adam(5e-4, true, 1000),
          {"sum", 0,
           [](const WeightedGradients& g, int64_t n, const float*,
              float* const[2], float* u) { WeightedSum(g, n, u); },
           [](const WeightedGradients& g, int64_t n, const float*,
              float* const[2], float* u) { WeightedSumReference(g, n, u); }},
          MovingAverageCase(0.1f),
          MovingAverageCase(1)};
}

void ExpectTheReferencesBits(const Case& one, int k, int n, int shift) {
  std::mt19937 random(n * 100 + k * 10 + shift);
  std::vector<Floats> gradients;
  std::vector<const float*> pointers;
  std::vector<float> factors;
  gradients.reserve(k);
  for (int i = 0; i < k; ++i) {
    gradients.emplace_back(n, (shift + i) % 4, -2, &random);
    pointers.push_back(gradients.back().data());
    factors.push_back(1.0f / (i + 3));
  }
  Floats weights(n, shift, -2, &random);
  Floats updated(n, shift, -2, &random);
  Floats first(n, shift, one.first_state, &random);
  Floats second(n, shift, one.first_state, &random);
  std::vector<float> updated_twin(n);
  std::vector<float> first_twin = first.copy();
  std::vector<float> second_twin = second.copy();
  float* const twins[] = {first_twin.data(), second_twin.data()};
  one.reference({pointers, factors}, n, weights.data(), twins,
                updated_twin.data());
  float* const state[] = {first.data(), second.data()};
  one.update({pointers, factors}, n, weights.data(), state, updated.data());
  const std::string what =
      absl::StrCat(one.name, " n ", n, " k ", k, " shift ", shift);
  EXPECT_TRUE(SameBits(updated.copy(), updated_twin)) << what;
  EXPECT_TRUE(SameBits(first.copy(), first_twin)) << what;
  EXPECT_TRUE(SameBits(second.copy(), second_twin)) << what;
  EXPECT_TRUE(updated.GuardsStand() && first.GuardsStand() &&
              second.GuardsStand())
      << what;
}

// Runs the test for every instruction set this machine has.
class OptimizerKernelTest : public testing::Test {
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

TEST_F(OptimizerKernelTest, GivesTheReferencesBitsAtEverySizeAndAlignment) {
  ForEachTarget([] {
    for (const Case& one : Cases()) {
      for (const int k : {1, 2, 3, 8}) {
        for (const int n : kSizes) {
          for (const int shift : {0, 1, 3}) {
            ExpectTheReferencesBits(one, k, n, shift);
          }
        }
      }
    }
  });
}

TEST_F(OptimizerKernelTest, AMovingAverageGoesTowardsTheMean) {
  const float one = 4, two = 8, average = 3;
  const std::vector<const float*> gradients = {&one, &two};
  const std::vector<float> weights = {0.25f, 0.75f};
  float updated = 0;
  MovingAverageUpdate(0.5f, {gradients, weights}, 1, &average, &updated);
  EXPECT_EQ(updated, 3 + 0.5f * (7 - 3));
}

TEST_F(OptimizerKernelTest, ASumThatGoesOnHasTheBitsOfTheSumOfAll) {
  constexpr int kCount = 67;
  std::mt19937 random(1);
  Floats g1(kCount, 1, -2, &random), g2(kCount, 2, -2, &random),
      g3(kCount, 3, -2, &random);
  const std::vector<const float*> all = {g1.data(), g2.data(), g3.data()};
  const std::vector<float> weights = {0.3f, 0.2f, 0.7f};
  ForEachTarget([&] {
    std::vector<float> whole(kCount), step(kCount);
    WeightedSum({all, weights}, kCount, whole.data());
    WeightedSum({{all[0]}, {weights[0]}}, kCount, step.data());
    for (const int next : {1, 2}) {
      WeightedSum({{step.data(), all[next]}, {1.0f, weights[next]}}, kCount,
                  step.data());
    }
    EXPECT_TRUE(SameBits(step, whole));
  });
}

TEST_F(OptimizerKernelTest, AnElementsBitsDoNotDependOnItsPosition) {
  constexpr int kCount = 67;
  ForEachTarget([] {
    for (const Case& one : Cases()) {
      const std::vector<float> g1(kCount, 0.1f), g2(kCount, 0.7f);
      const std::vector<float> weights(kCount, 1.0f / 3);
      std::vector<float> first(kCount, 0.123f), second(kCount, 0.321f);
      std::vector<float> updated(kCount);
      const float* gradients[] = {g1.data(), g2.data()};
      const float factors[] = {0.6f, 0.3f};
      float* const state[] = {first.data(), second.data()};
      one.update({gradients, factors}, kCount, weights.data(), state,
                 updated.data());
      for (int i = 1; i < kCount; ++i) {
        EXPECT_EQ(updated[i], updated[0]) << one.name << " " << i;
        EXPECT_EQ(first[i], first[0]) << one.name << " " << i;
        EXPECT_EQ(second[i], second[0]) << one.name << " " << i;
      }
    }
  });
}

TEST_F(OptimizerKernelTest, InPlaceGivesTheSameBits) {
  constexpr int kCount = 1025;
  for (const Case& one : Cases()) {
    std::mt19937 random(1);
    Floats weights(kCount, 0, -2, &random), gradient(kCount, 0, -2, &random);
    std::vector<float> apart(kCount), first(kCount, 0.1f), second(kCount, 0.1f);
    std::vector<float> first_again = first, second_again = second;
    const float* gradients[] = {gradient.data()};
    const float factors[] = {1};
    float* const state[] = {first.data(), second.data()};
    one.update({gradients, factors}, kCount, weights.data(), state,
               apart.data());
    float* const again[] = {first_again.data(), second_again.data()};
    one.update({gradients, factors}, kCount, weights.data(), again,
               weights.data());
    EXPECT_TRUE(SameBits(weights.copy(), apart)) << one.name;
  }
}

// Two steps worked out by hand, in numbers that floats hold exactly.
TEST_F(OptimizerKernelTest, SgdFollowsTheFormula) {
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

TEST_F(OptimizerKernelTest, AdagradDividesByTheRootOfItsSquares) {
  const float gradient[] = {3};
  const float* gradients[] = {gradient};
  const float factors[] = {1};
  float w[] = {8}, s[] = {7};
  // g = 3; s = 7 + 9 = 16; w = 8 - 2 * 3/4.
  AdagradUpdate({2, 0}, {gradients, factors}, 1, w, s, w);
  EXPECT_EQ(s[0], 16);
  EXPECT_EQ(w[0], 6.5f);
  // g = 3 + 6.5 * 2/13 = 4; s = 16 + 16.
  AdagradUpdate({2, 2.0f / 13}, {gradients, factors}, 1, w, s, w);
  EXPECT_FLOAT_EQ(s[0], 32);
  EXPECT_FLOAT_EQ(w[0], 6.5f - 2 * 4 / std::sqrt(32.0f));
}

// Adam as published, with its corrected moments, in double.
struct PublishedAdam {
  AdamOptions options;
  double w, m = 0, v = 0;

  void Update(double g) {
    const double shrink =
        options.decoupled ? options.learning_rate * options.weight_decay : 0;
    if (!options.decoupled) g += options.weight_decay * w;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(options.beta1, options.update));
    const double v_hat = v / (1 - std::pow(options.beta2, options.update));
    w -= shrink * w +
         options.learning_rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
    ++options.update;
  }
};

TEST_F(OptimizerKernelTest, AdamFollowsThePublishedAlgorithm) {
  for (const bool decoupled : {false, true}) {
    AdamOptions options{.learning_rate = 0.1,
                        .beta2 = 0.99,
                        .weight_decay = 0.05,
                        .decoupled = decoupled};
    PublishedAdam published{options, 2};
    float w[] = {2}, m[] = {0}, v[] = {0};
    for (; options.update <= 100; ++options.update) {
      const float gradient[] = {options.update % 3 - 0.5f};
      const float* gradients[] = {gradient};
      const float factors[] = {1};
      AdamUpdate(options, {gradients, factors}, 1, w, m, v, w);
      published.Update(gradient[0]);
      // A few roundings of a float at each of at most 100 updates, each of a
      // number below 4.
      EXPECT_NEAR(w[0], published.w, options.update * 4 * 1.2e-7)
          << "update " << options.update << " decoupled " << decoupled;
    }
  }
}

TEST_F(OptimizerKernelTest, AdamsFirstMoveIsTheRateInTheGradientsDirection) {
  const float gradient[] = {1e-3f, -20};
  const float* gradients[] = {gradient};
  const float factors[] = {1};
  float w[] = {0, 0}, m[] = {0, 0}, v[] = {0, 0};
  AdamUpdate({.learning_rate = 0.5, .epsilon = 0}, {gradients, factors}, 2, w,
             m, v, w);
  EXPECT_FLOAT_EQ(w[0], -0.5f);
  EXPECT_FLOAT_EQ(w[1], 0.5f);
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

#ifndef SLUICE_WORKER_MODEL_TESTING_GRADIENT_CHECKS_H_
#define SLUICE_WORKER_MODEL_TESTING_GRADIENT_CHECKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"

// What holds of the gradient of any model.
namespace sluice {

inline double LossAt(Model* model, const Batch& batch,
                     std::vector<float> weights, size_t i, float step) {
  weights[i] += step;
  std::vector<float> unused(weights.size());
  const auto result = model->ComputeGradient(
      batch, weights, absl::MakeSpan(unused), CancelToken());
  EXPECT_TRUE(result.ok()) << result.status();
  return result->loss;
}

// The gradient in training of what is trained, against finite differences. A
// central difference is off by h^2 / 6 times the third derivative, which is
// below `third`, and by the rounding of two losses of about 1.5 that come from
// about 16 layers.
inline void CheckTrainingGradient(const ResolvedJob& job, const Batch& batch,
                                  double third = 8) {
  const auto device = kernels::MakeReferenceDevice();
  const auto model = Create(job, batch.samples, device.get());
  std::vector<float> weights = InitialWeights(job);
  const auto gradient = Gradient(model.get(), batch, weights);
  constexpr float kStep = 1.0 / 256;
  const double tolerance =
      third * kStep * kStep / 6 + 2 * 16 * 4 * kUnit * 1.5 / (2 * kStep);
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (job.layout.TensorAt(i).is_statistic()) continue;
    const double above = LossAt(model.get(), batch, weights, i, kStep);
    const double below = LossAt(model.get(), batch, weights, i, -kStep);
    ASSERT_NEAR((above - below) / (2 * kStep), gradient[i], tolerance)
        << job.layout.TensorAt(i).name << " at " << i;
    largest = std::max(largest, static_cast<double>(std::abs(gradient[i])));
  }
  EXPECT_GT(largest, 20 * tolerance);
}

// The CPU's gradient of 5 samples is the reference's, but for `roundings` of
// the largest element.
inline void CheckCpuGradient(const ResolvedJob& job, double roundings) {
  const auto cpu = Cpu(), reference = kernels::MakeReferenceDevice();
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 5, 5);
  const auto got = Gradient(Create(job, 7, cpu.get()).get(), batch, weights);
  const auto want =
      Gradient(Create(job, 7, reference.get()).get(), batch, weights);
  float largest = 0;
  for (float g : want) largest = std::max(largest, std::abs(g));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], roundings * kUnit * largest)
        << job.layout.TensorAt(i).name;
  }
}

// The gradient on `device` becomes ready from the end to the beginning, in so
// many steps, and what is ready is final.
inline void CheckAnnouncements(const ResolvedJob& job, kernels::Device* device,
                               size_t steps) {
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 5, 5);
  const auto want = Gradient(Create(job, 5, device).get(), batch, weights);
  std::vector<float> gradient(weights.size(), std::nanf(""));
  std::vector<int64_t> froms = {job.layout.size()};
  const auto model = Create(job, 5, device);
  const auto result = Watched(
      model.get(), batch, weights, absl::MakeSpan(gradient), CancelToken(),
      {[&](int64_t from) {
        EXPECT_LT(from, froms.back());
        froms.push_back(from);
        EXPECT_EQ(std::memcmp(gradient.data() + from, want.data() + from,
                              (want.size() - from) * sizeof(float)),
                  0);
      }});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(froms.back(), 0);
  EXPECT_EQ(froms.size() - 1, steps);
}

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_TESTING_GRADIENT_CHECKS_H_

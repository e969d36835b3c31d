// A problem whose answer is known: y = x . w + noise, with w drawn once for the
// job (LinearRegressionOptimum), so a test can ask how far weights are from the
// best. Each number is drawn by its index in a stream of its own: every process
// makes the same samples, and the test split shares w but no sample with the
// other.
#include <algorithm>
#include <utility>

#include "common/random.h"
#include "common/status_macros.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

// All samples, generated once.
class LinearRegressionSource final : public DataSource {
 public:
  LinearRegressionSource(int64_t features, std::vector<float> inputs,
                         std::vector<float> targets)
      : features_(features),
        inputs_(std::move(inputs)),
        targets_(std::move(targets)) {}

  int64_t size() const override {
    return static_cast<int64_t>(targets_.size());
  }

  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(indices.size() * features_);
    batch->labels.clear();
    batch->targets.resize(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      SLUICE_CHECK(indices[i] >= 0 && indices[i] < size());
      std::copy_n(inputs_.begin() + indices[i] * features_, features_,
                  batch->inputs.begin() + i * features_);
      batch->targets[i] = targets_[indices[i]];
    }
    return absl::OkStatus();
  }

 private:
  int64_t features_;
  std::vector<float> inputs_;   // (samples, features)
  std::vector<float> targets_;  // (samples)
};

}  // namespace

std::unique_ptr<DataSource> MakeLinearRegression(
    const proto::LinearRegression& options, Split split, uint64_t seed) {
  const bool train = split == Split::kTrain;
  const int64_t features = options.features();
  const int64_t samples =
      train ? options.train_samples() : options.test_samples();
  const std::vector<float> optimum = LinearRegressionOptimum(options, seed);
  const Random x(seed, train ? "linear_regression.train.inputs"
                             : "linear_regression.test.inputs");
  const Random noise(seed, train ? "linear_regression.train.noise"
                                 : "linear_regression.test.noise");
  std::vector<float> inputs(samples * features);
  std::vector<float> targets(samples);
  for (int64_t i = 0; i < samples; ++i) {
    double target = options.noise() * noise.Normal(i);
    for (int64_t j = 0; j < features; ++j) {
      const int64_t at = i * features + j;
      inputs[at] = static_cast<float>(x.Normal(at));
      target += static_cast<double>(inputs[at]) * optimum[j];
    }
    targets[i] = static_cast<float>(target);
  }
  return std::make_unique<LinearRegressionSource>(features, std::move(inputs),
                                                  std::move(targets));
}

std::vector<float> LinearRegressionOptimum(
    const proto::LinearRegression& options, uint64_t seed) {
  const Random random(seed, "linear_regression.weights");
  std::vector<float> weights(options.features());
  for (size_t j = 0; j < weights.size(); ++j) {
    weights[j] = static_cast<float>(random.Normal(j));
  }
  return weights;
}

}  // namespace sluice

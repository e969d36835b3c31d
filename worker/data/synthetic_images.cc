// Sample i has label i mod classes, and its pixels are the class's pattern plus
// noise. With 10 classes, samples 3 and 13 have the same pattern and different
// noise. Only the patterns are stored; noise is drawn when a sample is
// gathered, as a function of (seed, split, sample, pixel), so that every gather
// gives the same image.
#include <array>
#include <cmath>
#include <vector>

#include "common/random.h"
#include "common/status_macros.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

constexpr int kLanes = 4;  // Numbers in a block of Random.

// Uniform in [-1, 1), exact in a float.
float Symmetric(uint32_t random) {
  return static_cast<float>(random >> 8) * 0x1p-23f - 1.0f;
}

class SyntheticImages final : public DataSource {
 public:
  SyntheticImages(const proto::SyntheticImages& options, Split split,
                  uint64_t seed)
      : pixels_(int64_t{options.channels()} * options.height() *
                options.width()),
        classes_(options.classes()),
        samples_(split == Split::kTrain ? options.train_samples()
                                        : options.test_samples()),
        // A uniform number in [-a, a) has deviation a / sqrt 3.
        noise_(static_cast<float>(options.noise() * std::sqrt(3.0))),
        random_(seed, split == Split::kTrain ? "synthetic_images.train"
                                             : "synthetic_images.test"),
        patterns_(classes_ * pixels_) {
    const Random patterns(seed, "synthetic_images.patterns");
    for (size_t i = 0; i < patterns_.size(); ++i) {
      patterns_[i] = Symmetric(patterns.Block(i / kLanes)[i % kLanes]);
    }
  }

  int64_t size() const override { return samples_; }

  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(indices.size() * pixels_);
    batch->labels.resize(indices.size());
    batch->targets.clear();
    for (size_t i = 0; i < indices.size(); ++i) {
      SLUICE_CHECK(indices[i] >= 0 && indices[i] < size());
      const int64_t label = indices[i] % classes_;
      batch->labels[i] = static_cast<int32_t>(label);
      Draw(indices[i], patterns_.data() + label * pixels_,
           batch->inputs.data() + i * pixels_);
    }
    return absl::OkStatus();
  }

 private:
  void Draw(int64_t sample, const float* pattern, float* to) const {
    const uint64_t blocks = (pixels_ + kLanes - 1) / kLanes;
    std::array<uint32_t, kLanes> random = {};
    for (int64_t p = 0; p < pixels_; ++p) {
      if (p % kLanes == 0) random = random_.Block(sample * blocks + p / kLanes);
      to[p] = pattern[p] + noise_ * Symmetric(random[p % kLanes]);
    }
  }

  const int64_t pixels_;  // Over all channels of an image.
  const int64_t classes_;
  const int64_t samples_;
  const float noise_;  // The largest absolute value of the noise.
  const Random random_;
  std::vector<float> patterns_;  // (classes, pixels); constant.
};

}  // namespace

std::unique_ptr<DataSource> MakeSyntheticImages(
    const proto::SyntheticImages& options, Split split, uint64_t seed) {
  return std::make_unique<SyntheticImages>(options, split, seed);
}

}  // namespace sluice

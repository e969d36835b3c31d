// A draw depends on (seed, mini-batch, position) only. So an image gets the
// same crop whichever worker computes its mini-batch, however the mini-batch is
// split into micro-batches, and when a run is replayed.
//
// A crop is a copy row by row. With crop_padding 2, down = -2 and right = 1, on
// a 5 x 5 image: rows 0 and 1 of the result are background, row 2 is image row
// 0 without its first column, and its last column is background.
#include "worker/data/augmentation.h"

#include <algorithm>
#include <array>

#include "common/random.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A mini-batch has at most 2^20 samples (data.batch_size), and a run has fewer
// than 2^43 mini-batches.
constexpr int kPositionBits = 20;

// Uniform in 0..count-1.
int Below(uint32_t random, int count) {
  return static_cast<int>(uint64_t{random} * static_cast<uint64_t>(count) >>
                          32);
}

}  // namespace

Augmentation::Augmentation(const AugmentationOptions& options)
    : options_(options) {
  SLUICE_CHECK(static_cast<int64_t>(options.background.size()) ==
               options.channels);
  SLUICE_CHECK(options.crop_padding >= 0 &&
               options.crop_padding < std::min(options.height, options.width));
}

AugmentationDraw Augmentation::Draw(BatchId batch, int64_t position) const {
  SLUICE_CHECK(position >= 0 && position < int64_t{1} << kPositionBits);
  const std::array<uint32_t, 4> random =
      Random(options_.seed, "augmentation")
          .Block(static_cast<uint64_t>(batch.value()) << kPositionBits |
                 static_cast<uint64_t>(position));
  const int padding = options_.crop_padding;
  AugmentationDraw draw;
  draw.down = Below(random[0], 2 * padding + 1) - padding;
  draw.right = Below(random[1], 2 * padding + 1) - padding;
  draw.flip = options_.horizontal_flip && Below(random[2], 2) == 1;
  return draw;
}

void Augmentation::Crop(const AugmentationDraw& draw, const float* from,
                        float background, float* to) const {
  const int64_t height = options_.height;
  const int64_t width = options_.width;
  // The columns of the crop that lie inside the image.
  const int64_t begin = std::max<int64_t>(0, -draw.right);
  const int64_t end = std::min<int64_t>(width, width - draw.right);
  for (int64_t y = 0; y < height; ++y, to += width) {
    const int64_t row = y + draw.down;
    if (row < 0 || row >= height) {
      std::fill_n(to, width, background);
      continue;
    }
    std::fill_n(to, begin, background);
    std::copy_n(from + row * width + begin + draw.right, end - begin,
                to + begin);
    std::fill_n(to + end, width - end, background);
    if (draw.flip) std::reverse(to, to + width);
  }
}

void Augmentation::Apply(BatchId batch, int64_t first, Batch* samples) const {
  const int64_t plane = options_.height * options_.width;
  SLUICE_CHECK(static_cast<int64_t>(samples->inputs.size()) ==
               samples->samples * options_.channels * plane);
  std::vector<float> original(plane);
  float* image = samples->inputs.data();
  for (int64_t i = 0; i < samples->samples; ++i) {
    const AugmentationDraw draw = Draw(batch, first + i);
    for (int64_t c = 0; c < options_.channels; ++c, image += plane) {
      std::copy_n(image, plane, original.begin());
      Crop(draw, original.data(), options_.background[c], image);
    }
  }
}

}  // namespace sluice

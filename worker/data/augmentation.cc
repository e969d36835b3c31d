// A crop is a copy row by row. With crop_padding 2, down = -2 and right = 1, on
// a 5 x 5 image: rows 0 and 1 of the result are background, row 2 is image row
// 0 without its first column, and its last column is background.
#include "worker/data/augmentation.h"

#include <algorithm>
#include <array>

#include "common/random.h"
#include "common/status_macros.h"
#include "worker/data/sample_draw.h"

namespace sluice {

Augmentation::Augmentation(const AugmentationOptions& options)
    : options_(options) {
  SLUICE_CHECK(static_cast<int64_t>(options.background.size()) ==
               options.channels);
  SLUICE_CHECK(options.crop_padding >= 0 &&
               options.crop_padding < std::min(options.height, options.width));
}

AugmentationDraw Augmentation::Draw(BatchId batch, int64_t position) const {
  const std::array<uint32_t, 4> random =
      Random(options_.seed, "augmentation").Block(SampleIndex(batch, position));
  const int padding = options_.crop_padding;
  AugmentationDraw draw;
  draw.down = static_cast<int>(Below(random[0], 2 * padding + 1)) - padding;
  draw.right = static_cast<int>(Below(random[1], 2 * padding + 1)) - padding;
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

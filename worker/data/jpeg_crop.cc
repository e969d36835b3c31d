#include "worker/data/jpeg_crop.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/data/sample_draw.h"

namespace sluice {
namespace {

constexpr int kAttempts = 10;
constexpr double kMostRatio = 4.0 / 3;

double Unit(uint32_t random) { return random * 0x1p-32; }  // In [0, 1).

Rectangle Centred(const ImageSize& image, int64_t height, int64_t width) {
  return {.top = (image.height - height) / 2,
          .left = (image.width - width) / 2,
          .height = height,
          .width = width};
}

int64_t Rounded(double value) { return std::llround(value); }

}  // namespace

Rectangle CentreCrop(const ImageSize& image, int64_t size, int64_t resize) {
  const int64_t shorter = std::min(image.height, image.width);
  const int64_t side =
      std::max<int64_t>(1, (shorter * size + resize / 2) / resize);
  return Centred(image, side, side);
}

RandomResizedCrop::RandomResizedCrop(uint64_t seed,
                                     const proto::RandomResizedCrop& options)
    : min_area_(options.min_area()) {
  for (int i = 0; i < kAttempts; ++i) {
    attempts_.emplace_back(seed, absl::StrCat("random resized crop ", i));
  }
}

Rectangle RandomResizedCrop::Draw(BatchId batch, int64_t position,
                                  const ImageSize& image) const {
  const uint64_t index = SampleIndex(batch, position);
  const auto pixels = static_cast<double>(image.height * image.width);
  for (const Random& attempt : attempts_) {
    const std::array<uint32_t, 4> random = attempt.Block(index);
    const double area =
        pixels * (min_area_ + (1 - min_area_) * Unit(random[0]));
    const double u = (2 * Unit(random[1]) - 1) / 7;
    const double ratio = (1 + u) / (1 - u);
    const int64_t width = Rounded(std::sqrt(area * ratio));
    const int64_t height = Rounded(std::sqrt(area / ratio));
    if (width < 1 || height < 1 || width > image.width ||
        height > image.height) {
      continue;
    }
    return {.top = Below(random[2], image.height - height + 1),
            .left = Below(random[3], image.width - width + 1),
            .height = height,
            .width = width};
  }
  const auto fit = [](int64_t side, int64_t other) {
    return std::min(side, Rounded(static_cast<double>(other) * kMostRatio));
  };
  return Centred(image, fit(image.height, image.width),
                 fit(image.width, image.height));
}

bool DrawMirrored(uint64_t seed, BatchId batch, int64_t position) {
  return Random(seed, "mirrored").Block(SampleIndex(batch, position))[0] >>
             31 !=
         0;
}

}  // namespace sluice

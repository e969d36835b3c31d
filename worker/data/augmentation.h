#ifndef SLUICE_WORKER_DATA_AUGMENTATION_H_
#define SLUICE_WORKER_DATA_AUGMENTATION_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "worker/data/data_source.h"

namespace sluice {

// How training images are varied: shifted, by a random crop of the image padded
// with its background, and mirrored (Krizhevsky et al. 2012, He et al. 2016).
struct AugmentationOptions {
  uint64_t seed = 1;
  int64_t channels = 1;
  int64_t height = 0;
  int64_t width = 0;
  int crop_padding = 0;  // Pixels; below height and width.
  bool horizontal_flip = false;
  // The value of the padding in each channel: the normalised value of pixel 0,
  // because images are normalised before they are cropped. The result is the
  // same as a crop of the raw pixels, and a shifted image shows more of its own
  // background. (A padding of 0 would be a frame of the mean's grey.)
  std::vector<float> background;
};

// The random variation of one image.
struct AugmentationDraw {
  // The crop's offset from the image, down and to the right, each
  int down = 0;
  int right = 0;  // uniform in [-crop_padding, crop_padding].
  bool flip = false;
};

// Immutable, therefore thread-safe.
class Augmentation {
 public:
  explicit Augmentation(const AugmentationOptions& options);

  // A pure function of (seed, mini-batch, position in it).
  // REQUIRES: 0 <= position < 2^20.
  AugmentationDraw Draw(BatchId batch, int64_t position) const;

  // Varies the images of `*samples` in place. They are those of mini-batch
  // `batch` from position `first` on. Labels do not change.
  void Apply(BatchId batch, int64_t first, Batch* samples) const;

 private:
  // Crops one channel.
  void Crop(const AugmentationDraw& draw, const float* from, float background,
            float* to) const;

  AugmentationOptions options_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_AUGMENTATION_H_

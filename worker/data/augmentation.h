#ifndef SLUICE_WORKER_DATA_AUGMENTATION_H_
#define SLUICE_WORKER_DATA_AUGMENTATION_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "worker/data/data_source.h"

namespace sluice {

// How images are varied for training: shifted by a random crop out of the
// image padded with its background, and mirrored (Krizhevsky et al. 2012, He et
// al. 2016).
struct AugmentationOptions {
  uint64_t seed = 1;
  int64_t channels = 1;
  int64_t height = 0;
  int64_t width = 0;
  int crop_padding = 0;  // Pixels; below height and width.
  bool horizontal_flip = false;
  // What the padding is, in each channel. Images are normalised before they get
  // here, so this is what pixel value 0 becomes: the crop is as if it were made
  // of the raw pixels, and a shifted image shows more of its own background (0
  // after normalisation would be a frame in the mean's grey).
  std::vector<float> background;
};

// What is drawn for one image.
struct AugmentationDraw {
  int down = 0;   // Where the crop begins, against the image: from
  int right = 0;  // -crop_padding to crop_padding, each as likely.
  bool flip = false;
};

// Immutable, therefore thread-safe.
class Augmentation {
 public:
  explicit Augmentation(const AugmentationOptions& options);

  // A pure function of (seed, mini-batch, position in it). An offset's
  // probability is off 1 / (2 crop_padding + 1) by less than 2^-32.
  // REQUIRES: 0 <= position < 2^20.
  AugmentationDraw Draw(BatchId batch, int64_t position) const;

  // Varies in place the images of `*samples`, which are those of mini-batch
  // `batch` from position `first` on. Labels stay.
  void Apply(BatchId batch, int64_t first, Batch* samples) const;

 private:
  // Of one channel.
  void Crop(const AugmentationDraw& draw, const float* from, float background,
            float* to) const;

  AugmentationOptions options_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_AUGMENTATION_H_

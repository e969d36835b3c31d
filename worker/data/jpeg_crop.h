#ifndef SLUICE_WORKER_DATA_JPEG_CROP_H_
#define SLUICE_WORKER_DATA_JPEG_CROP_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "common/random.h"
#include "proto/job.pb.h"
#include "worker/data/pixels.h"

namespace sluice {

// The largest centred square of an image whose shorter side, were it resized to
// `resize`, has `size` pixels of it: the test images of Krizhevsky et al. 2012.
Rectangle CentreCrop(const ImageSize& image, int64_t size, int64_t resize);

// Which part of a training image is resized for the model, and whether it is
// mirrored (Szegedy et al. 2015, "random resized crop"). A pure function of
// (seed, mini-batch, position in it), and of the image's size.
//
// Immutable, therefore thread-safe.
class RandomResizedCrop {
 public:
  // `options` has its defaults filled in.
  RandomResizedCrop(uint64_t seed, const proto::RandomResizedCrop& options);

  // A part with a share of the image's area that is uniform from min_area to 1,
  // at a place that is uniform, with an aspect ratio of (1 + u / 7) / (1 - u /
  // 7) for u uniform from -1 to 1: that is 3/4 to 4/3, and its logarithm is
  // uniform within 2%, computed by arithmetic that is the same on every
  // machine. If ten such parts do not fit in the image: the largest centred one
  // with a ratio in these bounds. REQUIRES: 0 <= position < 2^20.
  Rectangle Draw(BatchId batch, int64_t position, const ImageSize& image) const;

 private:
  const double min_area_;
  std::vector<Random> attempts_;
};

// Whether an image is mirrored: half are. Keyed as above.
bool DrawMirrored(uint64_t seed, BatchId batch, int64_t position);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_JPEG_CROP_H_

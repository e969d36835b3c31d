#ifndef SLUICE_WORKER_DATA_IMAGE_SOURCE_H_
#define SLUICE_WORKER_DATA_IMAGE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// The normalised value of a pixel (0 to 255) of a channel: (pixel / 255 - mean)
// / deviation. `data`, here and below, has its defaults filled in and a reader
// of images.
float NormalisedPixel(const proto::Data& data, int channel, int pixel);

// Reads images and labels of one split into memory, with one byte per pixel.
// Pixels are normalised when they are gathered. Errors are those of
// OpenDataSource.
absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const proto::Data& data,
                                                       Split split);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_IMAGE_SOURCE_H_

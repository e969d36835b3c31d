#ifndef SLUICE_WORKER_DATA_IMAGE_SOURCE_H_
#define SLUICE_WORKER_DATA_IMAGE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// What pixel value 0 to 255 of a channel becomes: (pixel / 255 - mean) /
// deviation. `data`, here and below, has its defaults filled in and is of a
// reader that has images.
float NormalisedPixel(const proto::Data& data, int channel, int pixel);

// Reads images and labels of one split into memory, a byte a pixel; pixels
// are normalised as they are gathered. Errors as OpenDataSource's.
absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const proto::Data& data,
                                                       Split split);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_IMAGE_SOURCE_H_

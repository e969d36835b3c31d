#ifndef SLUICE_WORKER_DATA_IDX_SOURCE_H_
#define SLUICE_WORKER_DATA_IDX_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// What pixel value 0 to 255 becomes: (pixel / 255 - mean) / deviation. `idx`,
// here and below, has its defaults filled in.
float NormalisedPixel(const proto::Idx& idx, int pixel);

// Reads images and labels of one split into memory, a byte a pixel; pixels
// are normalised as they are gathered. Errors as OpenDataSource's.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(const proto::Idx& idx,
                                                    Split split);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_IDX_SOURCE_H_

#ifndef SLUICE_WORKER_DATA_IDX_SOURCE_H_
#define SLUICE_WORKER_DATA_IDX_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// Reads images and labels of one split into memory, a byte a pixel; a pixel p
// becomes (p / 255 - mean) / deviation as it is gathered. Errors as
// OpenDataSource's.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(const proto::Idx& idx,
                                                    Split split);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_IDX_SOURCE_H_

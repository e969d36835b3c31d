#ifndef SLUICE_WORKER_DATA_TEXT_SOURCE_H_
#define SLUICE_WORKER_DATA_TEXT_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// Reads one split's text into memory, as bytes. `text` has its defaults filled
// in. Inputs are bytes and labels the bytes that follow them, both (samples,
// length). Errors are those of OpenDataSource.
absl::StatusOr<std::unique_ptr<DataSource>> OpenText(const proto::Text& text,
                                                     Split split);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_TEXT_SOURCE_H_

#ifndef SLUICE_COMMON_DATA_SHAPE_H_
#define SLUICE_COMMON_DATA_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace sluice {

// What a data set looks like from outside: enough to plan the model and to
// count mini-batches, without reading the samples.
struct DataShape {
  int64_t train_samples = 0;
  int64_t test_samples = 0;
  std::vector<int64_t> input_shape;  // (1, 28, 28) or (features).
  bool classification = true;        // Labels, else real targets.

  // Mini-batches of one epoch under DYNAMIC sharding; the last may be short.
  int64_t BatchesPerEpoch(int batch_size) const {
    return (train_samples + batch_size - 1) / batch_size;
  }
};

// Reads the headers only. kNotFound and kInvalidArgument name the file, what
// was expected and what came.
absl::StatusOr<DataShape> ReadDataShape(const proto::Data& data);

}  // namespace sluice

#endif  // SLUICE_COMMON_DATA_SHAPE_H_

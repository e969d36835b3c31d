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
  int64_t test_samples = 0;          // 0 without a test split.
  std::vector<int64_t> input_shape;  // (channels, height, width) or
                                     // (features).
  bool classification = true;        // Labels, else real targets.
  int64_t labels = 1;                // Of a sample, where it has some.
  // Inputs are whole numbers below this; 0: real numbers.
  int64_t vocabulary = 0;

  // Mini-batches of one epoch under DYNAMIC sharding; the last may be short.
  int64_t BatchesPerEpoch(int batch_size) const {
    return (train_samples + batch_size - 1) / batch_size;
  }
};

// Reads the headers only. `data`: with defaults filled in. kNotFound,
// kInvalidArgument (also where it names no reader) and kDataLoss name the file,
// what was expected and what came, as ReadIdxShape, CountCifarImages and
// CountTextSamples do.
absl::StatusOr<DataShape> ReadDataShape(const proto::Data& data);

// Whether the reader reads images, of a byte a pixel.
inline bool HasImages(const proto::Data& data) {
  return data.has_idx() || data.has_cifar();
}

}  // namespace sluice

#endif  // SLUICE_COMMON_DATA_SHAPE_H_

#ifndef SLUICE_COMMON_JOB_DATA_SHAPE_H_
#define SLUICE_COMMON_JOB_DATA_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace sluice {

// What planning the model and counting mini-batches need to know of a data set,
// without reading its samples.
struct DataShape {
  int64_t train_samples = 0;
  int64_t test_samples = 0;          // 0 if there is no test split.
  std::vector<int64_t> input_shape;  // (channels, height, width) or
                                     // (features); empty for data.external.
  bool classification = true;        // Has labels; otherwise real targets.
  int64_t labels = 1;                // Labels of a sample, if it has labels.
  // Labels are below this, and where the largest is, for messages; 0: only
  // reading the samples can tell.
  int64_t classes = 0;
  std::string largest_label_at = {};
  // Inputs are whole numbers below this; 0: real numbers.
  int64_t vocabulary = 0;

  // Numbers in the inputs of a sample.
  int64_t inputs() const {
    int64_t product = 1;
    for (const int64_t extent : input_shape) product *= extent;
    return product;
  }
};

// Reads only headers, of JPEG images their names, unless the job says what
// there is (data.jpeg.contents), and of IDX files the labels. `data` has its
// defaults filled in. kInvalidArgument if no reader is named. kNotFound,
// kInvalidArgument, kDataLoss and kUnavailable (the system cannot say just now)
// name the file, what was expected and what was found, as in ReadIdxShape,
// CountCifarImages, ListTrainingJpegs and CountTextSamples.
absl::StatusOr<DataShape> ReadDataShape(const proto::Data& data);

// Whether the reader keeps images in memory, one byte per pixel and channel.
inline bool HasImages(const proto::Data& data) {
  return data.has_idx() || data.has_cifar();
}

// Whether an evaluator has something to measure. Only a model process may have
// no test split; its evaluator saves the final weights all the same.
inline bool HasTestSplit(const proto::Data& data) {
  return !data.has_external() || data.external().test_samples() > 0;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_DATA_SHAPE_H_

#ifndef SLUICE_WORKER_DATA_DATA_SOURCE_H_
#define SLUICE_WORKER_DATA_DATA_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/job.pb.h"

namespace sluice {

// The samples of one forward pass.
struct Batch {
  // The mini-batch's number in the run; the key of random draws such as
  // dropout.
  BatchId id;
  // Position of the first of these samples in the mini-batch.
  int64_t first = 0;
  int64_t samples = 0;
  std::vector<float> inputs;    // (samples, input shape...), row-major.
  std::vector<int32_t> labels;  // (samples, labels); classification.
  std::vector<float> targets;   // (samples, outputs); regression.
};

enum class Split { kTrain, kTest };

// One split of a data set, in memory. Immutable after construction, therefore
// thread-safe.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;  // Samples.
  // SHA-256 (hex) over everything that was read; empty if the samples are
  // generated from the job alone. Slow, so call it once.
  virtual std::string Digest() const { return ""; }
  // Fills `*batch`, except `id` and `first`, with the samples of these indices,
  // in this order. Reuses its memory. REQUIRES: every index is in [0, size()).
  virtual void Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const = 0;
};

// Reads a split that the job names. `data` has its defaults filled in.
// kNotFound, kInvalidArgument or kDataLoss name the file, what was expected and
// what was found.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const proto::Data& data, Split split, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_DATA_SOURCE_H_

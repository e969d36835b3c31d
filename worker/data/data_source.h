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

// Samples gathered for one forward pass.
struct Batch {
  // Which mini-batch of the run it is: keys what training draws, as dropout.
  BatchId id;
  int64_t first = 0;  // Where in that mini-batch these samples begin.
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
  // SHA-256 (hex) over what was read; empty where the job alone makes the
  // samples. Takes time: asked for once.
  virtual std::string Digest() const { return ""; }
  // Fills all of `*batch` but its place in the run with the samples of these
  // indices, in this order, reusing its memory. REQUIRES: every index in [0,
  // size()).
  virtual void Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const = 0;
};

// Reads the split that the job names, with its defaults filled in. kNotFound,
// kInvalidArgument or kDataLoss name the file, what was expected and what came.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const proto::Data& data, Split split, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_DATA_SOURCE_H_

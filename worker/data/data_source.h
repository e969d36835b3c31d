#ifndef SLUICE_WORKER_DATA_DATA_SOURCE_H_
#define SLUICE_WORKER_DATA_DATA_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// One split of a data set. Thread-safe.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;  // Samples.
  // SHA-256 (hex) over everything that was read, or of images that are read
  // when they are needed over their names and labels; empty if the samples are
  // generated from the job alone. Slow, so call it once.
  virtual std::string Digest() const { return ""; }
  // Fills `*batch` with the samples of these indices, in this order, and reuses
  // its memory. `id` and `first` are those of the samples: a source that draws
  // variations of them keys these so. Errors name the sample that cannot be
  // read; then `*batch` holds anything. REQUIRES: every index is in
  // [0, size()).
  virtual absl::Status Gather(absl::Span<const int64_t> indices,
                              Batch* batch) const = 0;
  // Whether samples take so long to read that those of the next mini-batch are
  // worth reading before it is known to be the next.
  virtual bool worth_guessing() const { return false; }
  // Samples that were damaged and that others stood in for, until now.
  virtual int64_t damaged() const { return 0; }
};

// What a source that decodes samples is given by its process.
struct ReadOptions {
  // Told of a damaged sample that another one stands in for, which the status
  // names, and of their number until now. From any thread that reads.
  std::function<void(const absl::Status& damage, int64_t total)> on_damage =
      [](const absl::Status&, int64_t) {};
  // Calls `work`, which takes the next sample until there is none, and returns
  // when it has ended; or calls it in up to `most` threads at once.
  std::function<void(int64_t most, const std::function<void()>& work)> run =
      [](int64_t, const std::function<void()>& work) { work(); };
  // False: whoever reads takes the inputs from another process. A source that
  // would decode them leaves them out where the labels do not depend on it.
  bool inputs = true;
};

// Reads a split that the job names. `data` has its defaults filled in.
// kNotFound, kInvalidArgument or kDataLoss name the file, what was expected and
// what was found.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const proto::Data& data, Split split, uint64_t seed,
    ReadOptions options = {});

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_DATA_SOURCE_H_

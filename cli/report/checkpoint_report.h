#ifndef SLUICE_CLI_REPORT_CHECKPOINT_REPORT_H_
#define SLUICE_CLI_REPORT_CHECKPOINT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/checkpoint/checkpoint.h"

namespace sluice {

// The checkpoint in the folder `path`. If `path` is a run's folder, it is the
// newest whole checkpoint of the run, and `*passed_over` gets a line for each
// newer one that is not whole. Compares every checksum. Errors name the file,
// what was expected and what was found.
absl::StatusOr<Checkpoint> FindCheckpoint(
    const std::string& path, std::vector<std::string>* passed_over);

// What is in a checkpoint, as `sluice inspect` prints it.
std::string DescribeCheckpoint(const Checkpoint& checkpoint);
// The same as one JSON object, with the tensors' shapes.
std::string CheckpointJson(const Checkpoint& checkpoint);

// Joins the shards' weights and writes them as tensors, in the format of a
// run's weights.safetensors. kInvalidArgument: `path` is there and no regular
// file, or lies among the run's checkpoints. kUnavailable, kDataLoss. Messages
// name the file.
absl::Status ExportWeights(const Checkpoint& checkpoint,
                           const std::string& path);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_CHECKPOINT_REPORT_H_

#ifndef SLUICE_COMMON_JOB_JOB_TEXT_H_
#define SLUICE_COMMON_JOB_JOB_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace sluice {

// Parses a job file's text, without defaults and validation (resolved_job.h
// does those). kInvalidArgument has one line for each mistake:
//
//   job.textproto:12:3: Message type "sluice.proto.Sync" has no field named
//   "kk". It has: policy, k, ...
//
// Lines and columns count from 1. `name` is used as the file's path.
absl::StatusOr<proto::Job> ParseJobText(const std::string& text,
                                        const std::string& name);

// Applies "a.b=c" to the job:
//
//   sync.policy=K_SYNC             a scalar, an enumeration's name
//   schedule.cosine.epochs=5       choosing the member of a oneof
//   model.layer[3].dense.units=64  an element that is there already
//   schedule.cosine={epochs: 5}    a whole message, in place of the old one
//   delays.worker_factor=[1, 2.5]  a whole list, in place of the old one
//
// kInvalidArgument says which part of the path or which value is wrong, and
// what is allowed instead. The job is then unchanged.
absl::Status ApplyOverride(const std::string& override_text, proto::Job* job);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_JOB_TEXT_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_SNAPSHOT_CONVERSION_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_SNAPSHOT_CONVERSION_H_

#include "proto/checkpoint.pb.h"
#include "ps_server/coordinator/core/training_snapshot.h"

namespace sluice {

// A snapshot as a checkpoint's manifest holds it, and back: the same values,
// but for `running`, which is kept to about a nanosecond.
proto::TrainingState SnapshotToProto(const TrainingSnapshot& snapshot);
TrainingSnapshot SnapshotFromProto(const proto::TrainingState& state);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_SNAPSHOT_CONVERSION_H_

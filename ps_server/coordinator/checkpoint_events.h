#ifndef SLUICE_PS_SERVER_COORDINATOR_CHECKPOINT_EVENTS_H_
#define SLUICE_PS_SERVER_COORDINATOR_CHECKPOINT_EVENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"

// What goes into the coordinator and comes out of it for checkpoints' sake;
// the rest is in events.h.
namespace sluice {

struct TrainingSnapshot;

// A decision: hold the version, which is the newest, and write it as part of a
// checkpoint while training goes on.
struct Store {
  Version version;

  bool operator==(const Store&) const = default;
};

// A shard's answer: the file that it has written, or why there is none.
struct StoredPart {
  std::string file;  // In the checkpoint's folder.
  // Its range of the flat vector, in floats.
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;  // Of the whole file.
  uint64_t header_checksum = 0;
  std::string error;  // Not empty: it failed, and the rest is.

  bool operator==(const StoredPart&) const = default;
};

// An action: every part is on the disk, so write what makes a checkpoint of
// them. Answered by Coordinator::ManifestWritten.
struct StoreManifest {
  Generation generation;
  Version version;
  std::vector<StoredPart> parts;  // By shard.
  // As of that version.
  std::shared_ptr<const TrainingSnapshot> snapshot;
};
// An action: whatever there is of that checkpoint is of no more use.
struct RemoveStored {
  Generation generation;
  Version version;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CHECKPOINT_EVENTS_H_

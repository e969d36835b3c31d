#ifndef SLUICE_PS_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_
#define SLUICE_PS_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/files/file_operations.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/cancellable_files.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/shard_file.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// Writes one shard's parts of checkpoints on its own thread, one at a time,
// while training goes on.
//
//   BackgroundWriter writer(run_dir, &files);
//   writer.Write(identity, shard.Hold(), [](auto file) { ... });
//
// Thread-safe.
class BackgroundWriter {
 public:
  // `files` must outlive this.
  BackgroundWriter(std::string run_dir, FileOperations *files);
  // Cancels the current write at its next piece. `done` then gets kCancelled,
  // and no file is left behind. Nothing is lost by that: a writer is destroyed
  // when its generation is over, and the next one begins with an older version.
  ~BackgroundWriter();

  // The manifest's entry for the file, or an error that names the file.
  using Done = std::function<void(absl::StatusOr<proto::CheckpointFile>)>;

  // The folder of the run on a disk of the shard's own.
  struct OwnDisk {
    std::string folder;   // Made if it is missing.
    CheckpointId oldest;  // Parts of older checkpoints are removed from it.
  };

  // Writes `held` into its checkpoint's folder, in the run folder or in `own`,
  // releases it, and then calls `done` on the writer's thread. Returns at once.
  // kResourceExhausted: another write is under way; `done` is not called.
  absl::Status Write(ShardFileIdentity identity, Shard::HeldVersion held,
                     Done done, std::optional<OwnDisk> own = std::nullopt);

  // Blocks until nothing is being written and every `done` has returned.
  void Finish();
  // Cancels as the destructor does, but returns at once. Later writes fail too.
  void Cancel() { files_.Cancel(); }

 private:
  struct Order {
    ShardFileIdentity identity;
    Shard::HeldVersion held;
    Done done;
    std::optional<OwnDisk> own;
  };

  void Loop();
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || order_.has_value();
  }
  absl::StatusOr<proto::CheckpointFile> Carry(const Order &order);
  // Makes room before it takes any: the disk may be full.
  void RemoveOlder(const OwnDisk &own);

  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !writing_ && !telling_;
  }

  // Constant after construction.
  const std::string run_dir_;
  CancellableFiles files_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::optional<Order> order_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool telling_ ABSL_GUARDED_BY(mu_) = false;  // `done` is running.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Last, because the thread uses all of the above.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_BACKGROUND_WRITER_H_

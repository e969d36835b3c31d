#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/files/file_operations.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Makes checkpoints of what the shards have written, and removes old ones, on
// a thread of its own, in the order in which the coordinator says so.
//
// CarryOut: by whoever carries out the coordinator's actions, one at a time.
// The rest is thread-safe.
class ManifestWriter {
 public:
  struct Options {
    std::string run_dir;
    // What every manifest of the run says alike: job, fingerprints, tensors,
    // arrays, chunk_floats.
    proto::CheckpointManifest run;
    FileOperations* files = nullptr;  // Outlives this.
    // Asked before a manifest is written or a checkpoint removed: whether the
    // run is still this coordinator's, as ProveClaim says. Empty: it is.
    std::function<absl::Status()> prove = {};
  };
  // A manifest is on the disk, or why not: names the file. On the writer's
  // thread.
  using Done = std::function<void(Version version, const absl::Status& status)>;
  // `log` must outlive this.
  ManifestWriter(Options options, CommitLogWriter* log, Done done);
  ~ManifestWriter();

  // Orders what `actions` ask for, and returns at once. The log has got their
  // records.
  void CarryOut(const Actions& actions);

  // Blocks until all that was ordered is done; what is ordered later is not.
  // May be repeated.
  void Finish();

 private:
  using Order = std::variant<StoreManifest, RemoveStored>;

  void Put(Order order);
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return finishing_ || !orders_.empty();
  }
  void Loop();
  void Do(const StoreManifest& order) const;
  void Do(const RemoveStored& order) const;
  absl::Status Write(const StoreManifest& order) const;
  absl::Status Remove(const RemoveStored& order) const;

  // Constant after construction.
  const Options options_;
  CommitLogWriter* const log_;
  const Done done_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::deque<Order> orders_ ABSL_GUARDED_BY(mu_);
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;

  absl::Mutex join_mu_;  // Held while Finish waits.
  std::thread thread_ ABSL_GUARDED_BY(join_mu_);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_

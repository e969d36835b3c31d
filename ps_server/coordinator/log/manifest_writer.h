#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/file_operations.h"
#include "proto/checkpoint.pb.h"
#include "proto/commit_log.pb.h"
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

  // Orders what `actions` ask for, and returns at once. `records` are those
  // that the commit log has got of them, `ends` its length with each.
  void CarryOut(const Actions& actions,
                const std::vector<proto::LogRecord>& records,
                const std::vector<int64_t>& ends);

  // Blocks until all that was ordered is done; what is ordered later is not.
  // May be repeated.
  void Finish();

 private:
  struct Order {
    StoreManifest what;
    int64_t log_bytes = 0;
  };
  using AnyOrder = std::variant<Order, RemoveStored>;

  void Put(AnyOrder order);
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return finishing_ || !orders_.empty();
  }
  void Loop();
  void Do(const Order& order) const;
  void Do(const RemoveStored& order) const;
  absl::Status Write(const Order& order) const;
  absl::Status Remove(const RemoveStored& order) const;

  // Constant after construction.
  const Options options_;
  CommitLogWriter* const log_;
  const Done done_;

  // Of whoever carries out: the log's length with the last commit, and with
  // those of the versions that are being stored.
  int64_t last_commit_end_ = 0;
  std::map<Version, int64_t> commit_end_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::deque<AnyOrder> orders_ ABSL_GUARDED_BY(mu_);
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;

  absl::Mutex join_mu_;  // Held while Finish waits.
  std::thread thread_ ABSL_GUARDED_BY(join_mu_);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_MANIFEST_WRITER_H_

#ifndef SLUICE_PS_SERVER_SHARD_AGENT_H_
#define SLUICE_PS_SERVER_SHARD_AGENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/files/file_operations.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "common/rpc/listener.h"
#include "common/session/coordinator_client.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/transport_security.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/background_writer.h"
#include "ps_server/checkpoint/shard_file.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/decisions/answered_decisions.h"
#include "ps_server/local_session.h"
#include "ps_server/shard/exchange_service.h"

namespace sluice {

// The shard's side of its session: hands the coordinator's decisions to the
// shard, in order, and reports what has been executed and stored. Thread-safe.
class ShardAgent {
 public:
  struct Options {
    ShardId shard;
    std::string address;         // Where others reach its Exchange service.
    std::string coordinator;     // "host:port"; of the lead's, for messages.
    TransportSecurity security;  // How that is connected to.
    const Listener* listener;    // Of this process; outlives the agent.
    std::string process;         // Host and process id, for logs.
    // Digest of the file that version 0 comes from; empty without one.
    std::string initial_weights;
    // Where checkpoints go; empty: nothing can be stored.
    std::string run_dir;
    // Where its parts of them go instead, on a disk of its own: into the folder
    // of the run's id. Empty: nowhere else.
    std::string checkpoint_dir;
  };
  // `shard` is the one that `exchange` serves; both must outlive this, and
  // `exchange` be started before Join. Its Shutdown must return before this is
  // destroyed.
  ShardAgent(Options options, const ResolvedJob& job, Shard* shard,
             ExchangeService* exchange);
  ~ShardAgent();

  // Joins the run; blocks until the coordinator is there (errors:
  // CoordinatorClient::Connect). `rejoins`: this process has taken part in an
  // earlier generation.
  absl::Status Join(bool rejoins);
  // The same for the shard in whose process the coordinator is. `service`
  // must outlive this.
  absl::Status JoinHere(CoordinatorService* service);

  // Blocks until the run is over. REQUIRES: Join. How it ended. kAborted: this
  // generation is over, or this life of the shard; else the coordinator is
  // gone.
  absl::StatusOr<proto::Finish> Wait();

  // All that the shard counts, for heartbeats. From any thread.
  CounterMap Counted() const;

  // This process has been told to end: from now on it waits for a coordinator
  // that is silent no longer than a lease. From any thread.
  void TellToEnd() { told_to_end_ = true; }

 private:
  void OnMessage(const proto::FromCoordinator& message);
  void Execute(const proto::Decision& decision);
  // On the exchange thread. The Done that it leaves behind comes on another.
  void Store(Shard::HeldVersion held,
             std::optional<BackgroundWriter::OwnDisk> own);
  void ReportStored(Generation generation, Version version,
                    const absl::StatusOr<proto::CheckpointFile>& file);
  // What a decision led to, on the exchange thread.
  void OnExecuted(int64_t number,
                  const absl::StatusOr<Shard::Executed>& outcome, int64_t last,
                  Version version);
  // Before Join has returned, answers wait for it.
  void Send(proto::ToCoordinator message);

  CoordinatorClient::Options client_options_;  // Until Join.
  Shard* const shard_;                         // Of the exchange thread.
  ExchangeService* const exchange_;
  const TransportSecurity security_;
  const Listener& listener_;
  // Of what it stores, but for generation and version.
  const ShardFileIdentity identity_;
  const std::string checkpoint_dir_;
  FileOperations disk_;

  std::atomic<bool> told_to_end_ = false;
  // One of these two.
  std::shared_ptr<LocalSession> local_;  // Constant after JoinHere.
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::unique_ptr<CoordinatorClient> client_ ABSL_GUARDED_BY(mu_);
  std::vector<proto::ToCoordinator> early_ ABSL_GUARDED_BY(mu_);
  AnsweredDecisions answered_ ABSL_GUARDED_BY(mu_);
  std::optional<proto::Finish> finish_ ABSL_GUARDED_BY(mu_);
  // Of the run, in checkpoint_dir_; known from the Restore on.
  std::string own_folder_ ABSL_GUARDED_BY(mu_);

  // Null without a run folder. Last: uses all of the above.
  std::unique_ptr<BackgroundWriter> writer_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_AGENT_H_

#ifndef SLUICE_PS_SERVER_SHARD_DAEMON_H_
#define SLUICE_PS_SERVER_SHARD_DAEMON_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/files/storage_retry.h"
#include "common/http/http_port.h"
#include "common/http/process_port.h"
#include "common/job/initial_weights.h"
#include "common/job/resolved_job.h"
#include "common/rpc/listener.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.pb.h"
#include "ps_server/flags.h"
#include "ps_server/shard_server.h"

namespace sluice {

// The process of one shard: one ShardServer after the other, each for one
// generation of the run, all on one port, which it keeps in between. Nothing of
// one is in the next but what EarlierLife says, so that what recovers is what
// starts.
//
// RequestStop and Yield may be called from any thread. Thread-compatible
// otherwise.
class ShardDaemon {
 public:
  // Both must outlive this.
  ShardDaemon(const Flags* flags, const ResolvedJob* job)
      : flags_(*flags), job_(*job) {}

  // Takes part in the run until its end. OK: it has reached that. Else as
  // TransportSecurity::Open, Listener::Open, ShardServer::Start and Run, and
  // errors of model.init_from.
  absl::Status Run();

  // As ShardServer's; between two generations the next one is asked, unless it
  // waits for the run folder to be readable: that is given up.
  void RequestStop(const std::string& reason);
  // Ends the process with kExitRestart: it is to be started again, and
  // the others wait for it as for one that died. The lead first has a version
  // stored, if the job has checkpoints, and waits for that at most 30 s.
  // Returns where the run is over.
  void Yield(const std::string& signal);

 private:
  // Opens the port for people and Prometheus, where one is wanted.
  absl::Status OpenPages();
  absl::StatusOr<proto::JobStatus> Status();
  absl::StatusOr<int64_t> RequestCheckpoint();
  // Has the next version stored that can be, and waits for it.
  absl::Status StoreNext();
  // Keeps the lead's pages of a run that is over, for who comes for its end.
  void Linger();
  absl::StatusOr<std::optional<EarlierLife>> RunGeneration(
      const std::optional<EarlierLife>& earlier);

  // Constant after construction.
  const Flags& flags_;
  const ResolvedJob& job_;

  // Constant once Run has them.
  TransportSecurity security_;
  std::shared_ptr<const InitialWeights> weights_;
  std::unique_ptr<Listener> listener_;

  // While a generation's begin reads the run folder, and while it lingers.
  StoppablePause pause_;

  absl::Mutex mu_;  // Acquired before all locks of the server.
  ShardServer* server_ ABSL_GUARDED_BY(mu_) = nullptr;  // While it runs.
  // In the lead, of a run that is over.
  std::optional<proto::JobStatus> final_status_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> stop_ ABSL_GUARDED_BY(mu_);

  // Both ask for what is above: they end first.
  std::unique_ptr<HttpPort> pages_;    // Of the lead, with --http,
  std::unique_ptr<ProcessPort> port_;  // and of any other shard.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_DAEMON_H_

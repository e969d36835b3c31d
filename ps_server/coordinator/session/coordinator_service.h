#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/telemetry/log_pace.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/manifest_writer.h"
#include "ps_server/coordinator/report/compute_times_writer.h"
#include "ps_server/coordinator/report/metrics_writer.h"
#include "ps_server/coordinator/report/rate_meter.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/coordinator/session/frame_sink.h"
#include "ps_server/coordinator/session/job_agreement.h"
#include "ps_server/coordinator/session/session_stream.h"

namespace sluice {

// What answers on a CoordinatorEndpoint, around the pure Coordinator: decodes,
// calls it under one lock, and carries out its actions in order outside of it,
// on a thread of its own: what is to be recorded is in the commit log before
// anything that follows is sent.
//
// Whoever brings an event, and the ticker, touch no file: heartbeats are
// answered and leases kept however long the run folder takes. Where the commit
// log's disk is full its next records are tried until there is room; until
// then, or until a write that takes more than a second is through, nothing that
// follows is sent, so no task goes out, and the time stands still for the core.
// Any other error of the log fails the run.
//
// Thread-safe.
class CoordinatorService final : public CoordinatorEndpoint::Handler {
 public:
  struct Options {
    CoordinatorOptions core;
    std::string job_name;
    // What every process that joins must agree with
    // (common/job/resolved_job.h).
    std::string fingerprint;
    std::string job_text;
    double epochs_total = 0;  // For progress displays.
    absl::Duration metrics_every = absl::Seconds(1);
    // How long a session may take, at the end of the run, to be resumed and to
    // acknowledge that it has heard of it.
    absl::Duration farewell_timeout = absl::Seconds(5);
    // Where the job has checkpoints; needs a commit log.
    std::optional<ManifestWriter::Options> manifests;
    // Called on the thread that carries out, before the first update is
    // recorded. May block. Tried again while the disk does not answer
    // (kUnavailable), for limits.storage_timeout_s, or has no room.
    // kPermissionDenied: another process has taken a later generation. Any
    // other error fails the run. Empty: nobody asks.
    std::function<absl::Status()> goes_on;
    // Called when the run has ended well, before anybody hears of it, on the
    // thread that carries out. May block. kPermissionDenied as in `goes_on`:
    // nobody hears of it. Empty: nothing is to be kept of it.
    std::function<absl::Status(const JobState&, const FinishRun&)> keep_result;
    // Whether another process has taken a later generation; asked as often as
    // there is a tick. May block. Empty: none can.
    std::function<bool()> superseded;
    Clock* clock = Clock::Real();
  };
  // Any file may be null; they must outlive the service.
  CoordinatorService(Options options, CommitLogWriter* log,
                     MetricsWriter* metrics, ComputeTimesWriter* compute_times);
  // REQUIRES: its endpoint has been shut down.
  ~CoordinatorService() override;

  // Ends the run as if a stop condition had been reached.
  void RequestStop(const std::string& reason);
  // Blocks until all shards have joined, and returns their addresses in order;
  // empty when the run was over first.
  std::vector<std::string> AwaitShards();
  // Blocks until the generation is over; and when the run is, too, for
  // farewell_timeout at most until everybody has heard of it.
  GenerationEnd AwaitEnd();

  // Blocks until AwaitEnd has something to return, at most for `duration`, and
  // returns whether it has.
  bool AwaitOver(absl::Duration duration);
  // The same at once.
  bool over() {
    absl::MutexLock lock(&mu_);
    return Over();
  }

  JobState State();

  // A frame of a peer in this process has arrived on `connection`, which ends
  // as that of a remote one when the frame is refused. From any thread.
  void OnLocalFrame(const std::shared_ptr<FrameSink>& connection,
                    const proto::ToCoordinator& frame) {
    Receive(connection, frame);
  }

  // The shard of this process has staged gradient `key`, with which a Ready
  // came, serialised. From any thread. kInvalidArgument: it is none, or not of
  // that gradient; kAborted: the task has ended.
  absl::Status OnPushedReady(const GradientKey& key, const std::string& ready);

  // CoordinatorEndpoint::Handler:
  void OnFrame(SessionStream* stream,
               const proto::ToCoordinator& frame) override;
  void OnBroken(SessionStream* stream) override;
  absl::Status CheckRun(const std::string& run_id) override;
  proto::JobStatus OnGetStatus() override;
  void OnStop(const proto::StopRequest& request) override;
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override;
  absl::Status OnReportDeath(const proto::DeathReport& report) override;

 private:
  void OnManifest(Version version, const absl::Status& status);
  void Receive(const std::shared_ptr<FrameSink>& connection,
               const proto::ToCoordinator& frame) ABSL_LOCKS_EXCLUDED(mu_);
  // Carries out what is decided, in order, until all has been and none follows.
  void CarryOutLoop() ABSL_LOCKS_EXCLUDED(mu_);
  void CarryOut(const Actions& actions) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status KeepResult(const Actions& actions) ABSL_LOCKS_EXCLUDED(mu_);
  void Send(const Actions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Flush(const std::vector<std::shared_ptr<FrameSink>>& touched);
  absl::Status CheckJoin(const proto::Join& join) const;
  // Writes to the commit log, the compute times and the process's log what
  // `actions` ask for, and orders manifests. The error is the commit log's.
  absl::Status Record(const Actions& actions) ABSL_LOCKS_EXCLUDED(mu_);
  // Asks options_.goes_on until it says so, or in vain.
  absl::Status GoOn() ABSL_LOCKS_EXCLUDED(mu_);
  // Begins the log's next file where `actions` decide a checkpoint.
  void CutLog(const Actions& actions);
  // Waits for room on the disk, if it must; kResourceExhausted: in vain, since
  // the generation ends.
  absl::Status Append(const std::vector<proto::LogRecord>& records)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What is kept waiting by `failed`, an attempt to append; false: no longer.
  bool AwaitRoom(const absl::Status& failed) ABSL_LOCKS_EXCLUDED(mu_);

  void TickLoop() ABSL_LOCKS_EXCLUDED(mu_);
  // Looks for a later generation, and writes the lines of metrics.
  void FilesLoop() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteMetrics(const std::vector<std::string>& lines);
  // Measures the rates, and adds the lines of metrics that are due.
  void Measure(bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  JobState StateLocked(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The files of the run take longer than they ever should.
  bool RecordsSlowly(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  bool Stopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_; }
  bool Closing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return closing_; }
  bool DecidedOrClosing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return closing_ || sessions_.has_actions();
  }
  // Nobody waits for room on the disk any more.
  bool Ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || stop_requested_ || Over();
  }
  bool Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return sessions_.end().has_value();
  }
  bool ShardsJoinedOrOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Over() || !sessions_.ShardAddresses().empty();
  }
  bool EverybodyTold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return sessions_.EverybodyTold();
  }

  // Constant after construction.
  const Options options_;
  const absl::Time start_;
  CommitLogWriter* const log_;               // Used by `carrier_`.
  ComputeTimesWriter* const compute_times_;  // The same.
  MetricsWriter* const metrics_;             // Used by `files_`.
  // Used by `carrier_`; null without checkpoints.
  const std::unique_ptr<ManifestWriter> manifests_;
  const JobAgreement agreement_;

  bool goes_on_ = false;  // Used by `carrier_`: the first update is recorded.

  LogPace refusals_{absl::Seconds(1), /*burst=*/10};

  // Acquired before the locks of SessionStream.
  absl::Mutex mu_;
  CoordinatorSessions sessions_ ABSL_GUARDED_BY(mu_);
  bool failed_here_ ABSL_GUARDED_BY(mu_) = false;  // Not known to the core.
  // Something decided is not in the log; nor is what comes after it.
  bool unrecorded_ ABSL_GUARDED_BY(mu_) = false;
  // For what the log's next records wait; empty: they do not.
  std::string log_waits_for_ ABSL_GUARDED_BY(mu_);
  absl::Time log_since_ ABSL_GUARDED_BY(mu_);
  // Decisions are being recorded; since `log_since_`.
  bool recording_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Evaluation> evaluations_ ABSL_GUARDED_BY(mu_);  // For metrics.
  RateMeter meter_ ABSL_GUARDED_BY(mu_);
  Rates rates_ ABSL_GUARDED_BY(mu_);
  absl::Time next_rates_ ABSL_GUARDED_BY(mu_);
  absl::Time next_metrics_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);  // Of metrics.
  bool stop_requested_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // The ticker,
  bool closing_ ABSL_GUARDED_BY(mu_) = false;   // and then the others.

  // Joined by the destructor.
  std::thread ticker_;
  std::thread carrier_;
  std::thread files_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_H_

// The peers are real CoordinatorClients, each with its own connection and
// threads, so that both variants pay for sessions in the same way. The
// difference between their rates is the cost of deciding.
#include "bench/coordinator_sessions.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/process/named_thread.h"
#include "common/rpc/channel_options.h"
#include "common/session/coordinator_client.h"
#include "common/status_macros.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice::bench {
namespace {

constexpr char kFingerprint[] = "bench";

// Gives every session a task, and answers each Ready with a verdict and a task.
class EchoService final : public CoordinatorEndpoint::Handler {
 private:
  void OnFrame(SessionStream* stream,
               const proto::ToCoordinator& frame) override {
    if (frame.has_join()) {
      proto::FromCoordinator welcome;
      welcome.mutable_welcome()->set_generation(1);
      welcome.mutable_welcome()->set_incarnation(1);
      welcome.mutable_welcome()->set_id(frame.join().id());
      welcome.mutable_welcome()->add_shard_addresses("none");
      welcome.mutable_welcome()->set_heartbeat_every_s(1);
      stream->Queue(std::move(welcome));
      SendTask(stream, frame);
    } else if (frame.has_ready()) {
      proto::FromCoordinator verdict;
      *verdict.mutable_verdict()->mutable_key() = frame.ready().key();
      verdict.mutable_verdict()->set_outcome(proto::APPLIED);
      verdict.mutable_verdict()->set_version(1);
      SendNumbered(stream, frame.sequence(), std::move(verdict));
      SendTask(stream, frame);
    }
    stream->Flush();
  }
  void OnBroken(SessionStream* stream) override {}
  absl::Status CheckRun(const std::string&) override {
    return absl::OkStatus();
  }
  proto::JobStatus OnGetStatus() override { return {}; }
  void OnStop(const proto::StopRequest&) override {}
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override {
    return proto::CheckpointReply();
  }
  absl::Status OnReportDeath(const proto::DeathReport&) override {
    return absl::OkStatus();
  }

  void SendTask(SessionStream* stream, const proto::ToCoordinator& frame) {
    proto::FromCoordinator task;
    task.mutable_task()->mutable_key()->set_sequence(frame.sequence() + 1);
    task.mutable_task()->set_grant("1");
    task.mutable_task()->set_batches(1);
    SendNumbered(stream, frame.sequence(), std::move(task));
  }

  void SendNumbered(SessionStream* stream, uint64_t ack,
                    proto::FromCoordinator message) {
    {
      absl::MutexLock lock(&mu_);
      message.set_sequence(++sent_[stream]);
    }
    message.set_ack(ack);
    stream->Queue(std::move(message));
  }

  absl::Mutex mu_;
  std::map<SessionStream*, uint64_t> sent_ ABSL_GUARDED_BY(mu_);
};

// Counts answered tasks, and measures the time from the `first` to the `last`.
class Progress {
 public:
  Progress(int64_t first, int64_t last) : first_(first), last_(last) {}

  void Answered() {
    const int64_t count = answered_.fetch_add(1) + 1;
    if (count == first_) begin_ = Clock::Real()->Now();
    if (count != last_) return;
    end_ = Clock::Real()->Now();
    done_.Notify();
  }
  double AwaitRate() {
    SLUICE_CHECK(done_.WaitForNotificationWithTimeout(absl::Minutes(2)));
    return (last_ - first_) / absl::ToDoubleSeconds(end_ - begin_);
  }

 private:
  const int64_t first_, last_;
  std::atomic<int64_t> answered_ = 0;
  absl::Time begin_, end_;  // Written once each, before done_.
  absl::Notification done_;
};

// A worker or a shard that answers at once.
class Peer {
 public:
  Peer(const std::string& address, proto::Role role, int64_t id, int shards,
       Progress* progress) {
    CoordinatorClient::Options options;
    options.address = address;
    options.join.set_role(role);
    options.join.set_id(id);
    options.join.set_fingerprint(kFingerprint);
    if (role == proto::SHARD) options.join.set_address(absl::StrCat("s", id));
    options.on_message = [this, shards,
                          progress](const proto::FromCoordinator& message) {
      if (message.has_task()) {
        proto::ToCoordinator ready;
        *ready.mutable_ready()->mutable_key() = message.task().key();
        for (int s = 0; s < shards; ++s) {
          ready.mutable_ready()->add_shard_base(message.task().version());
        }
        ready.mutable_ready()->set_samples(1);
        ready.mutable_ready()->set_loss(1);
        progress->Answered();
        Send(std::move(ready));
      } else if (message.has_decision()) {
        Execute(message.decision());
      }
    };
    thread_ = StartThread("bench-peer", [this, options = std::move(options)] {
      auto client = CoordinatorClient::Connect(options);
      SLUICE_CHECK(client.ok());
      client_ = *std::move(client);
      connected_.Notify();
    });
  }
  ~Peer() { thread_.join(); }

 private:
  // The first task may arrive before Connect has returned.
  void Send(proto::ToCoordinator message) {
    connected_.WaitForNotification();
    client_->Send(std::move(message));
  }

  void Execute(const proto::Decision& decision) {
    if (decision.has_commit()) version_ = decision.commit().version();
    proto::ToCoordinator executed;
    executed.mutable_executed()->set_decision(decision.number());
    executed.mutable_executed()->set_version(version_);
    Send(std::move(executed));
  }

  int64_t version_ = 0;  // Used by the reader thread only.
  absl::Notification connected_;
  std::unique_ptr<CoordinatorClient> client_;
  std::thread thread_;
};

// Answered tasks per second; the first tenth is left out.
double RateOf(CoordinatorEndpoint::Handler* service, int workers, int shards,
              int64_t count) {
  grpc::ServerBuilder builder;
  int port = 0;
  ApplyServerOptions(&builder);
  CoordinatorEndpoint endpoint(service);
  endpoint.Register(&builder);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  SLUICE_CHECK(server != nullptr);
  endpoint.Start();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  Progress progress(count / 10, count);
  std::vector<std::unique_ptr<Peer>> peers;
  for (int s = 0; s < shards; ++s) {
    peers.push_back(
        std::make_unique<Peer>(address, proto::SHARD, s, shards, &progress));
  }
  for (int w = 0; w < workers; ++w) {
    peers.push_back(
        std::make_unique<Peer>(address, proto::WORKER, w, shards, &progress));
  }
  const double rate = progress.AwaitRate();
  peers.clear();
  server->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
  endpoint.Shutdown();
  return rate;
}

}  // namespace

double DecidedTasksPerSecond(int workers, int shards, int64_t count) {
  CoordinatorService::Options options;
  options.core = PlainJob();
  options.core.job.mutable_cluster()->set_workers(workers);
  options.core.job.mutable_cluster()->set_shards(shards);
  options.core.job.mutable_sync()->set_policy(proto::ASYNC);
  options.core.job.mutable_limits()->set_staged_gradients(1 + workers);
  options.core.train_samples = 1000;
  options.fingerprint = kFingerprint;
  options.farewell_timeout = absl::Seconds(1);
  CoordinatorService service(options, nullptr, nullptr, nullptr);
  return RateOf(&service, workers, shards, count);
}

double EchoedTasksPerSecond(int workers, int64_t count) {
  EchoService service;
  return RateOf(&service, workers, /*shards=*/0, count);
}

}  // namespace sluice::bench

// Feeds any frames from workers, shards and evaluators to the coordinator, with
// connections that break and time that passes.
//
// Must hold: every gradient is in at most one place of the books. Frames sent
// on a connection are numbered without a gap. A refused peer is told why.
// Repetition changes nothing: a run in which every numbered message and
// heartbeat comes twice ends like the run in which it comes once.
//
// Input: one byte (the policy), then events: a byte (bits 0 to 2: the
// connection; bits 3 and 4: 0 a frame, 1 the connection breaks, 2 time passes,
// 3 a tick), a count and, for a frame, that many bytes.

#include <memory>
#include <optional>
#include <string>

#include "common/status_macros.h"
#include "ps_server/coordinator/report/job_status.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/coordinator/session/job_agreement.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "tests/fuzz/fuzz_input.h"

namespace sluice {
namespace {

constexpr int kConnections = 8;

// The coordinator's side of a connection. It writes at once.
class Connection final : public FrameSink {
 public:
  void Queue(proto::FromCoordinator frame) override {
    if (end_.has_value() || frame.sequence() == 0) return;
    SLUICE_CHECK(last_ == 0 || frame.sequence() == last_ + 1);
    last_ = frame.sequence();
  }
  void End(const absl::Status& status) override {
    SLUICE_CHECK(status.ok() || !status.message().empty());
    if (!end_.has_value()) end_ = status;
  }
  void Flush() override {}
  bool idle() const override { return true; }
  bool ending() const override { return end_.has_value(); }

 private:
  uint64_t last_ = 0;  // Number of the last numbered frame.
  std::optional<absl::Status> end_;
};

CoordinatorOptions OptionsOf(uint8_t how) {
  CoordinatorOptions options = PlainJob();
  options.job.mutable_cluster()->set_shards(2);
  options.job.mutable_cluster()->set_workers(2);
  options.job.mutable_evaluation()->set_enabled(how & 8);
  options.job.mutable_sync()->set_policy(
      static_cast<proto::Policy>(1 + how % 6));
  options.job.mutable_sync()->set_k(2);
  options.job.mutable_sync()->set_gradients_per_update(2);
  options.job.mutable_sync()->set_on_bad_gradient(how & 16 ? proto::SKIP
                                                           : proto::FAIL);
  if (how & 32)
    *options.job.mutable_sync()->mutable_staleness() =
        StalenessBound(0, proto::Staleness::DROP);
  options.job.mutable_limits()->set_staged_gradients(8);
  options.train_samples = 100;
  options.job.mutable_data()->set_batch_size(10);
  options.job.mutable_stop()->set_updates(6);
  options.job.mutable_evaluation()->set_every_epochs(0.2);
  return options;
}

// A coordinator and its connections.
class Run {
 public:
  // `twice`: everything that may be repeated is repeated.
  Run(uint8_t how, bool twice)
      : twice_(twice), sessions_(OptionsOf(how), now_) {
    for (auto& connection : connections_) {
      connection = std::make_shared<Connection>();
    }
  }

  void Step(fuzz::FuzzInput* input) {
    const uint8_t what = input->Byte();
    const uint8_t count = input->Byte();
    const int connection = what % kConnections;
    switch ((what >> 3) % 4) {
      case 0:
        Receive(connection, input->Bytes(count));
        break;
      case 1:
        Break(connection);
        break;
      case 2:
        now_ += absl::Milliseconds(100) * count;
        break;
      default:
        sessions_.Tick(now_);
        CarryOut();
    }
  }

  // Checks the run's state and returns it as text.
  std::string CheckedState() {
    const JobState state = sessions_.State(now_);
    GradientCounts sum;
    for (const WorkerState& worker : state.workers) {
      sum.applied += worker.gradients.applied;
      sum.cancelled += worker.gradients.cancelled;
      sum.dropped += worker.gradients.dropped;
      sum.rejected += worker.gradients.rejected;
      sum.lost += worker.gradients.lost;
    }
    SLUICE_CHECK(sum.applied == state.counters.applied);
    SLUICE_CHECK(sum.cancelled == state.counters.cancelled);
    SLUICE_CHECK(sum.dropped == state.counters.dropped);
    SLUICE_CHECK(sum.rejected == state.counters.rejected);
    SLUICE_CHECK(sum.lost == state.counters.lost);
    SLUICE_CHECK(state.counters.applied >= state.version.value());
    SLUICE_CHECK(state.version.value() <= 6);
    SLUICE_CHECK((state.phase != Phase::kFailed) || !state.message.empty());
    // As text, whose maps are in order.
    return StatusToProto(state, now_).DebugString();
  }

 private:
  // Carries out the decisions like the service, but without a commit log.
  void CarryOut() {
    while (sessions_.has_actions()) {
      for (const Action& action : sessions_.TakeActions()) {
        sessions_.Send(action, now_);
      }
    }
    for (const auto& connection : sessions_.TakeTouched()) connection->Flush();
    for (auto& connection : connections_) {
      if (!connection->ending()) continue;
      sessions_.OnBroken(connection.get(), now_);
      connection = std::make_shared<Connection>();
    }
  }

  void Break(int c) {
    sessions_.OnBroken(connections_[c].get(), now_);
    connections_[c] = std::make_shared<Connection>();
    CarryOut();
  }

  void Receive(int c, const std::string& bytes) {
    proto::ToCoordinator frame;
    if (!frame.ParseFromString(bytes)) return Break(c);  // As gRPC would do.
    for (int times = twice_ && !frame.has_join() ? 2 : 1; times > 0; --times) {
      absl::Status status =
          frame.has_join() ? agreement_.Check(frame.join()) : absl::OkStatus();
      if (status.ok()) status = sessions_.OnFrame(connections_[c], frame, now_);
      if (!status.ok()) connections_[c]->End(status);
    }
    CarryOut();
  }

  const bool twice_;
  const JobAgreement agreement_{"abc", "seed: 1\n"};
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
  CoordinatorSessions sessions_;
  std::shared_ptr<Connection> connections_[kConnections];
};

std::string StateAfter(const uint8_t* data, size_t size, bool twice) {
  fuzz::FuzzInput input(data, size);
  Run run(input.Byte(), twice);
  while (!input.empty()) run.Step(&input);
  return run.CheckedState();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SLUICE_CHECK(sluice::StateAfter(data, size, /*twice=*/false) ==
               sluice::StateAfter(data, size, /*twice=*/true));
  return 0;
}

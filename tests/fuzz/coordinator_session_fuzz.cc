// Any frames from workers, shards and evaluators, as the coordinator takes
// them: the real service, on streams without a socket.
//
// Must hold: every gradient is in at most one place of the books; what is
// repeated changes nothing, so that a run in which every numbered message and
// heartbeat comes twice ends as the run in which it comes once.
//
// Input: one byte (the policy), then events, each a byte (bits 0 to 2: the
// connection; bits 3 and 4: 0 a frame, 1 the connection breaks, 2 and 3 time
// passes), a count and, for a frame, so many bytes.

#include <memory>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "ps_server/coordinator/coordinator_service.h"
#include "ps_server/coordinator/event_conversion.h"
#include "spdlog/spdlog.h"
#include "tests/fuzz/fuzz_input.h"

namespace sluice {
namespace {

constexpr int kConnections = 8;

class FakeClock final : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Seconds(1000);
};

CoordinatorService::Options OptionsOf(uint8_t how, Clock* clock) {
  CoordinatorService::Options options;
  options.core.shards = 2;
  options.core.workers = 2;
  options.core.evaluator = how & 8;
  options.core.sync.policy = static_cast<PolicyKind>(how % 6);
  options.core.sync.k = 2;
  options.core.sync.gradients_per_update = 2;
  options.core.sync.on_bad_gradient =
      how & 16 ? OnBadGradient::kSkip : OnBadGradient::kFail;
  if (how & 32) options.core.sync.staleness = StalenessBound{};
  options.core.staged_gradients = 8;
  options.core.train_samples = 100;
  options.core.batch_size = 10;
  options.core.stop.updates = 6;
  options.core.evaluate_every_samples = 20;
  // The service's own thread never ticks: what happens follows from the input.
  options.core.tick = absl::Hours(1);
  options.job_name = "fuzz";
  options.fingerprint = "abc";
  options.job_text = "seed: 1\n";
  options.clock = clock;
  return options;
}

// A coordinator and what lies on the other ends of its connections.
class Run {
 public:
  // With `twice`, what may be repeated is repeated.
  Run(uint8_t how, bool twice)
      : twice_(twice), service_(OptionsOf(how, &clock_), nullptr, nullptr) {
    for (int c = 0; c < kConnections; ++c) Connect(c);
  }
  ~Run() {
    for (int c = 0; c < kConnections; ++c) Break(c);
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
        Connect(connection);
        break;
      default:
        clock_.now += absl::Milliseconds(100) * count;
    }
  }

  // How the run stands, once it has been looked through.
  std::string CheckedState() {
    const JobState state = service_.State();
    GradientCounts sum;
    for (const WorkerState& worker : state.workers) {
      sum.applied += worker.gradients.applied;
      sum.cancelled += worker.gradients.cancelled;
      sum.dropped += worker.gradients.dropped;
      sum.rejected += worker.gradients.rejected;
      sum.lost += worker.gradients.lost;
    }
    SLUICE_CHECK(sum.applied == state.gradients.applied);
    SLUICE_CHECK(sum.cancelled == state.gradients.cancelled);
    SLUICE_CHECK(sum.dropped == state.gradients.dropped);
    SLUICE_CHECK(sum.rejected == state.gradients.rejected);
    SLUICE_CHECK(sum.lost == state.gradients.lost);
    SLUICE_CHECK(state.gradients.applied >= state.version.value());
    SLUICE_CHECK(state.version.value() <= 6);
    SLUICE_CHECK((state.phase != Phase::kFailed) || !state.message.empty());
    return StatusToProto(state, clock_.now).SerializeAsString();
  }

 private:
  // As gRPC sees a stream.
  using Reactor =
      grpc::ServerBidiReactor<proto::ToCoordinator, proto::FromCoordinator>;

  SessionStream::Handler& handler() { return service_; }

  void Connect(int c) {
    reactors_[c] = service_.Session(nullptr);
    streams_[c] = static_cast<SessionStream*>(reactors_[c])->Share();
  }

  void Break(int c) {
    handler().OnBroken(streams_[c].get());
    reactors_[c]->OnDone();
    streams_[c] = nullptr;
  }

  void Receive(int c, const std::string& bytes) {
    proto::ToCoordinator frame;
    if (!frame.ParseFromString(bytes)) {
      Break(c);
      Connect(c);
      return;
    }
    handler().OnFrame(streams_[c].get(), frame);
    if (twice_ && !frame.has_join()) {
      handler().OnFrame(streams_[c].get(), frame);
    }
    for (int i = 0; i < kConnections; ++i) {
      while (!streams_[i]->idle()) reactors_[i]->OnWriteDone(true);
    }
    if (!streams_[c]->ending()) return;
    Break(c);
    Connect(c);
  }

  const bool twice_;
  FakeClock clock_;
  CoordinatorService service_;
  Reactor* reactors_[kConnections];
  std::shared_ptr<SessionStream> streams_[kConnections];
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
  // Every refusal would be a line.
  static const bool quiet = (spdlog::set_level(spdlog::level::off), true);
  SLUICE_CHECK(quiet);
  SLUICE_CHECK(sluice::StateAfter(data, size, /*twice=*/false) ==
               sluice::StateAfter(data, size, /*twice=*/true));
  return 0;
}

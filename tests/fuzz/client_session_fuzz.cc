// Feeds any frames from a coordinator to a worker or a shard.
//
// Must hold: numbered messages are handed on once, in order and without a gap,
// also over reconnects. After a refused frame the session ends with a status
// that names the coordinator. A decision that is read and written again has
// equal bytes. A shard either executes a decision or latches.
//
// Input: one byte (bit 0: shard or worker), then events: a kind, a count and,
// for a frame, that many bytes.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/session/client_session.h"
#include "common/status_macros.h"
#include "proto/coordinator.pb.h"
#include "ps_server/decisions/event_conversion.h"
#include "ps_server/shard/shard_testing.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/task/task_inbox.h"

namespace sluice {
namespace {

// A process of a job, and its side of the session.
class Process {
 public:
  explicit Process(uint8_t how)
      : session_(OptionsOf(how), now_), shard_(testing::SmallOptions()) {
    session_.Join();
  }

  // Runs one event. False: the session has ended.
  bool Step(fuzz::FuzzInput* input) {
    const uint8_t kind = input->Byte();
    const uint8_t count = input->Byte();
    switch (kind % 8) {
      case 4:
        return Broken(absl::Status(static_cast<absl::StatusCode>(count % 17),
                                   "the reason"));
      case 5:
        return Send();
      case 6:
        return Write();
      case 7:
        now_ += absl::Milliseconds(250) * count;
        session_.Awake(now_);
        return true;
      default:
        return Receive(input->Bytes(count));
    }
  }

 private:
  static ClientSession::Options OptionsOf(uint8_t how) {
    ClientSession::Options options;
    options.address = "lead:7000";
    options.join.set_role(how & 1 ? proto::SHARD : proto::WORKER);
    options.start_timeout = absl::Seconds(300);
    options.rejoin_timeout = absl::Seconds(5);
    return options;
  }

  bool Receive(const std::string& bytes) {
    proto::FromCoordinator frame;
    if (!frame.ParseFromString(bytes)) {  // The error that gRPC gives.
      return Broken(absl::InternalError("Failed to parse"));
    }
    const auto event = session_.OnFrame(frame, now_);
    if (!event.ok()) {
      SLUICE_CHECK(absl::StrContains(event.status().message(), "lead:7000"));
      SLUICE_CHECK(!Broken(absl::CancelledError("cut")));
      return false;
    }
    if (*event == ClientSession::Event::kMessage) {
      SLUICE_CHECK(frame.sequence() == ++received_);
      HandOn(frame);
    }
    return true;
  }

  void HandOn(const proto::FromCoordinator& frame) {
    inbox_.Receive(frame);
    // Does not wait: either there is a task, or Next returns at once.
    if (inbox_.Next(absl::ZeroDuration()).has_value()) inbox_.Done();
    if (frame.has_decision()) Execute(frame.decision());
    if (frame.has_finish()) session_.OnFinished(frame.finish());
  }

  void Execute(const proto::Decision& message) {
    const absl::StatusOr<Decision> decision = DecisionFromProto(message);
    if (!decision.ok()) return;
    const auto once = DecisionToProto(*decision);
    const auto again = DecisionFromProto(once.decision());
    SLUICE_CHECK(again.ok());
    SLUICE_CHECK(DecisionToProto(*again).SerializeAsString() ==
                 once.SerializeAsString());
    if (const auto* commit = std::get_if<Commit>(&decision->what)) {
      for (const CommitEntry& entry : commit->entries) StageAll(entry.key);
    }
    const int64_t before = shard_.executed();
    const absl::Status status = shard_.Execute(*decision).status();
    if (status.ok()) {
      SLUICE_CHECK(shard_.executed() == before ||
                   shard_.executed() == before + 1);
      SLUICE_CHECK(shard_.Execute(*decision).ok());
    } else {
      SLUICE_CHECK(absl::StartsWith(status.message(), "shard 0: "));
      SLUICE_CHECK(shard_.executed() == before);
      Decision next = *decision;
      next.number = before + 1;
      SLUICE_CHECK(shard_.Execute(next).status() == status);
    }
  }

  // A worker's push of ones, if the shard accepts it.
  void StageAll(const GradientKey& key) {
    for (const int64_t offset : {0, 64, 128}) {
      const std::vector<float> ones(offset == 128 ? 22 : 64, 1.0f);
      shard_.Stage(testing::HeaderOf(key, offset), testing::PayloadOf(ones))
          .status()
          .IgnoreError();
    }
  }

  bool Send() {
    proto::ToCoordinator message;
    message.mutable_ready();
    if (session_.Send(message).ok()) return true;
    SLUICE_CHECK(!Broken(absl::CancelledError("cut")));
    return false;
  }

  bool Write() {
    const auto frame = session_.NextFrame(now_);
    if (!frame.has_value()) return true;
    SLUICE_CHECK(frame->ack() == received_);
    proto::ToCoordinator copy;
    SLUICE_CHECK(copy.ParseFromString(frame->SerializeAsString()));
    return true;
  }

  bool Broken(const absl::Status& status) {
    const auto end = session_.OnConnectionEnd(status, now_);
    if (end.has_value()) {
      SLUICE_CHECK(end->ok() || absl::StrContains(end->message(), "lead:7000"));
      return false;
    }
    SLUICE_CHECK(session_.Backoff() > absl::ZeroDuration());
    SLUICE_CHECK(session_.Backoff() <= absl::Seconds(1));
    // An incarnation that ended before it began has received nothing.
    received_ = session_.Join().ack();
    return true;
  }

  absl::Time now_ = absl::UnixEpoch();
  uint64_t received_ = 0;  // By this incarnation.
  ClientSession session_;
  Shard shard_;
  SharedCounters<WorkerCounters> counters_;
  TaskInbox inbox_{&counters_};
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::fuzz::FuzzInput input(data, size);
  sluice::Process process(input.Byte());
  while (!input.empty() && process.Step(&input)) {
  }
  return 0;
}

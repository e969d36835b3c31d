// The coordinator that gave the sessions their numbers is gone with what it
// knew of them. A Join says all that is needed to end its session:
//
//     Join { incarnation 3, generation 2 }, which has had 17 messages
//     Welcome { incarnation 3, generation 2 }
//     Finish, message 18
#include "ps_server/coordinator/session/finished_run.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice {

void FinishedRun::OnFrame(SessionStream* stream,
                          const proto::ToCoordinator& frame) {
  if (!frame.has_join()) return;  // Its connection is ending.
  const proto::Join& join = frame.join();
  const absl::Status same_job = job_.Check(join);
  if (same_job.ok()) {
    proto::FromCoordinator answer;
    proto::Welcome& welcome = *answer.mutable_welcome();
    welcome.set_generation(std::max<int64_t>(join.generation(), 1));
    welcome.set_incarnation(std::max<int64_t>(join.incarnation(), 1));
    welcome.set_id(join.id());
    proto::FromCoordinator& finish = *answer.add_behind();
    finish.set_sequence(frame.ack() + 1);
    finish.mutable_finish()->set_reason(reason_);
    stream->Queue(std::move(answer));
    stream->Flush();  // What is only queued is left out at the end.
  }
  stream->End(same_job);
  stream->Flush();
}

absl::Status FinishedRun::CheckRun(const std::string&) {
  return absl::UnavailableError(reason_);
}

absl::StatusOr<proto::CheckpointReply> FinishedRun::OnRequestCheckpoint() {
  return absl::UnavailableError(reason_);
}

absl::Status FinishedRun::OnReportDeath(const proto::DeathReport&) {
  return absl::OkStatus();
}

}  // namespace sluice

#include "worker/pipeline/group_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/await_for.h"
#include "common/process_name.h"
#include "common/stage_plan.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

absl::Status CheckFlags(const MemberFlags& flags, int members) {
  if (flags.member < 0 || flags.member >= members) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--member: must be 0 to ", members - 1,
        " (worker.group.pipeline_stages less 1), is ", flags.member));
  }
  const bool first = flags.member == 0;
  const bool last = flags.member + 1 == members;
  if (flags.upstream.empty() != first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--upstream: member ", flags.member,
        first ? " has none before it, expected none"
              : " needs the address at which the member before it listens"));
  }
  if (flags.listen.empty() != last) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: member ", flags.member,
                     last ? " has none behind it, expected none"
                          : " needs an address for the member behind it"));
  }
  return absl::OkStatus();
}

proto::ToDownstream ToDownstreamOf(const proto::FromCoordinator& message) {
  proto::ToDownstream down;
  if (message.has_task()) *down.mutable_task() = message.task();
  if (message.has_cancel()) *down.mutable_cancel() = message.cancel();
  if (message.has_verdict()) *down.mutable_verdict() = message.verdict();
  if (message.has_finish()) *down.mutable_finish() = message.finish();
  return down;
}

proto::FromCoordinator FromCoordinatorOf(const proto::ToDownstream& down) {
  proto::FromCoordinator message;
  if (down.has_task()) *message.mutable_task() = down.task();
  if (down.has_cancel()) *message.mutable_cancel() = down.cancel();
  if (down.has_verdict()) *message.mutable_verdict() = down.verdict();
  if (down.has_finish()) *message.mutable_finish() = down.finish();
  return message;
}

proto::ToUpstream ToUpstreamOf(const proto::ToCoordinator& answer) {
  proto::ToUpstream up;
  if (answer.has_ready()) *up.mutable_ready() = answer.ready();
  if (answer.has_rejected()) *up.mutable_rejected() = answer.rejected();
  return up;
}

proto::ToCoordinator AnswerOf(const proto::ToUpstream& up) {
  proto::ToCoordinator answer;
  if (up.has_ready()) *answer.mutable_ready() = up.ready();
  if (up.has_rejected()) *answer.mutable_rejected() = up.rejected();
  return answer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupLinks>> GroupLinks::Open(
    const MemberFlags& flags, const ResolvedJob& job, WorkerId worker,
    const TransportSecurity& security) {
  SLUICE_RETURN_IF_ERROR(CheckFlags(flags, MembersOf(job.job)));
  std::unique_ptr<GroupLinks> links(new GroupLinks(flags, job.job));
  const MemberIdentity self = {.worker = worker.value(),
                               .member = flags.member,
                               .fingerprint = job.fingerprint,
                               .job = FormatJob(job.job),
                               .process = ProcessName()};
  if (!flags.upstream.empty()) {
    SLUICE_ASSIGN_OR_RETURN(links->before_,
                            UpstreamLink::To(flags.upstream, self, security));
  }
  if (!flags.listen.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        links->behind_, DownstreamLink::Listen(flags.listen, self, security));
  }
  return links;
}

StageModel::Place GroupLinks::place() const {
  return {.stage = flags_.member,
          .stages = MembersOf(job_),
          .before = before_.get(),
          .behind = behind_.get()};
}

LinkWait GroupLinks::WaitOf(bool rejoins) const {
  const proto::Limits& limits = job_.limits();
  return {.timeout = absl::Seconds(rejoins ? limits.rejoin_timeout_s()
                                           : limits.start_timeout_s()),
          .field = rejoins ? "limits.rejoin_timeout_s"
                           : "limits.start_timeout_s",
          .rejoins = rejoins,
          .stopped = [this] { return life_.stopped() || !broken().ok(); }};
}

absl::Status GroupLinks::BeginLife(Life life, bool rejoins) {
  EndLife();
  life_ = std::move(life);
  if (before_ != nullptr) {
    life_.answer = [this](const proto::ToCoordinator& answer) {
      before_->Send(ToUpstreamOf(answer));
    };
  }
  {
    absl::MutexLock lock(&mu_);
    broken_ = absl::OkStatus();
    welcome_.reset();
    over_ = welcomed_ = false;
    held_.clear();
  }
  if (behind_ == nullptr) return absl::OkStatus();
  merger_ = std::make_unique<AnswerMerger>(life_.answer);
  return behind_->Await(
      WaitOf(rejoins),
      {.on_message =
           [this](const proto::ToUpstream& message) {
             if (message.has_leave()) {
               return Break(absl::UnavailableError(message.leave().reason()));
             }
             const proto::ToCoordinator answer = AnswerOf(message);
             if (answer.has_ready() || answer.has_rejected()) {
               merger_->Behind(answer);
             }
           },
       .on_broken = [this](const absl::Status& why) { Break(why); }});
}

void GroupLinks::Break(const absl::Status& why) {
  {
    absl::MutexLock lock(&mu_);
    if (!broken_.ok() || over_) return;
    broken_ = why;
  }
  spdlog::warn("event=link_broken reason=\"{}\"", std::string(why.message()));
  life_.on_broken(why);
}

absl::Status GroupLinks::broken() const {
  absl::MutexLock lock(&mu_);
  return broken_;
}

void GroupLinks::OnUpstream(const proto::ToDownstream& message) {
  if (message.has_welcome()) {
    absl::MutexLock lock(&mu_);
    welcome_ = message.welcome();
    return;
  }
  if (message.has_finish()) {
    absl::MutexLock lock(&mu_);
    over_ = true;
  }
  const proto::FromCoordinator said = FromCoordinatorOf(message);
  Down(said);
  life_.on_message(said);
}

absl::StatusOr<std::optional<proto::Welcome>> GroupLinks::AwaitWelcome(
    bool rejoins) {
  SLUICE_RETURN_IF_ERROR(before_->Link(
      WaitOf(rejoins),
      {.on_message =
           [this](const proto::ToDownstream& message) { OnUpstream(message); },
       .on_broken = [this](const absl::Status& why) { Break(why); }}));
  const auto there = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return welcome_.has_value() || !broken_.ok() || over_;
  };
  absl::MutexLock lock(&mu_);
  while (!AwaitFor(&mu_, absl::Condition(&there), kLookEvery)) {
    if (life_.stopped()) break;
  }
  if (!broken_.ok()) return std::nullopt;
  return welcome_;
}

void GroupLinks::Welcomed(const proto::Welcome& welcome) {
  if (behind_ == nullptr) return;
  proto::ToDownstream first;
  *first.mutable_welcome() = welcome;
  behind_->Send(first);
  absl::MutexLock lock(&mu_);
  welcomed_ = true;
  for (const proto::ToDownstream& message : held_) behind_->Send(message);
  held_.clear();
}

void GroupLinks::Down(const proto::FromCoordinator& message) {
  if (behind_ == nullptr) return;
  const proto::ToDownstream down = ToDownstreamOf(message);
  if (down.body_case() == proto::ToDownstream::BODY_NOT_SET) return;
  {
    absl::MutexLock lock(&mu_);
    over_ |= down.has_finish();
    if (!welcomed_ && !down.has_finish()) return held_.push_back(down);
  }
  behind_->Send(down);
}

void GroupLinks::Up(proto::ToCoordinator answer) {
  if (behind_ != nullptr) return merger_->Own(answer);
  life_.answer(std::move(answer));
}

void GroupLinks::Wake() {
  if (before_ != nullptr) before_->Wake();
  if (behind_ != nullptr) behind_->Wake();
}

void GroupLinks::EndLife() {
  if (before_ != nullptr) before_->Unlink();
  if (behind_ != nullptr) behind_->Unlink();
}

}  // namespace sluice

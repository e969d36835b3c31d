// Messages of the coordinator pass down the members of a slot, answers pass up
// and become one. Of three members and a task:
//
//   coordinator  --Task-->  0  --Task-->  1  --Task-->  2
//   coordinator  <-Ready--  0  <-Ready--  1  <-Ready--  2
//
// Member 1 answers when it is ready itself and has heard that 2 is (its
// merger_), so the coordinator hears of a gradient that every member has
// pushed. A Cancel goes the same way down.
//
// What holds:
//   * Nothing overtakes the Welcome: what comes down before it is handed on
//     waits in held_, but for a Finish, which ends whoever still waits.
//   * A neighbour that is gone is said once in a life, and not after a Finish,
//     behind which they all go, nor after Sever.
//   * Nothing here waits for a neighbour but BeginLife, AwaitWelcome and
//     EndLife: not who hands on a message, and who sends to a neighbour waits
//     no longer once the life is over.
#include "worker/pipeline/group_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/await_for.h"
#include "common/job/group.h"
#include "common/process/process_name.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"
#include "worker/model/make_device.h"

namespace sluice {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// A worker that is silent for so long is gone, and a member, too.
absl::Duration LeaseOf(const proto::Job& job) {
  return absl::Seconds(job.limits().lease_s());
}

// Whether the members behind are to hear it.
bool GoesDown(const proto::FromCoordinator& message) {
  return message.has_task() || message.has_cancel() || message.has_verdict() ||
         message.has_finish();
}

}  // namespace

absl::Status CheckMemberFlags(const MemberFlags& flags, const proto::Job& job,
                              const TransportSecurity& security) {
  const int members = MembersOf(job);
  if (flags.member < 0 || flags.member >= members) {
    return absl::InvalidArgumentError(
        absl::StrCat("--member: must be 0 to ", members - 1,
                     " (the processes of a group less 1), is ", flags.member));
  }
  const int stage = StageOfMember(job, flags.member);
  const size_t before = stage == 0 ? 0 : ReplicasOf(job, stage - 1);
  if (flags.upstream.size() != before) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--upstream: member ", flags.member, " needs ", before,
        " addresses, at which the members of the stage before it listen, has ",
        flags.upstream.size()));
  }
  for (const std::string& address : flags.upstream) {
    SLUICE_RETURN_IF_ERROR(AllowMember(security, "--upstream", address));
  }
  const bool last = stage + 1 == StageCount(job);
  if (flags.listen.empty() != last) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: member ", flags.member,
                     last ? " has none behind it, expected none"
                          : " needs an address for the member behind it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MemberListener>> ListenForMembers(
    const MemberFlags& flags, const proto::Job& job, int group,
    const TransportSecurity& security) {
  if (flags.listen.empty()) return nullptr;
  std::vector<int64_t> workers;
  for (const int slot : SlotsOfMember(job, flags.member)) {
    workers.push_back(WorkerOfSlot(job, group, slot).value());
  }
  return MemberListener::Listen(flags.listen, workers, security,
                                Keepalive::Within(LeaseOf(job)));
}

absl::StatusOr<std::unique_ptr<GroupLinks>> GroupLinks::Open(
    const MemberFlags& flags, const ResolvedJob& job, WorkerId worker,
    MemberListener* listener, SlotTurn* turn,
    const TransportSecurity& security) {
  std::unique_ptr<GroupLinks> links(new GroupLinks(flags, job.job));
  links->instruction_set_ = OwnInstructionSet(job.job);
  const int slot = SlotOf(job.job, worker);
  const int stage = StageOfMember(job.job, flags.member);
  MemberIdentity self = {.worker = worker.value(),
                         .member = flags.member,
                         .fingerprint = job.fingerprint,
                         .job = FormatJob(job.job),
                         .process = ProcessName(),
                         .instruction_set = links->instruction_set_};
  if (stage > 0) self.before = MemberOfSlot(job.job, stage - 1, slot);
  if (listener != nullptr) self.behind = MemberOfSlot(job.job, stage + 1, slot);
  self.more = stage + 2 < StageCount(job.job);
  if (!flags.upstream.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        links->before_,
        UpstreamLink::To(flags.upstream[slot % flags.upstream.size()], self,
                         security, LeaseOf(job.job)));
    links->slot_before_.emplace(links->before_.get(), turn);
  }
  if (listener != nullptr) {
    links->behind_ =
        std::make_unique<DownstreamLink>(listener, self, LeaseOf(job.job));
    links->slot_behind_.emplace(links->behind_.get(), turn);
  }
  return links;
}

StageModel::Place GroupLinks::place() {
  return {.stage = StageOfMember(job_, flags_.member),
          .stages = StageCount(job_),
          .before = slot_before_ ? &*slot_before_ : nullptr,
          .behind = slot_behind_ ? &*slot_behind_ : nullptr};
}

std::vector<std::string> GroupLinks::Processes() {
  std::vector<std::string> processes = {ProcessName()};
  if (behind_ == nullptr) return processes;
  for (std::string& name : behind_->members().processes) {
    processes.push_back(std::move(name));
  }
  return processes;
}

proto::InstructionSet GroupLinks::InstructionSet() {
  return behind_ == nullptr
             ? instruction_set_
             : std::min(instruction_set_, behind_->members().instruction_set);
}

LinkWait GroupLinks::WaitOf(bool rejoins) const {
  const proto::Limits& limits = job_.limits();
  return {
      .timeout = absl::Seconds(rejoins ? limits.rejoin_timeout_s()
                                       : limits.start_timeout_s()),
      .field = rejoins ? "limits.rejoin_timeout_s" : "limits.start_timeout_s",
      .stopped = [this] { return life_.stopped() || !broken().ok(); }};
}

absl::Status GroupLinks::BeginLife(Life life, bool rejoins) {
  EndLife();
  life_ = std::move(life);
  // As between workers, whose devices only SYNC wants to be the same.
  if (job_.sync().policy() != proto::SYNC) life_.inputs.erase("device");
  if (before_ != nullptr) {
    life_.answer = [this](const proto::ToCoordinator& answer) {
      before_->Tell(answer);
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
           [this](const proto::ToCoordinator& answer) {
             if (answer.has_ready() || answer.has_rejected()) {
               merger_->Behind(answer);
             }
           },
       .on_broken = [this](const absl::Status& why) { Break(why); }},
      life_.inputs);
}

void GroupLinks::Break(const absl::Status& why) {
  {
    absl::MutexLock lock(&mu_);
    if (!broken_.ok() || over_) return;
    broken_ = why;
  }
  spdlog::warn("event=link_broken reason={}", LogValue(why.message()));
  life_.on_broken(why);
  SeverBoth();  // Who computes may be sending to the other neighbour.
}

void GroupLinks::Sever() {
  {
    absl::MutexLock lock(&mu_);
    if (over_) return;
    over_ = true;
  }
  SeverBoth();
}

void GroupLinks::SeverBoth() {
  if (before_ != nullptr) before_->Sever();
  if (behind_ != nullptr) behind_->Sever();
}

absl::Status GroupLinks::broken() const {
  absl::MutexLock lock(&mu_);
  return broken_;
}

void GroupLinks::OnUpstream(const proto::FromCoordinator& message) {
  if (message.has_welcome()) {
    absl::MutexLock lock(&mu_);
    welcome_ = message.welcome();
    return;
  }
  life_.on_message(message);
  if (message.has_finish()) {  // Whoever waits for it asks the life for it.
    absl::MutexLock lock(&mu_);
    over_ = true;
  }
  Down(message);
}

absl::StatusOr<std::optional<proto::Welcome>> GroupLinks::AwaitWelcome(
    bool rejoins) {
  MembersBehind behind;
  if (behind_ != nullptr) behind = behind_->members();
  behind.inputs.insert(life_.inputs.begin(), life_.inputs.end());
  SLUICE_RETURN_IF_ERROR(before_->Link(
      WaitOf(rejoins),
      {.on_message =
           [this](const proto::FromCoordinator& message) {
             OnUpstream(message);
           },
       .on_broken = [this](const absl::Status& why) { Break(why); }},
      behind));
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
  proto::FromCoordinator first;
  *first.mutable_welcome() = welcome;
  std::vector<proto::FromCoordinator> next = {std::move(first)};
  while (!next.empty()) {
    for (const proto::FromCoordinator& message : next) behind_->Tell(message);
    next.clear();
    absl::MutexLock lock(&mu_);
    next.swap(held_);  // What came meanwhile, and must not overtake.
    welcomed_ = next.empty();
  }
}

std::optional<UnreachedShard> GroupLinks::unreached() {
  return behind_ == nullptr ? std::nullopt : behind_->unreached();
}

void GroupLinks::TellUnreached(
    std::function<std::optional<UnreachedShard>()> unreached) {
  before_->TellUnreached(std::move(unreached));
}

void GroupLinks::Down(const proto::FromCoordinator& message) {
  if (behind_ == nullptr || !GoesDown(message)) return;
  {
    absl::MutexLock lock(&mu_);
    over_ |= message.has_finish();
    if (!welcomed_ && !message.has_finish()) return held_.push_back(message);
  }
  behind_->Tell(message);
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

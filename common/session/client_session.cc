// A session outlives its connections. Each connection begins with a Join and is
// open from the Welcome on; when it breaks, the next one resumes where it
// stopped:
//
//     Join --> Welcome --> messages, heartbeats --> the connection ends
//       ^                                             |        |
//       +------ Backoff(), unless it has ended -------+        +--> ended
//
// Two limits bound a silence. With heartbeats every second and a rejoin_timeout
// of 60 s, a coordinator that falls silent at 0 s is handled so:
//
//    5 s   CutAt(): five heartbeats are unanswered. The connection is cut and
//          another one is tried, at least once a second.
//   60 s   Deadline(): the session ends with kUnavailable. After Hurry() it
//          ends at 5 s.
//
// Invariants:
//   - Before the Welcome of a connection nothing but its Join is written.
//   - incarnation_ is 0 or the number of this life. A Join that names it
//     resumes this life, so a Welcome with another number is an error.
//   - Messages are numbered across connections (ReliableQueue). A gap, or an
//     acknowledgement of a message never sent, ends the session.
//   - Once refusal_ is set, the session ends when its connection ends.
//   - last_heard_ skips the time in which this process itself did not run.
#include "common/session/client_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/process/exit_codes.h"
#include "common/session/reason.h"
#include "common/telemetry/json_text.h"

namespace sluice {
namespace {

// A worker has a handful of unacknowledged messages, a shard one for each
// decision since the last heartbeat. More than this means that the coordinator
// does not acknowledge at all.
constexpr size_t kQueueCapacity = 65536;
// The first and the longest pause before connecting again.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLongestBackoff = absl::Seconds(1);
// Unanswered heartbeats after which a connection is given up: one lease.
constexpr double kMostUnanswered = 5;
// In seconds, used if the coordinator names no interval.
constexpr double kDefaultHeartbeat = 1;

// Whether the coordinator's answer is final, so that trying again cannot help.
bool IsFinal(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

}  // namespace

ClientSession::ClientSession(Options options, absl::Time now)
    : options_(std::move(options)),
      start_(now),
      queue_(kQueueCapacity),
      next_heartbeat_(absl::InfiniteFuture()),
      last_heard_(now),
      last_connected_(now),
      last_awake_(now) {}

std::string ClientSession::Name() const {
  return absl::StrCat("coordinator at ", options_.address);
}

absl::Status ClientSession::Refuse(const absl::Status& status) {
  refusal_ =
      absl::Status(status.code(), absl::StrCat(Name(), ": ", status.message()));
  return refusal_;
}

proto::ToCoordinator ClientSession::Join() {
  proto::ToCoordinator frame;
  *frame.mutable_join() = options_.join;
  frame.mutable_join()->set_incarnation(incarnation_);
  frame.mutable_join()->set_session_secret(options_.secret);
  if (contacted_) frame.mutable_join()->set_id(welcome_.id());
  if (incarnation_ != 0) {
    frame.mutable_join()->set_generation(welcome_.generation());
    frame.mutable_join()->clear_any_number();
  }
  frame.set_ack(queue_.received());
  return frame;
}

absl::StatusOr<ClientSession::Event> ClientSession::OnFrame(
    const proto::FromCoordinator& frame, absl::Time now) {
  Awake(now);
  last_heard_ = now;
  absl::Status status = queue_.Acknowledge(frame.ack());
  if (!status.ok()) return Refuse(status);
  if (frame.has_welcome()) return OnWelcome(frame);
  if (!open_) {
    return Refuse(absl::InvalidArgumentError("it spoke before its Welcome"));
  }
  if (frame.sequence() == 0) return Event::kNothing;
  const absl::StatusOr<bool> is_new = queue_.Receive(frame.sequence());
  if (!is_new.ok()) return Refuse(is_new.status());
  return *is_new ? Event::kMessage : Event::kNothing;
}

// A worker that joined before all shards had gets another Welcome, which has
// the addresses; one that agrees with others on its instructions, another when
// all have.
absl::StatusOr<ClientSession::Event> ClientSession::OnWelcome(
    const proto::FromCoordinator& frame) {
  const proto::Welcome& welcome = frame.welcome();
  if (welcome.incarnation() == 0 ||
      (incarnation_ != 0 && incarnation_ != welcome.incarnation())) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("welcomes incarnation ", welcome.incarnation(),
                     ", incarnation ", incarnation_, " joined")));
  }
  if (!options_.join.any_number() && welcome.id() != options_.join.id()) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("welcomes number ", welcome.id(), ", number ",
                     options_.join.id(), " joined")));
  }
  incarnation_ = welcome.incarnation();
  welcome_ = welcome;
  contacted_ = true;
  failures_ = 0;
  if (!open_) {
    open_ = true;
    queue_.Reconnect();
    next_heartbeat_ = last_heard_;
  }
  const bool agreed =
      options_.join.instruction_set() == proto::INSTRUCTION_SET_UNSPECIFIED ||
      welcome.instruction_set() != proto::INSTRUCTION_SET_UNSPECIFIED;
  welcomed_ |= options_.join.role() == proto::SHARD ||
               (welcome.shard_addresses_size() > 0 && agreed);
  return Event::kWelcome;
}

void ClientSession::OnFinished(const proto::Finish& finish) {
  finish_ = finish;
  ack_due_ = true;
}

std::optional<absl::Status> ClientSession::OnConnectionEnd(
    const absl::Status& status, absl::Time now) {
  Awake(now);
  last_connected_ = now;
  if (status.ok()) {
    last_error_ = "it closed the session";
  } else if (!absl::IsCancelled(status)) {
    last_error_ = std::string(status.message());
  }
  open_ = false;
  next_heartbeat_ = absl::InfiniteFuture();
  ++failures_;
  if (finish_.has_value() || leaving_) return absl::OkStatus();
  if (!refusal_.ok()) return refusal_;
  if (IsFinal(status.code())) return Refuse(status);
  if (status.code() == absl::StatusCode::kAborted) {
    if (welcomed_) return Refuse(status);
    // The process has not begun to work, so it can simply join as another life.
    incarnation_ = 0;
    queue_ = Queue(kQueueCapacity);
    last_heard_ = now;
  }
  if (now >= Deadline()) return Silent(now);
  return std::nullopt;
}

absl::Status ClientSession::Silent(absl::Time now) const {
  const bool lost = contacted_ || options_.rejoins;
  return AskForRestart(absl::UnavailableError(absl::StrFormat(
      "%s: no answer for %.1f s (%s); last error: %s", Name(),
      absl::ToDoubleSeconds(now - (contacted_ ? last_heard_ : start_)),
      hurries_ ? "told to end"
      : lost   ? "limits.rejoin_timeout_s"
               : "limits.start_timeout_s",
      last_error_)));
}

void ClientSession::Awake(absl::Time now) {
  // Twice the interval, so that a round that is merely late does not count.
  if (now - last_awake_ > 2 * kAwakeEvery) {
    last_heard_ += now - last_awake_ - kAwakeEvery;
    last_connected_ += now - last_awake_ - kAwakeEvery;
  }
  last_awake_ = now;
}

absl::Duration ClientSession::Backoff() {
  const int doublings = std::min(std::max(failures_ - 1, 0), 10);
  return std::min(kFirstBackoff * (1 << doublings), kLongestBackoff);
}

absl::Time ClientSession::Deadline() const {
  if (contacted_) return last_heard_ + Patience(options_.rejoin_timeout);
  return start_ + Patience(options_.rejoins ? options_.rejoin_timeout
                                            : options_.start_timeout);
}

absl::Duration ClientSession::Patience(absl::Duration timeout) const {
  if (!hurries_) return timeout;
  return std::min(timeout, kMostUnanswered * HeartbeatEvery());
}

absl::Time ClientSession::CutAt() const {
  if (!contacted_) return Deadline();
  const absl::Time silent_since = std::max(last_heard_, last_connected_);
  return std::min(silent_since + kMostUnanswered * HeartbeatEvery(),
                  Deadline());
}

absl::Duration ClientSession::HeartbeatEvery() const {
  const double every = welcome_.heartbeat_every_s();
  return absl::Seconds(every > 0 ? every : kDefaultHeartbeat);
}

absl::Status ClientSession::Send(proto::ToCoordinator message) {
  const absl::Status status = queue_.Push(std::move(message));
  return status.ok() ? status : Refuse(status);
}

void ClientSession::Leave(const std::string& reason, bool for_good) {
  proto::ToCoordinator message;
  message.mutable_leave()->set_reason(reason);
  message.mutable_leave()->set_for_good(for_good);
  Send(std::move(message)).IgnoreError();
  leaving_ = true;
}

std::optional<proto::ToCoordinator> ClientSession::NextFrame(absl::Time now) {
  proto::ToCoordinator frame;
  if (queue_.HasNext()) {
    frame = queue_.Next();
  } else if (ack_due_ || reach_due_ || now >= next_heartbeat_) {
    reach_due_ = false;
    proto::Heartbeat* heartbeat = frame.mutable_heartbeat();
    if (!cannot_reach_.empty()) {
      heartbeat->set_waits_for(cannot_reach_);
      heartbeat->set_waits_s(absl::ToDoubleSeconds(now - cut_off_since_));
    }
  } else {
    return std::nullopt;
  }
  std::string* reason = ReasonIn(&frame);
  if (reason != nullptr && !reason->empty()) *reason = Utf8Text(*reason);
  frame.set_ack(queue_.received());
  ack_due_ = false;
  // Other frames do not postpone it: it brings the process's counters.
  if (frame.has_heartbeat()) next_heartbeat_ = now + HeartbeatEvery();
  return frame;
}

}  // namespace sluice

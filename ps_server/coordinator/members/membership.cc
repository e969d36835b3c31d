// The lives of each peer, one after the other.
//
//   does not live  --Join-->          kAlive, in the next incarnation
//   kAlive         --Disconnected-->  kSuspect
//   kSuspect       --Join, resumed--> kAlive, in the same incarnation
//   kSuspect       --Join, anew-->    kAlive, in the next one
//   lives          --Left-->          kLeft
//                  --Died-->          kDead
//                  --LeaseOver-->     kDead or kCutOff
//
// What holds between calls:
//
//  - A peer's incarnations only grow, and at most the newest lives: whatever an
//    older one says is refused by IsCurrent.
//  - `living_` counts, by role, who is kAlive or kSuspect.
//  - `checks_` has an entry for each life that lives, due no later than its
//    lease ends. A word renews the lease without touching the queue; a check
//    that comes too early is put off (Expired).
//
// A lease of 5 s. Worker 1 joins at 0 s and is heard of at 4 s, for the last
// time. Its check at 5 s finds that the lease ends at 9 s, and is put off until
// then. At 9 s it is
//
//   kDead     when its connection broke at 4.2 s: right after a word, as when
//             the system of a process that dies closes it;
//   kCutOff   when it broke at 7 s, after a silence, or not at all: perhaps the
//             network failed, and the process lives.
#include "ps_server/coordinator/members/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

constexpr int kNamedAtMost = 8;  // Fits one log line.

// "a, b", of long lists the first ones: "a, ... and 17 more".
std::string Listed(std::vector<std::string> names) {
  const int more = static_cast<int>(names.size()) - kNamedAtMost;
  if (more > 0) {
    names.resize(kNamedAtMost);
    names.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(names, ", ");
}
// Of a lease. Who lives is heard of five times a lease, so it is silent for a
// fifth; who has been for longer than this when the connection broke was not
// heard before either.
constexpr double kSilentShare = 0.3;

}  // namespace

Membership::Membership(const Options& options) : options_(options) {
  for (int w = 0; w < options.workers; ++w) {
    workers_.push_back(&members_[{Role::kWorker, w}]);
  }
  for (int s = 0; s < options.shards; ++s) members_[{Role::kShard, s}];
  if (options.evaluator) members_[{Role::kEvaluator, 0}];
}

absl::Status Membership::CheckPeer(Peer peer) const {
  if (members_.contains(peer)) return absl::OkStatus();
  switch (peer.role) {
    case Role::kEvaluator:
      return absl::InvalidArgumentError(
          "evaluator: none takes part in this job (evaluation.enabled)");
    case Role::kShard:
      return absl::InvalidArgumentError(
          absl::StrCat(peer.ToString(), ": the job has ", options_.shards,
                       ", numbered from 0"));
    case Role::kWorker:
      break;
  }
  const int most = MostWorkers();
  if (peer.id >= 0 && peer.id < most) return absl::OkStatus();
  const bool more = most > options_.workers;
  return absl::InvalidArgumentError(absl::StrCat(
      peer.ToString(), ": the job takes at most ", most, " (cluster.",
      more ? "max_workers" : "workers", "), numbered from 0"));
}

int Membership::MostWorkers() const {
  return std::max(options_.workers, options_.max_workers);
}

absl::StatusOr<Membership::Joined> Membership::Join(
    Peer peer, Incarnation resume, const std::string& address,
    const std::string& process, absl::Time now,
    const std::vector<std::string>& members) {
  absl::Status valid = CheckPeer(peer);
  if (!valid.ok()) return valid;
  Member& member = members_[peer];
  if (resume.value() != 0) {
    if (!member.living() || member.incarnation != resume) {
      return absl::AbortedError(absl::StrCat(peer.ToString(), ": incarnation ",
                                             resume.value(), " is over"));
    }
    member.life = PeerLife::kAlive;
    member.last_heard = now;
    member.silent = false;
    return Joined{resume, /*resumed=*/true, std::nullopt};
  }
  if (member.life == PeerLife::kAlive) {
    return JudgeRival(peer, process, now, &member);
  }
  Joined joined;
  if (member.living()) {
    joined.replaced = member.incarnation;
  } else {
    ++living_[static_cast<int>(peer.role)];
  }
  joined.incarnation = ++member.incarnation;
  member.life = PeerLife::kAlive;
  member.last_heard = now;
  member.address = address;
  member.process = process;
  member.members = members;
  member.cannot_reach.clear();
  member.counters.clear();
  member.silent = false;
  member.gone = false;
  member.rivals.clear();
  Watch(peer, now);
  return joined;
}

// A host that vanishes closes no connection: only a word from the process that
// is taken to be alive shows that it is.
absl::Status Membership::JudgeRival(Peer peer, const std::string& process,
                                    absl::Time now, Member* member) const {
  if (member->last_heard > Asks(process, now, &member->rivals)) {
    member->rivals.erase(process);
    return absl::AlreadyExistsError(
        absl::StrCat(peer.ToString(), ": taken by ", member->process,
                     ", which is connected; not for ", process));
  }
  return absl::UnavailableError(absl::StrCat(
      peer.ToString(), ": held by ", member->process,
      " until its lease ends in ",
      absl::FormatDuration(member->last_heard + options_.lease - now),
      ", unless it is heard of; ", process, " is to ask again"));
}

absl::Time Membership::Asks(const std::string& process, absl::Time now,
                            Rivals* rivals) const {
  std::erase_if(*rivals, [&](const auto& rival) {
    return rival.second + options_.lease < now;
  });
  return rivals->emplace(process, now).first->second;
}

// Here, too, only a word shows that a process lives: one that was killed and is
// started again waits for its old number, where it is the only one, until that
// one's lease is over.
absl::StatusOr<int64_t> Membership::FreeWorker(int64_t wished,
                                               const std::string& process,
                                               absl::Time now) {
  const int64_t most = MostWorkers();
  const auto free = [&](int64_t id) {
    return !Get({Role::kWorker, id}).living();
  };
  if (wished >= 0 && wished < most && free(wished)) return wished;
  for (int64_t id = 0; id < most; ++id) {
    if (free(id)) return id;
  }
  int64_t id = 0;  // Whose last word is the oldest.
  for (int64_t other = 1; other < most; ++other) {
    const Peer peer{Role::kWorker, other};
    if (Get(peer).last_heard < Get({Role::kWorker, id}).last_heard) id = other;
  }
  const Member& member = Get({Role::kWorker, id});
  if (member.last_heard <= Asks(process, now, &numberless_)) {
    return absl::UnavailableError(absl::StrCat(
        "every worker's number is taken, ", id, " by ", member.process,
        " until its lease ends in ",
        absl::FormatDuration(member.last_heard + options_.lease - now),
        ", unless it is heard of; ", process, " is to ask again"));
  }
  numberless_.erase(process);
  return absl::ResourceExhaustedError(
      absl::StrCat(process, ": no number is left: the job takes at most ", most,
                   " workers (cluster.workers is ", options_.workers,
                   ", cluster.max_workers ", options_.max_workers, "), and ",
                   living(Role::kWorker), " live"));
}

absl::Status Membership::Heard(Peer peer, Incarnation incarnation,
                               absl::Time now) {
  if (!IsCurrent(peer, incarnation)) {
    return absl::AbortedError(absl::StrCat(peer.ToString(), ": incarnation ",
                                           incarnation.value(), " is over"));
  }
  members_[peer].last_heard = now;
  return absl::OkStatus();
}

void Membership::CannotReach(Peer peer, Incarnation incarnation,
                             const std::string& whom, absl::Time since) {
  if (!IsCurrent(peer, incarnation)) return;
  members_[peer].cannot_reach = whom;
  members_[peer].cut_off_since = since;
}

void Membership::Counted(Peer peer, Incarnation incarnation,
                         CounterMap counters) {
  if (!IsCurrent(peer, incarnation)) return;
  members_[peer].counters = std::move(counters);
}

bool Membership::Disconnected(Peer peer, Incarnation incarnation,
                              absl::Time now) {
  if (!IsCurrent(peer, incarnation)) return false;
  Member& member = members_[peer];
  if (member.life != PeerLife::kAlive) return false;
  member.life = PeerLife::kSuspect;
  member.silent = now - member.last_heard >= kSilentShare * options_.lease;
  return true;
}

bool Membership::Left(Peer peer, Incarnation incarnation, bool for_good) {
  if (!End(peer, incarnation, PeerLife::kLeft)) return false;
  members_[peer].gone = for_good;
  return true;
}

bool Membership::Died(Peer peer, Incarnation incarnation) {
  return End(peer, incarnation, PeerLife::kDead);
}

bool Membership::LeaseOver(Peer peer, Incarnation incarnation) {
  const Member& member = Get(peer);
  const bool closed = member.life == PeerLife::kSuspect && !member.silent;
  return End(peer, incarnation, closed ? PeerLife::kDead : PeerLife::kCutOff);
}

void Membership::Lost(Peer peer, const std::string& why) {
  members_[peer].last_loss = why;
}

bool Membership::End(Peer peer, Incarnation incarnation, PeerLife life) {
  if (!IsCurrent(peer, incarnation)) return false;
  members_[peer].life = life;
  --living_[static_cast<int>(peer.role)];
  return true;
}

void Membership::Watch(Peer peer, absl::Time heard) {
  checks_.push({heard + options_.lease, {peer, members_[peer].incarnation}});
}

std::vector<Peer> Membership::Expired(absl::Time now) {
  std::vector<Peer> expired;
  while (!checks_.empty() && checks_.top().first <= now) {
    const auto [peer, incarnation] = checks_.top().second;
    checks_.pop();
    if (!IsCurrent(peer, incarnation)) continue;
    const absl::Time heard = members_[peer].last_heard;
    if (heard + options_.lease <= now) {
      expired.push_back(peer);
    } else {
      Watch(peer, heard);
    }
  }
  return expired;
}

const Membership::Member& Membership::Get(Peer peer) const {
  static const Member kMissing;
  if (peer.role == Role::kWorker && peer.id >= 0 &&
      peer.id < static_cast<int64_t>(workers_.size())) {
    return *workers_[peer.id];
  }
  const auto it = members_.find(peer);
  return it == members_.end() ? kMissing : it->second;
}

bool Membership::IsCurrent(Peer peer, Incarnation incarnation) const {
  const Member& member = Get(peer);
  return member.living() && member.incarnation == incarnation;
}

std::string Membership::Missing(Role role) const {
  const int expected = role == Role::kWorker  ? options_.workers
                       : role == Role::kShard ? options_.shards
                       : options_.evaluator   ? 1
                                              : 0;
  std::vector<Peer> peers;
  for (int64_t id = 0; id < expected; ++id) peers.push_back({role, id});
  return Missing(peers);
}

std::string Membership::Missing(const std::vector<Peer>& expected) const {
  std::vector<std::string> names;
  for (const Peer& peer : expected) {
    if (!Get(peer).living()) names.push_back(peer.ToString());
  }
  return Listed(std::move(names));
}

std::pair<std::string, absl::Time> Membership::CutOff() const {
  std::vector<std::string> names;
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [peer, member] : members_) {
    if (!member.living() || member.cannot_reach.empty()) continue;
    names.push_back(absl::StrCat(peer.ToString(), ", which cannot reach ",
                                 member.cannot_reach));
    since = std::min(since, member.cut_off_since);
  }
  return {Listed(std::move(names)), since};
}

}  // namespace sluice

#ifndef SLUICE_PS_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_
#define SLUICE_PS_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Who takes part and who is alive. A peer is missing until it joins, then
// alive; suspect when its stream broke; left when it said so. When its lease
// expires it is dead if its own end closed the stream, as the system does for a
// process that dies; and cut off if it just fell silent: no more is known of
// it. Every life of an id has its own incarnation, and what an older one says
// is refused.
//
// `now` is awake time (AwakeClock) throughout. Cost O(log(peers)) per call,
// O(1) for what Get and IsCurrent tell of the job's workers.
//
// Not thread-safe: call from the coordinator.
class Membership {
 public:
  struct Options {
    int workers = 1;
    // Those numbered from `workers` to below this may join and are never
    // missed; up to `workers`, there are none.
    int max_workers = 0;
    int shards = 1;
    bool evaluator = false;
    absl::Duration lease = absl::Seconds(5);
  };
  explicit Membership(const Options& options);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Who has asked for what others have, by process, and when he did first.
  using Rivals = std::map<std::string, absl::Time>;
  struct Member {
    PeerLife life = PeerLife::kMissing;
    Incarnation incarnation;
    absl::Time last_heard;
    std::string address;
    std::string process;
    std::vector<std::string> members;  // Of a worker of several processes.
    std::string cannot_reach;          // As it has said last; empty: nobody.
    absl::Time cut_off_since;          // While it cannot.
    CounterMap counters;               // As it has said last.
    std::string last_loss;  // Why its newest life that is over ended.
    bool gone = false;      // It has left for good.
    // The stream broke after a silence, so that nobody need have closed it.
    bool silent = false;
    // For the place of one who is alive.
    Rivals rivals;

    bool living() const {
      return life == PeerLife::kAlive || life == PeerLife::kSuspect;
    }
  };

  struct Joined {
    Incarnation incarnation;
    bool resumed = false;
    // A living incarnation that this one replaces.
    std::optional<Incarnation> replaced;
  };
  // `resume` 0 asks for a new life. Errors: kAlreadyExists (the id is that of
  // another process, which lives: it has been heard of since this one first
  // asked), kUnavailable (it is not known yet whether it does: ask again),
  // kAborted (`resume` is over), kInvalidArgument (no such id).
  absl::StatusOr<Joined> Join(Peer peer, Incarnation resume,
                              const std::string& address,
                              const std::string& process, absl::Time now,
                              const std::vector<std::string>& members = {});

  // The number for `process`, a worker that has none: `wished` if that is free,
  // else the lowest that is. Free is one without a living process, up to the
  // most that the job takes. Errors: kResourceExhausted (there is none, and all
  // who have one have been heard of since this process first asked),
  // kUnavailable (there is none, but some may not live any more: ask again).
  absl::StatusOr<int64_t> FreeWorker(int64_t wished, const std::string& process,
                                     absl::Time now);

  // Renews the lease. kAborted: the incarnation is over.
  absl::Status Heard(Peer peer, Incarnation incarnation, absl::Time now);
  // The peer cannot reach `whom` since `since`; empty: it reaches all. Ignored
  // of an incarnation that is over.
  void CannotReach(Peer peer, Incarnation incarnation, const std::string& whom,
                   absl::Time since);
  // What the peer has counted. Ignored of an incarnation that is over.
  void Counted(Peer peer, Incarnation incarnation, CounterMap counters);
  // kAlive becomes kSuspect. False if nothing changed.
  bool Disconnected(Peer peer, Incarnation incarnation, absl::Time now);
  // The peer is over with this life. False if it was already.
  bool Left(Peer peer, Incarnation incarnation, bool for_good = false);
  bool Died(Peer peer, Incarnation incarnation);
  bool LeaseOver(Peer peer, Incarnation incarnation);
  // Why the life that has ended did.
  void Lost(Peer peer, const std::string& why);
  // Living peers whose lease has run out; call LeaseOver() for each.
  std::vector<Peer> Expired(absl::Time now);

  // A member that never joined is kMissing.
  const Member& Get(Peer peer) const;
  bool IsCurrent(Peer peer, Incarnation incarnation) const;

  int living(Role role) const { return living_[static_cast<int>(role)]; }
  // Those the job counts on who do not live: "worker 2, worker 5"; empty when
  // all do. Long lists are cut: "... and 17 more".
  std::string Missing(Role role) const;
  // The same of those whom the caller counts on.
  std::string Missing(const std::vector<Peer>& expected) const;
  // Those who live and cannot reach somebody, each with whom, and since when
  // the first: "worker 1, which cannot reach shard 0 at host:port". Empty:
  // none.
  std::pair<std::string, absl::Time> CutOff() const;
  const std::map<Peer, Member>& members() const { return members_; }
  // kInvalidArgument: the job has no such peer.
  absl::Status CheckPeer(Peer peer) const;

 private:
  // When `process` first asked; those who do not ask any more have ended.
  absl::Time Asks(const std::string& process, absl::Time now,
                  Rivals* rivals) const;
  int MostWorkers() const;
  // What one hears who asks for the place of `member`, which is alive.
  absl::Status JudgeRival(Peer peer, const std::string& process, absl::Time now,
                          Member* member) const;
  bool End(Peer peer, Incarnation incarnation, PeerLife life);
  void Watch(Peer peer, absl::Time heard);

  const Options options_;
  std::map<Peer, Member> members_;
  // Those of the job's workers, by number: asked for with every task.
  std::vector<const Member*> workers_;
  int living_[3] = {};  // By role.
  Rivals numberless_;   // For any worker's number, while none was free.
  // When to look at a lease again; at most one entry per life of a peer.
  using Check = std::pair<absl::Time, std::pair<Peer, Incarnation>>;
  std::priority_queue<Check, std::vector<Check>, std::greater<Check>> checks_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_

#include "cli/chaos/schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/random.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The first act comes after the start of the run, and after the last one there
// is time to recover, as shares of the run.
constexpr double kBegin = 0.05;
constexpr double kEnd = 0.9;

// A restored server makes a checkpoint within one distance. The second one is
// for the time that it takes to write it.
constexpr int kCheckpointsBetween = 2;

// In leases: below one by as much as a busy machine may be late, and above one
// by as much.
constexpr double kShort[] = {0.2, 0.5};
constexpr double kLong[] = {1.4, 2.0};

constexpr StorageFault kFaults[] = {
    StorageFault::kUnreadable, StorageFault::kFull, StorageFault::kStalled};

// The turns of the parts.
constexpr Part kTurns[] = {Part::kWorker,   Part::kShard, Part::kLead,
                           Part::kWorker,   Part::kShard, Part::kLead,
                           Part::kWorker,   Part::kShard, Part::kLead,
                           Part::kEvaluator};

double Between(const double (&range)[2], double share) {
  return range[0] + share * (range[1] - range[0]);
}

// Draws the acts of one kind.
class Kind {
 public:
  Kind(uint64_t seed, ActKind kind, const ChaosPlan& plan)
      : kind_(kind),
        plan_(plan),
        whom_(seed, absl::StrCat(NameOfKind(kind), " whom")),
        how_long_(seed, absl::StrCat(NameOfKind(kind), " how long")) {}

  Act Draw(int i) const {
    Act act;
    act.kind = kind_;
    act.part = PartAt(i);
    if (kind_ == ActKind::kStorage) act.fault = kFaults[i % 3];
    if (act.part == Part::kShard) act.number = 1 + Below(plan_.shards - 1, i);
    const double share = how_long_.Uniform(i);
    if (kind_ != ActKind::kKill) {
      // Faults come in threes and parts in twos: the change of turns after
      // each six gives every fault both durations on every part.
      const int turn = kind_ == ActKind::kStorage ? i / 6 + i : i;
      act.leases =
          turn % 2 == 0 ? Between(kShort, share) : Between(kLong, share);
      // Two digits, so that the printed schedule is exact.
      act.leases = static_cast<int>(act.leases * 100) / 100.0;
    }
    return act;
  }

 private:
  Part PartAt(int i) const {
    constexpr int kMost = sizeof(kTurns) / sizeof(kTurns[0]);
    Part part = kTurns[i % kMost];
    if (kind_ == ActKind::kStorage) {
      part = i % 2 == 0 ? Part::kShard : Part::kLead;
    }
    if (part == Part::kShard && plan_.shards == 1) part = Part::kLead;
    const bool server = part == Part::kLead || part == Part::kShard;
    if (server && !plan_.servers) part = Part::kWorker;
    if (part == Part::kEvaluator && !plan_.evaluator) part = Part::kWorker;
    return part;
  }
  int Below(int count, int i) const {
    return static_cast<int>(whom_.Uniform(i) * count);
  }

  const ActKind kind_;
  const ChaosPlan& plan_;
  const Random whom_;
  const Random how_long_;
};

std::vector<Act> DrawActs(uint64_t seed, const ChaosPlan& plan) {
  std::vector<Act> acts;
  for (const auto& [kind, count] :
       {std::pair{ActKind::kKill, plan.kills},
        std::pair{ActKind::kStop, plan.stops},
        std::pair{ActKind::kCut, plan.cuts},
        std::pair{ActKind::kStorage, plan.storage_faults}}) {
    const Kind of(seed, kind, plan);
    for (int i = 0; i < count; ++i) acts.push_back(of.Draw(i));
  }
  if (acts.empty()) return acts;
  const Permutation order(seed, /*stream=*/1, acts.size());
  std::vector<Act> ordered(acts.size());
  for (size_t i = 0; i < acts.size(); ++i) ordered[order(i)] = acts[i];
  const int64_t processes = int64_t{plan.workers} * plan.members;
  const Permutation whom(seed, /*stream=*/2, processes);
  int64_t turn = 0;
  for (Act& act : ordered) {
    if (act.part != Part::kWorker) continue;
    const auto process = static_cast<int>(whom(turn++ % processes));
    act.number = process % plan.workers;
    const int member = process / plan.workers;
    if (member == 0 || act.kind == ActKind::kCut) continue;
    act.part = Part::kMember;
    act.number = NumberOfMember(act.number, member);
  }
  return ordered;
}

}  // namespace

bool OnServer(const Act& act) {
  return act.part == Part::kLead || act.part == Part::kShard;
}

std::string NameOfKind(ActKind kind) {
  switch (kind) {
    case ActKind::kKill:
      return "kill";
    case ActKind::kStop:
      return "stop";
    case ActKind::kCut:
      return "cut";
    case ActKind::kStorage:
      return "storage";
  }
  SLUICE_CHECK(!"a kind of act has a name");
}

std::string NameOfFault(StorageFault fault) {
  switch (fault) {
    case StorageFault::kUnreadable:
      return "unreadable";
    case StorageFault::kFull:
      return "full";
    case StorageFault::kStalled:
      return "stalled";
    case StorageFault::kNone:
      break;
  }
  SLUICE_CHECK(!"a fault of the storage has a name");
}

std::string Describe(const Act& act) {
  std::string text =
      absl::StrCat(NameOfKind(act.kind), " ", NameOfPart(act.part, act.number));
  if (act.kind == ActKind::kStorage) {
    text = absl::StrCat("storage of ", NameOfPart(act.part, act.number), " ",
                        NameOfFault(act.fault));
  }
  if (act.kind == ActKind::kCut) text += " off";
  if (act.kind != ActKind::kKill) {
    absl::StrAppendFormat(&text, " for %.2f leases", act.leases);
  }
  return text;
}

std::string DescribeWithTime(const Act& act) {
  return absl::StrCat("version ", act.at_version,
                      act.after_checkpoint ? ", after a checkpoint: " : ": ",
                      Describe(act));
}

absl::StatusOr<std::vector<Act>> DrawSchedule(uint64_t seed,
                                              const ChaosPlan& plan) {
  std::vector<Act> acts = DrawActs(seed, plan);
  const int64_t apart = kCheckpointsBetween * plan.checkpoint_every;
  // The least distance of each act from the first, in versions.
  std::vector<int64_t> least(acts.size(), 0);
  int64_t last = 0;
  int64_t next_server = 0;
  for (size_t i = 0; i < acts.size(); ++i) {
    if (OnServer(acts[i])) {
      acts[i].after_checkpoint = next_server > 0;
      last = std::max(last, next_server);
      next_server = last + apart;
    }
    least[i] = last;
  }
  const auto begin = static_cast<int64_t>(std::ceil(kBegin * plan.updates));
  const auto end = static_cast<int64_t>(kEnd * plan.updates);
  const int64_t slack = end - begin - last;
  if (!acts.empty() && slack < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        acts.size(), " acts do not fit into ", plan.updates,
        " updates with a checkpoint every ", plan.checkpoint_every,
        ": they need ", last, " from the first to the last, there are ",
        end - begin,
        "; a longer run, more checkpoints or fewer acts would do"));
  }
  const Random when(seed, "when");
  for (size_t i = 0; i < acts.size(); ++i) {
    const double share =
        (static_cast<double>(i) + when.Uniform(i)) / acts.size();
    acts[i].at_version = begin + least[i] + static_cast<int64_t>(slack * share);
  }
  return acts;
}

}  // namespace sluice

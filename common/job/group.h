#ifndef SLUICE_COMMON_JOB_GROUP_H_
#define SLUICE_COMMON_JOB_GROUP_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "proto/job.pb.h"

// The processes of a group, its members, and the workers that they are
// together (worker.group). Of two stages, the first of them with two replicas,
// and three slots:
//
//   member 0   stage 0, replica 0   slots 0 and 2
//   member 1   stage 0, replica 1   slot 1
//   member 2   stage 1              slots 0, 1 and 2
//
// Pure functions of a resolved job.
namespace sluice {

// Processes of one group.
inline constexpr int kMostMembers = 64;

// Whether a worker is not one process that computes its tasks alone.
bool IsGroup(const proto::Job& job);

// 1 where it is not set.
int SlotsOf(const proto::Job& job);
// How many there are in the cluster.
int GroupsOf(const proto::Job& job);
// Slot f of group g is worker f x GroupsOf + g; where there is one slot, each
// worker is the group of its number.
WorkerId WorkerOfSlot(const proto::Job& job, int group, int slot);
int64_t GroupOf(const proto::Job& job, WorkerId worker);
int SlotOf(const proto::Job& job, WorkerId worker);

int StageCount(const proto::Job& job);
int ReplicasOf(const proto::Job& job, int stage);
// Processes of one group.
int MembersOf(const proto::Job& job);
int StageOfMember(const proto::Job& job, int member);
// Number of a member of the worker's group among the processes of all groups.
int64_t ProcessOf(const proto::Job& job, WorkerId worker, int member);
// Those whose tasks the member computes, in ascending order.
std::vector<int> SlotsOfMember(const proto::Job& job, int member);
// Which member computes a stage of a slot's tasks.
int MemberOfSlot(const proto::Job& job, int stage, int slot);

// Whom a member calls, and whether others call it.
struct MemberLinks {
  std::vector<int> upstreams;  // Those of the stage before, in order.
  bool listens = false;        // For those of the stage behind.
};
// Of each member of a group.
std::vector<MemberLinks> LinksOfMembers(const proto::Job& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_GROUP_H_

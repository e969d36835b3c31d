#include "common/job/group.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

// The number of the stage's replica 0.
int FirstMember(const proto::Job& job, int stage) {
  int first = 0;
  for (int s = 0; s < stage; ++s) first += ReplicasOf(job, s);
  return first;
}

}  // namespace

bool IsGroup(const proto::Job& job) {
  return StageCount(job) > 1 || SlotsOf(job) > 1;
}

int SlotsOf(const proto::Job& job) {
  return std::max(1, job.worker().group().slots());
}

int GroupsOf(const proto::Job& job) {
  return job.cluster().workers() / SlotsOf(job);
}

WorkerId WorkerOfSlot(const proto::Job& job, int group, int slot) {
  return WorkerId(int64_t{slot} * GroupsOf(job) + group);
}

int64_t GroupOf(const proto::Job& job, WorkerId worker) {
  return SlotsOf(job) == 1 ? worker.value() : worker.value() % GroupsOf(job);
}

int SlotOf(const proto::Job& job, WorkerId worker) {
  return SlotsOf(job) == 1 ? 0
                           : static_cast<int>(worker.value() / GroupsOf(job));
}

int StageCount(const proto::Job& job) {
  return job.worker().group().pipeline_stages();
}

int ReplicasOf(const proto::Job& job, int stage) {
  const auto& replicas = job.worker().group().replicas();
  return replicas.empty() ? 1 : replicas[stage];
}

int MembersOf(const proto::Job& job) {
  return FirstMember(job, StageCount(job));
}

int StageOfMember(const proto::Job& job, int member) {
  int stage = 0;
  while (member >= FirstMember(job, stage + 1)) ++stage;
  return stage;
}

int64_t ProcessOf(const proto::Job& job, WorkerId worker, int member) {
  return GroupOf(job, worker) * MembersOf(job) + member;
}

std::vector<int> SlotsOfMember(const proto::Job& job, int member) {
  const int stage = StageOfMember(job, member);
  std::vector<int> slots;
  for (int slot = 0; slot < SlotsOf(job); ++slot) {
    if (MemberOfSlot(job, stage, slot) == member) slots.push_back(slot);
  }
  return slots;
}

std::vector<MemberLinks> LinksOfMembers(const proto::Job& job) {
  std::vector<MemberLinks> members;
  std::vector<int> before;  // Members of the stage before.
  for (int stage = 0; stage < StageCount(job); ++stage) {
    std::vector<int> these(ReplicasOf(job, stage));
    std::iota(these.begin(), these.end(), FirstMember(job, stage));
    members.insert(
        members.end(), these.size(),
        {.upstreams = before, .listens = stage + 1 < StageCount(job)});
    before = std::move(these);
  }
  return members;
}

int MemberOfSlot(const proto::Job& job, int stage, int slot) {
  return FirstMember(job, stage) + slot % ReplicasOf(job, stage);
}

}  // namespace sluice

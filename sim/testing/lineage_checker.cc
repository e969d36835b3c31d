// Holds one Branch per generation, a tree in which each branch starts at a
// version of its parent. A generation that restored version 8 of generation 1,
// for example, has a branch whose ReferenceWeights start with those of version
// 8. What generation 1 committed after version 8 is cut off: its tasks count as
// lost, and its mini-batches are issued again.
//
// stored_ tells which checkpoints FindRecovery may choose. kWhole ones must be
// found; kPerhaps ones, whose write or removal was cut off, may be.
#include "sim/testing/lineage_checker.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

std::string Describe(CheckpointId id) {
  return absl::StrCat("version ", id.version.value(), " of generation ",
                      id.generation.value());
}

int64_t Ended(const GradientCounts& counts) {
  return counts.applied + counts.cancelled + counts.dropped + counts.rejected;
}

}  // namespace

LineageChecker::LineageChecker(const CoordinatorOptions& options)
    : options_(options),
      undisturbed_(options.job.sync().policy() == proto::SYNC
                       ? ReferenceWeights::Undisturbed(options)
                       : std::vector<float>()) {}

void LineageChecker::Expect(bool holds, const std::string& rule) {
  if (!holds && violation_.empty()) violation_ = rule;
}

std::string LineageChecker::Violation() const {
  if (!violation_.empty()) return violation_;
  for (const auto& [generation, branch] : branches_) {
    const std::string& broken = branch->checker.violation();
    if (broken.empty()) continue;
    return absl::StrCat("generation ", generation.value(), ": ", broken);
  }
  return "";
}

LineageChecker::Branch& LineageChecker::Begin(
    const CoordinatorOptions& options) {
  const ReferenceWeights* parent = nullptr;
  if (options.resume.has_value() && options.resume->version > Version(0)) {
    parent = &branches_.at(options.resume->generation)->weights;
  }
  Expect(!branches_.contains(options.generation),
         absl::StrCat("generation ", options.generation.value(),
                      " is taken once"));
  Expect(branches_.empty() || branches_.rbegin()->first < options.generation,
         "generations only grow");
  auto& branch = branches_[options.generation];
  branch = std::make_unique<Branch>(options, parent);
  return *branch;
}

LineageChecker::Branch* LineageChecker::Find(Generation generation) {
  const auto it = branches_.find(generation);
  return it == branches_.end() ? nullptr : it->second.get();
}

void LineageChecker::Committed(Generation generation,
                               const RecordCommit& commit) {
  const int64_t version = commit.version.value();
  ReferenceWeights& weights = branches_.at(generation)->weights;
  weights.Commit(commit);
  if (undisturbed_.empty()) return;
  Expect(version < std::ssize(undisturbed_) &&
             weights.At(version) == undisturbed_[version],
         absl::StrCat("version ", version, " of generation ",
                      generation.value(), " is that of an undisturbed run"));
}

void LineageChecker::Removing(CheckpointId id) {
  const auto it = stored_.find(id);
  if (it != stored_.end()) it->second = Stored::kPerhaps;
}

void LineageChecker::Resumes(const Resumption& found, bool certain) {
  const ResumePoint& point = found.point;
  Expect(branches_.empty() || found.generation > branches_.rbegin()->first,
         "the next generation is one above all");
  int64_t ended = 0;
  if (point.version > Version(0)) {
    CheckPoint(point);
    if (!violation_.empty()) return;
    ended = Ended(Find(point.generation)
                      ->checker.checkpoints()
                      .ExpectedAt(point.version)
                      ->gradients);
  } else {
    const bool none = std::ranges::none_of(
        stored_, [](const auto& s) { return s.second == Stored::kWhole; });
    Expect(none, "a whole checkpoint is found");
  }
  const int64_t lost = tasks() - ended;
  const int64_t counted = point.snapshot.totals.counters.lost;
  Expect(certain ? counted == lost : counted <= lost,
         absl::StrCat(counted, " tasks are counted as lost, of ", tasks(),
                      " there were ", lost));
}

void LineageChecker::CheckPoint(const ResumePoint& point) {
  const CheckpointId id{point.generation, point.version};
  Expect(stored_.contains(id),
         absl::StrCat(Describe(id), " is gone on from, which was not stored"));
  for (const auto& [other, how] : stored_) {
    Expect(how != Stored::kWhole || other <= id,
           absl::StrCat(Describe(id), " is gone on from, the newest is ",
                        Describe(other)));
  }
  const Branch* from = Find(point.generation);
  const CheckpointChecker::Expected* expected =
      from == nullptr ? nullptr
                      : from->checker.checkpoints().ExpectedAt(point.version);
  if (expected == nullptr) {
    return Expect(false, absl::StrCat(Describe(id), " was not stored"));
  }
  Expect(point.snapshot.schedule == expected->schedule,
         absl::StrCat(Describe(id), ": done is what is in its updates"));
  Expect(point.snapshot.totals.counters.samples_applied ==
             expected->samples_applied,
         absl::StrCat(Describe(id), ": samples are those of its updates"));
}

int64_t LineageChecker::tasks() const {
  int64_t sum = 0;
  for (const auto& [_, branch] : branches_) sum += branch->checker.tasks();
  return sum;
}

int64_t LineageChecker::updates() const {
  int64_t sum = 0;
  for (const auto& [_, branch] : branches_) {
    sum += std::ssize(branch->checker.commits());
  }
  return sum;
}

int64_t LineageChecker::checkpoints() const {
  int64_t sum = 0;
  for (const auto& [_, branch] : branches_) {
    sum += branch->checker.checkpoints().written();
  }
  return sum;
}

// The commit logs must agree: versions without a gap, each mini-batch in one of
// them, and one end for each task.
void LineageChecker::CheckEnd(const std::string& run_dir, Version version) {
  const auto lineage = ReadLineage(run_dir);
  if (!lineage.ok()) return Expect(false, lineage.status().ToString());
  const CommitLog log = JoinLogs(*lineage);
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  std::set<Key> open;
  std::set<int64_t> batches;
  int64_t versions = 0;
  const auto close = [&](const auto& of) {
    Expect(open.erase({of.worker(), of.incarnation(), of.sequence()}) == 1,
           "the log has one end for each task");
  };
  for (const proto::LogRecord& record : log.records) {
    if (record.has_task()) {
      const proto::LogTask& task = record.task();
      open.insert({task.worker(), task.incarnation(), task.sequence()});
    } else if (record.has_end()) {
      close(record.end());
    } else if (record.has_commit()) {
      Expect(record.commit().version() == ++versions,
             "the log's versions have no gaps");
      for (const auto& entry : record.commit().entry()) {
        close(entry);
        Expect(batches.insert(entry.first_batch()).second,
               absl::StrCat("mini-batch ", entry.first_batch(),
                            " is in one update of the lineage"));
      }
    }
  }
  Expect(open.empty(), "every task in the log has an end");
  Expect(versions == version.value(),
         absl::StrCat("the log ends with version ", versions, ", the run with ",
                      version.value()));
}

}  // namespace sluice

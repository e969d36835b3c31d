#include "cli/launch/death_reports.h"

#include "common/telemetry/json_text.h"

namespace sluice {
namespace {

proto::Role RoleOf(Part part) {
  switch (part) {
    case Part::kLead:
    case Part::kShard:
      return proto::SHARD;
    case Part::kWorker:
    case Part::kMember:
      return proto::WORKER;
    case Part::kEvaluator:
      return proto::EVALUATOR;
  }
  return proto::ROLE_UNSPECIFIED;
}

}  // namespace

void DeathReports::Add(const PartEnd& end, absl::Time now) {
  if (end.ok || end.part == Part::kLead) return;
  proto::DeathReport report;
  report.set_role(RoleOf(end.part));
  report.set_id(end.part == Part::kMember ? WorkerOf(end.number) : end.number);
  report.set_process(end.process);
  report.set_reason(Utf8Text(end.how));
  pending_.emplace_back(now, std::move(report));
}

std::vector<proto::DeathReport> DeathReports::Due(absl::Time now) {
  std::erase_if(pending_, [&](const auto& pending) {
    return now - pending.first >= kTryFor;
  });
  std::vector<proto::DeathReport> due;
  for (const auto& [since, report] : pending_) due.push_back(report);
  return due;
}

void DeathReports::Answered(const proto::DeathReport& report) {
  std::erase_if(pending_, [&](const auto& pending) {
    return pending.second.process() == report.process();
  });
}

}  // namespace sluice

// Two accounts of one run, kept by different code: the commit logs, from which
// the ledger adds up how every gradient ended, and, of a run that ended well,
// summary.json, in which the lead has counted meanwhile. Updates, samples, and
// how gradients ended must be the same in both. A run that ended behind its
// epochs must have applied each mini-batch once as well, but for those that
// were left out.
#include "cli/report/run_ledger.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Mini-batches of a run through `job`'s epochs.
int64_t MiniBatchesOf(const ResolvedJob& job) {
  const BatchSchedule schedule = JobSchedule(job.job, job.data.train_samples);
  const BatchSchedule::Block last =
      schedule.BlockAt(BlockId(schedule.total() - 1));
  return last.first_batch.value() + last.batches;
}

void Compare(const char* what, int64_t said, int64_t found, Ledger* ledger) {
  if (said == found) return;
  ledger->errors.push_back(absl::StrCat("summary.json says ", said, " ", what,
                                        ", the logs ", found));
}

std::string Row(const std::string& name, const std::string& from,
                const std::string& versions, const GenerationLedger& of) {
  return absl::StrFormat("%-10s %-12s %-14s %8d %9d %9d %8d %8d %8d\n", name,
                         from, versions, of.tasks, of.applied, of.cancelled,
                         of.dropped, of.rejected, of.lost);
}

Json CountsJson(const GenerationLedger& of) {
  return {{"tasks", of.tasks},         {"applied", of.applied},
          {"cancelled", of.cancelled}, {"dropped", of.dropped},
          {"rejected", of.rejected},   {"lost", of.lost}};
}

}  // namespace

absl::StatusOr<Ledger> ReadRunLedger(const std::string& run_dir) {
  SLUICE_RETURN_IF_ERROR(CheckMayRead(run_dir));
  SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job,
                          LoadJob(absl::StrCat(run_dir, "/job.textproto"), {}));
  LedgerExpectation expected;
  const absl::StatusOr<RunResult> result = ReadRunResult(run_dir);
  if (result.ok() && result->failure.empty()) {
    expected.ended = true;
    // A run that did not reach its end applied fewer, as has one that is
    // resumed with more epochs and has still the summary of its former end.
    const proto::Stop& stop = job.job.stop();
    if (stop.has_epochs() &&
        absl::StartsWith(result->reason,
                         absl::StrCat(stop.epochs(), " epochs done"))) {
      expected.mini_batches = MiniBatchesOf(job);
      expected.left_out = result->counters.batches_left_out;
    }
  }
  SLUICE_ASSIGN_OR_RETURN(Ledger ledger, ReadLedger(run_dir, expected));
  if (absl::IsDataLoss(result.status())) {
    ledger.errors.push_back(std::string(result.status().message()));
  }
  if (!expected.ended) return ledger;
  const GenerationLedger total = ledger.Total();
  const absl::Status whole = CheckLogsReachEnd(run_dir, result, ledger.version);
  if (!whole.ok()) ledger.errors.push_back(std::string(whole.message()));
  Compare("updates", result->version, ledger.version.value(), &ledger);
  Compare("samples", result->counters.samples_applied, ledger.samples, &ledger);
  Compare("gradients applied", result->counters.applied, total.applied,
          &ledger);
  Compare("gradients cancelled", result->counters.cancelled, total.cancelled,
          &ledger);
  Compare("gradients dropped", result->counters.dropped, total.dropped,
          &ledger);
  Compare("gradients rejected", result->counters.rejected, total.rejected,
          &ledger);
  Compare("gradients lost", result->counters.lost, total.lost, &ledger);
  return ledger;
}

std::string DescribeLedger(const Ledger& ledger) {
  std::string text =
      absl::StrFormat("%-10s %-12s %-14s %8s %9s %9s %8s %8s %8s\n",
                      "generation", "goes on from", "versions", "tasks",
                      "applied", "cancelled", "dropped", "rejected", "lost");
  for (const GenerationLedger& one : ledger.generations) {
    std::string versions =
        absl::StrCat(one.restored.value(), " to ", one.decided.value());
    if (one.updates_lost() > 0) {
      absl::StrAppend(&versions, " (-", one.updates_lost(), ")");
    }
    text +=
        Row(absl::StrCat(one.generation.value()),
            one.parent.value() == 0 ? "-" : absl::StrCat(one.parent.value()),
            versions, one);
  }
  text += Row("all", "", absl::StrCat("0 to ", ledger.version.value()),
              ledger.Total());
  for (const Generation generation : ledger.never_began) {
    absl::StrAppend(&text, "generation ", generation.value(),
                    " was taken and never began\n");
  }
  for (const TornTail& tail : ledger.torn) {
    absl::StrAppend(&text, tail.ToString(), "\n");
  }
  absl::StrAppend(&text, ledger.mini_batches, " mini-batches, ", ledger.samples,
                  " samples in the weights of version ", ledger.version.value(),
                  "\n");
  for (const std::string& error : ledger.errors) {
    absl::StrAppend(&text, error, "\n");
  }
  absl::StrAppend(&text, ledger.exact() ? "exact: every gradient ended once\n"
                                        : "NOT exact\n");
  return text;
}

std::string LedgerJson(const Ledger& ledger) {
  Json generations = Json::array();
  for (const GenerationLedger& one : ledger.generations) {
    Json json = {{"generation", one.generation.value()},
                 {"parent", one.parent.value()},
                 {"restored_version", one.restored.value()},
                 {"version", one.decided.value()},
                 {"updates_lost", one.updates_lost()}};
    json.update(CountsJson(one));
    generations.push_back(json);
  }
  Json never = Json::array();
  for (const Generation one : ledger.never_began) never.push_back(one.value());
  Json torn = Json::array();
  for (const TornTail& tail : ledger.torn) {
    torn.push_back(
        {{"file", tail.path}, {"offset", tail.offset}, {"bytes", tail.bytes}});
  }
  const Json json = {{"exact", ledger.exact()},
                     {"errors", ledger.errors},
                     {"version", ledger.version.value()},
                     {"mini_batches", ledger.mini_batches},
                     {"samples", ledger.samples},
                     {"gradients", CountsJson(ledger.Total())},
                     {"generations", generations},
                     {"never_began", never},
                     {"torn", torn}};
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice

// What it means when a finding is broken:
//
//   end         the run failed, or did not end
//   acts        it was over before all was done, so it says less than it should
//   ledger      a gradient was lost without a verdict, or counted twice
//   rollback    a generation went back behind the newest whole checkpoint
//   accuracy    it learned less than the same job undisturbed
//   bits        under SYNC: an update was made of other gradients, or of the
//               same in another order. Not judged where one of the runs left
//               out mini-batches that the other one did not, as it may (SHRINK)
#include "cli/chaos/judgement.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<Part, const char*> kParts[] = {
    {Part::kWorker, "workers"},
    {Part::kShard, "shards"},
    {Part::kLead, "coordinator"},
    {Part::kEvaluator, "evaluator"}};
constexpr ActKind kKinds[] = {ActKind::kKill, ActKind::kStop, ActKind::kCut,
                              ActKind::kStorage};

// How many of the acts done were of this kind, on this part.
int Count(const ChaosOutcome& outcome, ActKind kind, Part part) {
  return static_cast<int>(std::count_if(
      outcome.acts.begin(), outcome.acts.begin() + outcome.done.size(),
      [&](const Act& act) {
        // A member is a process of a worker.
        const bool on = act.part == part ||
                        (part == Part::kWorker && act.part == Part::kMember);
        return act.kind == kind && on;
      }));
}

int64_t UpdatesLost(const Ledger& ledger) {
  int64_t lost = 0;
  for (const GenerationLedger& one : ledger.generations) {
    lost += one.updates_lost();
  }
  return lost;
}

Judgement JudgeActs(const ChaosOutcome& outcome) {
  Judgement finding{.name = "acts",
                    .holds = outcome.done.size() == outcome.acts.size(),
                    .detail = absl::StrCat(outcome.done.size(), " of ",
                                           outcome.acts.size(), " done")};
  if (!finding.holds) {
    absl::StrAppend(&finding.detail, "; never due: ",
                    DescribeWithTime(outcome.acts[outcome.done.size()]));
  }
  return finding;
}

Judgement JudgeLedger(const Ledger& ledger) {
  const GenerationLedger total = ledger.Total();
  Judgement finding{
      .name = "ledger",
      .holds = ledger.exact(),
      .detail = absl::StrFormat(
          "%d gradients: %d applied, %d cancelled, %d dropped, %d rejected, %d "
          "lost; %d mini-batches once each",
          total.tasks, total.applied, total.cancelled, total.dropped,
          total.rejected, total.lost, ledger.mini_batches)};
  if (!finding.holds) finding.detail = ledger.errors.front();
  return finding;
}

Judgement JudgeRollback(const ChaosOutcome& outcome) {
  const bool holds = outcome.rolled_back.empty();
  return {.name = "rollback",
          .holds = holds,
          .detail = holds ? "no generation went back behind the newest whole "
                            "checkpoint"
                          : outcome.rolled_back};
}

// The accuracy or, of a regression, the loss.
Judgement JudgeQuality(const ChaosOutcome& outcome) {
  Judgement finding{.name = "accuracy"};
  std::optional<double> here = outcome.disturbed.test_accuracy;
  std::optional<double> there = outcome.undisturbed.test_accuracy;
  if (!there.has_value()) {
    finding.name = "test loss";
    here = outcome.disturbed.test_loss;
    there = outcome.undisturbed.test_loss;
  }
  if (!here.has_value() || !there.has_value()) {
    finding.detail = "not evaluated";
    return finding;
  }
  finding.holds = std::abs(*here - *there) <= outcome.tolerance;
  finding.detail = absl::StrFormat("%.4f, undisturbed %.4f, expected within %g",
                                   *here, *there, outcome.tolerance);
  return finding;
}

Judgement JudgeBits(const ChaosOutcome& outcome) {
  const std::string& here = outcome.disturbed.weights_sha256;
  const std::string& there = outcome.undisturbed.weights_sha256;
  const bool same = !here.empty() && here == there;
  return {.name = "bits",
          .holds = same,
          .detail = same ? absl::StrCat("the same as undisturbed: ", here)
                         : absl::StrCat(here, ", undisturbed ", there)};
}

Json ActsJson(const ChaosOutcome& outcome) {
  Json acts = Json::array();
  for (size_t i = 0; i < outcome.acts.size(); ++i) {
    const Act& act = outcome.acts[i];
    Json json = {{"kind", NameOfKind(act.kind)},
                 {"part", NameOfPart(act.part, act.number)},
                 {"at_version", act.at_version},
                 {"after_checkpoint", act.after_checkpoint},
                 {"leases", act.leases},
                 {"fault", nullptr},
                 {"seconds", nullptr},
                 {"generation", nullptr},
                 {"version", nullptr}};
    if (act.kind == ActKind::kStorage) json["fault"] = NameOfFault(act.fault);
    if (i < outcome.done.size()) {
      const ActDone& done = outcome.done[i];
      json["seconds"] = absl::ToDoubleSeconds(done.after);
      json["generation"] = done.generation;
      json["version"] = done.version;
    }
    acts.push_back(json);
  }
  return acts;
}

Json ResultJson(const RunResult& result) {
  Json json = {{"version", result.version},
               {"seconds", result.seconds},
               {"test_accuracy", nullptr},
               {"test_loss", nullptr},
               {"weights_sha256", result.weights_sha256}};
  if (result.test_accuracy.has_value()) {
    json["test_accuracy"] = *result.test_accuracy;
  }
  if (result.test_loss.has_value()) json["test_loss"] = *result.test_loss;
  return json;
}

}  // namespace

std::vector<Judgement> Judge(const ChaosOutcome& outcome) {
  std::vector<Judgement> findings;
  findings.push_back(
      {.name = "end",
       .holds = outcome.failure.empty(),
       .detail =
           outcome.failure.empty()
               ? absl::StrFormat(
                     "%d updates in %.1f s, undisturbed %d in %.1f s",
                     outcome.disturbed.version, outcome.disturbed.seconds,
                     outcome.undisturbed.version, outcome.undisturbed.seconds)
               : outcome.failure});
  findings.push_back(JudgeActs(outcome));
  findings.push_back(JudgeLedger(outcome.ledger));
  findings.push_back(JudgeRollback(outcome));
  if (!outcome.failure.empty()) return findings;
  findings.push_back(JudgeQuality(outcome));
  const bool same_batches = outcome.disturbed.counters.batches_left_out ==
                            outcome.undisturbed.counters.batches_left_out;
  if (outcome.same_bits && same_batches) findings.push_back(JudgeBits(outcome));
  return findings;
}

bool AllHold(const std::vector<Judgement>& findings) {
  return std::all_of(findings.begin(), findings.end(),
                     [](const Judgement& finding) { return finding.holds; });
}

std::string DescribeChaos(const ChaosOutcome& outcome) {
  std::string text = absl::StrFormat("%-12s", "");
  for (const ActKind kind : kKinds) {
    absl::StrAppendFormat(&text, " %7s", NameOfKind(kind));
  }
  text += "\n";
  for (const auto& [part, name] : kParts) {
    absl::StrAppendFormat(&text, "%-12s", name);
    for (const ActKind kind : kKinds) {
      absl::StrAppendFormat(&text, " %7d", Count(outcome, kind, part));
    }
    text += "\n";
  }
  absl::StrAppendFormat(
      &text,
      "%d generations, %d updates lost and made again; the longest wait for an "
      "update %.1f s\n",
      outcome.ledger.generations.size(), UpdatesLost(outcome.ledger),
      absl::ToDoubleSeconds(outcome.longest_wait));
  if (outcome.unasked_ends > 0) {
    absl::StrAppend(&text, outcome.unasked_ends, " ends that no act was\n");
  }
  const std::vector<Judgement> findings = Judge(outcome);
  for (const Judgement& finding : findings) {
    absl::StrAppendFormat(&text, "%-7s %-9s %s\n",
                          finding.holds ? "holds" : "BROKEN", finding.name,
                          finding.detail);
  }
  return text;
}

std::string ChaosJson(const ChaosOutcome& outcome) {
  const std::vector<Judgement> findings = Judge(outcome);
  Json judged = Json::object();
  for (const Judgement& finding : findings) {
    judged[finding.name] = {{"holds", finding.holds},
                            {"detail", finding.detail}};
  }
  const GenerationLedger total = outcome.ledger.Total();
  const Json json = {
      {"holds", AllHold(findings)},
      {"seed", outcome.seed},
      {"policy", outcome.policy},
      {"findings", judged},
      {"acts", ActsJson(outcome)},
      {"generations", outcome.ledger.generations.size()},
      {"updates_lost", UpdatesLost(outcome.ledger)},
      {"gradients",
       {{"tasks", total.tasks},
        {"applied", total.applied},
        {"cancelled", total.cancelled},
        {"dropped", total.dropped},
        {"rejected", total.rejected},
        {"lost", total.lost}}},
      {"unasked_ends", outcome.unasked_ends},
      {"longest_wait_s", absl::ToDoubleSeconds(outcome.longest_wait)},
      {"seconds", absl::ToDoubleSeconds(outcome.took)},
      {"disturbed", ResultJson(outcome.disturbed)},
      {"undisturbed", ResultJson(outcome.undisturbed)}};
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice

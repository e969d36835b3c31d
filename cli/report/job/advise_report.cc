#include "cli/report/job/advise_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/plot/figure_scripts.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Standing = Race::Standing;
using nlohmann::ordered_json;

// How a choice did: one word for machines, and text for people.
struct Verdict {
  const char* word;
  std::string text;
};

std::string NameOf(const Advice& advice, int entrant) {
  return advice.choices[advice.entrants[entrant].choice].name;
}

Verdict DroppedVerdict(const AdviceReport& report, int e) {
  const Advice& advice = report.advice;
  const std::vector<Race::Trial>& trials = advice.race.trials(e);
  if (trials.empty()) return {"untried", "not tried"};
  const Race::Trial& first = trials[0];
  if (first.reached.has_value()) {
    return {"behind", "behind on the first seed"};
  }
  if (absl::StrContains(advice.entrants[e].failure, "diverged")) {
    return {"never", "diverged"};
  }
  const std::string error = std::isfinite(first.error)
                                ? absl::StrFormat("%.4g", first.error)
                                : std::string("none");
  if (first.over) {
    return {"never", absl::StrCat("not at its end: error ", error)};
  }
  const bool racing = advice.race.standing(e) == Standing::kRacing;
  return {
      racing ? "unfinished" : "behind",
      absl::StrFormat("%s at %.4g s: error %s",
                      racing ? "unfinished" : "dropped", first.horizon, error)};
}

Verdict VerdictOf(const AdviceReport& report, int e) {
  const Race& race = report.advice.race;
  const std::optional<int> best = report.advice.Recommended();
  const std::vector<Race::Trial>& trials = race.trials(e);
  if (race.standing(e) == Standing::kSlower) return {"slower", "slower"};
  if (race.standing(e) != Standing::kRacing || trials.empty() ||
      !trials[0].reached.has_value()) {
    return DroppedVerdict(report, e);
  }
  for (size_t s = 0; s < trials.size(); ++s) {
    if (trials[s].reached.has_value()) continue;
    return {"missed", absl::StrCat("missed the target on seed ", s + 1)};
  }
  if (e == best) return {"first", "first"};
  if (best.has_value() && race.Slower(e, *best)) return {"slower", "slower"};
  return {"tie", "tie"};
}

// Choices that are no slower than the recommended one.
std::vector<std::string> TiesOf(const AdviceReport& report) {
  std::vector<std::string> ties;
  for (const int e : report.advice.BestOfEachChoice()) {
    if (VerdictOf(report, e).word == std::string("tie")) {
      ties.push_back(NameOf(report.advice, e));
    }
  }
  return ties;
}

std::string TargetText(const SimulationTarget& target) {
  return target.accuracy.has_value()
             ? absl::StrFormat("test accuracy %g", *target.accuracy)
             : absl::StrFormat("test loss %g", *target.loss);
}

ordered_json NumberOrNull(const std::optional<double>& number) {
  return number.has_value() && std::isfinite(*number) ? ordered_json(*number)
                                                      : ordered_json(nullptr);
}

ordered_json EntrantJson(const AdviceReport& report, int e) {
  const Advice& advice = report.advice;
  const AdviceEntrant& entrant = advice.entrants[e];
  ordered_json json = {
      {"choice", NameOf(advice, e)},
      {"sync", FormatSyncLine(advice.choices[entrant.choice].sync)},
      {"learning_rate", entrant.learning_rate},
      {"verdict", VerdictOf(report, e).word},
      {"time_to_target", NumberOrNull(advice.race.MeanTime(e))},
      {"times", ordered_json::array()},
      {"simulated_seconds", nullptr},
      {"error", nullptr}};
  for (const Race::Trial& trial : advice.race.trials(e)) {
    json["times"].push_back(NumberOrNull(trial.reached));
  }
  if (!advice.race.trials(e).empty()) {
    json["simulated_seconds"] = advice.race.trials(e)[0].horizon;
    json["error"] = NumberOrNull(advice.race.trials(e)[0].error);
  }
  if (!entrant.failure.empty()) json["failure"] = entrant.failure;
  return json;
}

void PrintJson(const ResolvedJob& job, const AdviceReport& report,
               std::ostream& out) {
  const Advice& advice = report.advice;
  ordered_json json = {
      {"name", job.job.name()},
      {"workers", job.job.cluster().workers()},
      {"target_accuracy", NumberOrNull(report.target.accuracy)},
      {"target_loss", NumberOrNull(report.target.loss)},
      {"seeds", report.seeds},
      {"recommended", nullptr}};
  if (const std::optional<int> best = advice.Recommended(); best.has_value()) {
    const Choice& choice = advice.choices[advice.entrants[*best].choice];
    json["recommended"] = {
        {"choice", choice.name},
        {"sync_block", FormatSyncBlock(choice.sync)},
        {"learning_rate", advice.entrants[*best].learning_rate},
        {"time_to_target", *advice.race.MeanTime(*best)},
        {"ties", TiesOf(report)}};
  }
  json["choices"] = ordered_json::array();
  for (const int e : advice.BestOfEachChoice()) {
    json["choices"].push_back(EntrantJson(report, e));
  }
  json["other_rates"] = ordered_json::array();
  const std::vector<int> best = advice.BestOfEachChoice();
  for (const int e : advice.race.Ranking()) {
    if (std::find(best.begin(), best.end(), e) == best.end()) {
      json["other_rates"].push_back(EntrantJson(report, e));
    }
  }
  json["refused"] = ordered_json::array();
  for (const auto& [choice, reason] : advice.refused) {
    json["refused"].push_back({{"choice", choice.name}, {"reason", reason}});
  }
  json["untried"] = advice.race.Untried();
  json["gradients_computed"] = advice.computed;
  json["tasks_started"] = advice.started;
  json["wall_seconds"] = absl::ToDoubleSeconds(report.wall);
  json["budget_seconds"] = absl::ToDoubleSeconds(report.budget);
  json["out"] = report.out;
  out << JsonText(json, 2) << "\n";
}

// ": 2.1 >4.2 1.9": the times by seed of a choice that reached the target on
// the first one.
std::string FormatTimes(const std::vector<Race::Trial>& trials) {
  if (trials.empty() || !trials[0].reached.has_value()) return "";
  std::string text = ":";
  for (const Race::Trial& trial : trials) {
    absl::StrAppendFormat(&text, " %s%.4g",
                          trial.reached.has_value() ? "" : ">",
                          trial.reached.value_or(trial.horizon));
  }
  return text;
}

void PrintChoices(const AdviceReport& report, std::ostream& out) {
  const Advice& advice = report.advice;
  size_t width = 6;
  for (const Choice& choice : advice.choices) {
    width = std::max(width, choice.name.size());
  }
  out << absl::StrFormat("%-*s  %-8s  %-9s  %s\n", width, "choice", "rate",
                         "time, s", "verdict and times by seed");
  for (const int e : advice.BestOfEachChoice()) {
    const std::optional<double> mean = advice.race.MeanTime(e);
    out << absl::StrFormat(
        "%-*s  %-8.4g  %-9s  %s", width, NameOf(advice, e),
        advice.entrants[e].learning_rate,
        mean.has_value() ? absl::StrFormat("%.4g", *mean) : "-",
        VerdictOf(report, e).text);
    out << FormatTimes(advice.race.trials(e)) << "\n";
  }
  for (const auto& [choice, reason] : advice.refused) {
    out << choice.name << ": not possible: " << reason << "\n";
  }
}

// As a shell reads it as one word.
void AppendShellWord(std::string* line, absl::string_view word) {
  const bool plain = !word.empty() && absl::c_all_of(word, [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("-_./=:,+", c);
  });
  absl::StrAppend(
      line, plain ? std::string(word)
                  : absl::StrCat(
                        "'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
}

void PrintRecommended(const ResolvedJob& job, const AdviceReport& report,
                      std::ostream& out) {
  const Advice& advice = report.advice;
  const std::optional<int> best = advice.Recommended();
  if (!best.has_value()) {
    out << "\nno advice: no choice reached the target on every seed\n";
    return;
  }
  const AdviceEntrant& entrant = advice.entrants[*best];
  const Choice& choice = advice.choices[entrant.choice];
  const std::vector<std::string> ties = TiesOf(report);
  out << "\nrecommended: " << choice.name
      << absl::StrFormat(", learning rate %g (the job's is %g)",
                         entrant.learning_rate,
                         job.job.optimizer().learning_rate())
      << "\n";
  if (!ties.empty()) {
    out << "no slower, as far as can be told: " << absl::StrJoin(ties, "; ")
        << "\n";
  }
  out << "\n"
      << FormatSyncBlock(choice.sync)
      << absl::StrFormat("# and optimizer.learning_rate: %.10g\n\n",
                         entrant.learning_rate);
  out << "./sluice train " << absl::StrJoin(report.job, " ", AppendShellWord)
      << absl::StrFormat(" --set 'sync={%s}' --set %s\n",
                         FormatSyncLine(choice.sync), entrant.overrides.back());
}

void PrintTable(const ResolvedJob& job, const AdviceReport& report,
                std::ostream& out) {
  out << absl::StrFormat("%s: %d workers, to %s in virtual time, %d seeds\n\n",
                         job.job.name(), job.job.cluster().workers(),
                         TargetText(report.target), report.seeds);
  PrintChoices(report, out);
  PrintRecommended(job, report, out);
  const Advice& advice = report.advice;
  if (const std::string untried = advice.race.Untried(); !untried.empty()) {
    out << absl::StrFormat("the budget of %g s is used up; not tried: %s\n",
                           absl::ToDoubleSeconds(report.budget), untried);
  }
  out << absl::StrFormat(
      "simulated in %.1f s: %d gradients computed for %d tasks\n",
      absl::ToDoubleSeconds(report.wall), advice.computed, advice.started);
  if (!report.out.empty()) out << "files in " << report.out << "\n";
}

}  // namespace

void PrintAdvice(const ResolvedJob& job, const AdviceReport& report, bool json,
                 std::ostream& out) {
  if (json) {
    PrintJson(job, report, out);
  } else {
    PrintTable(job, report, out);
  }
}

std::optional<Figure> AdviceFigure(const ResolvedJob& job,
                                   const AdviceReport& report) {
  constexpr int kColours = 8;  // Of style.gp; after them come its dashes.
  const Advice& advice = report.advice;
  const bool accuracy = report.target.accuracy.has_value();
  std::vector<std::string> legend;
  std::vector<double> styles;
  std::vector<double> given_up;
  std::vector<std::string> curves;
  std::map<int, int> of_policy;
  for (const int e : advice.BestOfEachChoice()) {
    const AdviceEntrant& entrant = advice.entrants[e];
    const int policy = advice.choices[entrant.choice].sync.policy();
    const int dashes = of_policy[policy]++;
    std::string rows;
    for (const SimulatedRun::Measured& measured : entrant.curve) {
      const Evaluation& found = measured.evaluation;
      const double error =
          accuracy ? 1 - found.accuracy.value_or(0) : found.loss;
      if (!std::isfinite(error)) continue;
      absl::StrAppendFormat(&rows, "%.7g %.7g\n", measured.seconds, error);
    }
    if (rows.empty()) continue;
    legend.push_back(absl::StrFormat("%s, rate %.4g", NameOf(advice, e),
                                     entrant.learning_rate));
    styles.push_back(policy + kColours * dashes);
    given_up.push_back(!advice.race.MeanTime(e).has_value());
    curves.push_back(rows);
  }
  if (curves.empty()) return std::nullopt;
  legend.push_back("target");
  FigureData data;
  data.AddText("name", "advice");
  data.AddText("title",
               absl::StrFormat("%s, %d workers: error against time",
                               job.job.name(), job.job.cluster().workers()));
  data.AddText("error_text", accuracy ? "share of the test split that is wrong"
                                      : "test loss");
  data.AddNumber("target",
                 accuracy ? 1 - *report.target.accuracy : *report.target.loss);
  data.AddTexts("legend", legend);
  data.AddNumbers("style", styles);
  data.AddNumbers("given_up", given_up);
  data.AddBlock("curves", "seconds error", curves);
  return data.Drawn("advice", kTradeOffScript);
}

}  // namespace sluice

// Cases whose answer follows from arithmetic: every mini-batch is the whole
// data set, without noise. So a gradient depends only on its weights, and the
// time to a loss is the number of gradient-descent steps times the time per
// update.
#include "sim/advice/advice.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr char kJob[] = R"(
name: "whole"
cluster { workers: 4 shards: 2 }
optimizer { learning_rate: 0.2 }
data {
  linear_regression { features: 31 train_samples: 2048 test_samples: 64 }
  batch_size: 2048
}
model { layer { dense { units: 1 initializer { kind: CONSTANT } } } }
stop { epochs: 2000 }
delays { compute { constant { ms: 10 } } }
)";

// One of the four workers takes 200 ms instead of 10.
constexpr char kOneSlowWorker[] =
    "delays={compute { constant { ms: 10 } } worker_factor: 20}";

// The job with a test loss as the target, and the overrides.
AdviceQuestion Question(const std::vector<std::string>& overrides = {}) {
  AdviceQuestion question;
  question.job = [overrides](const std::vector<std::string>& more) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    return ParseJob(kJob, "test", all);
  };
  question.target.loss = 1e-3;
  question.evaluate_every = 0.5;  // After each update.
  question.seeds = 3;
  return question;
}

Advice Advised(const AdviceQuestion& question) {
  auto advice = Advise(question);
  EXPECT_TRUE(advice.ok()) << advice.status();
  return advice.ok() ? *std::move(advice) : Advice();
}

std::string NameOf(const Advice& advice, int entrant) {
  return advice.choices[advice.entrants[entrant].choice].name;
}

TEST(AdviceTest, WithOneVerySlowWorkerSyncLosesToKSync) {
  AdviceQuestion question = Question({kOneSlowWorker});
  question.range = {.policies = {proto::SYNC, proto::K_SYNC}, .ks = {3}};
  // With one rate, both policies reach the target.
  question.rate_factors = {2};
  const Advice advice = Advised(question);
  ASSERT_TRUE(advice.Recommended().has_value());
  EXPECT_EQ(NameOf(advice, *advice.Recommended()), "K_SYNC, K 3");
  const std::vector<int> best = advice.BestOfEachChoice();
  ASSERT_EQ(best.size(), 2);
  EXPECT_EQ(NameOf(advice, best[1]), "SYNC (the job's)");
  // SYNC takes 200 ms per update instead of 10, and needs as many updates.
  EXPECT_NE(advice.race.standing(best[1]), Race::Standing::kRacing);
  const double k_sync = *advice.race.trials(best[0])[0].reached;
  question.range = {.policies = {proto::SYNC}, .ks = {}};
  const Advice alone = Advised(question);
  EXPECT_NEAR(*alone.race.trials(0)[0].reached, 20 * k_sync, 1e-9);
}

TEST(AdviceTest, WithEqualWorkersNoChoiceBeatsSyncByMoreThanATie) {
  // A round of four gradients at w moves ASYNC by four rates, and the other
  // policies by less. At twice the job's rate SYNC makes steps of 0.8 of the
  // optimal one. At half the rate ASYNC's rounds are as long as at 0.2 x 4 x
  // 0.5 = 0.4.
  const Advice advice = Advised(Question({"optimizer.learning_rate=0.4"}));
  const std::vector<int> best = advice.BestOfEachChoice();
  int sync = -1;
  for (const int e : best) {
    if (NameOf(advice, e) == "SYNC (the job's)") sync = e;
  }
  ASSERT_GE(sync, 0);
  EXPECT_EQ(advice.race.standing(sync), Race::Standing::kRacing);
  EXPECT_FALSE(advice.race.Slower(sync, best[0]));
  // Policies that make the same descent take the same time.
  std::map<std::string, double> times;
  for (const int e : best) {
    if (const auto mean = advice.race.MeanTime(e); mean.has_value()) {
      times[NameOf(advice, e)] = *mean;
    }
  }
  for (const char* same : {"K_SYNC, K 2", "K_SYNC, K 3", "K_BATCH_SYNC, K 2",
                           "K_BATCH_SYNC, K 4"}) {
    EXPECT_EQ(times[same], times["SYNC (the job's)"]) << same;
  }
}

// How long the first heat lasts, in virtual seconds.
double FirstHorizon(AdviceQuestion question) {
  double horizon = 0;
  question.begins = [&](const Race::Heat& heat) { horizon = heat.horizon; };
  question.enough = [] { return true; };
  Advised(question);
  return horizon;
}

TEST(AdviceTest, TheFirstHeatLastsForSeveralTasksWhateverATaskTakes) {
  EXPECT_NEAR(FirstHorizon(Question()), 8 * 0.01, 1e-9);
  EXPECT_NEAR(FirstHorizon(Question({"sync.local_steps=32"})), 8 * 0.32, 1e-9);
  // Six messages, as there are two shards.
  EXPECT_NEAR(FirstHorizon(Question({"delays.latency.constant.ms=100"})),
              8 * 0.61, 1e-9);
  // 128 bytes of weights and as many of a gradient, of which half are on each
  // shard, whose link four workers share.
  EXPECT_NEAR(FirstHorizon(Question({"delays.worker_bandwidth=128"})),
              8 * (0.01 + 2), 1e-9);
  EXPECT_NEAR(FirstHorizon(Question({"delays.shard_bandwidth=64"})),
              8 * (0.01 + 8), 1e-9);
  EXPECT_NEAR(FirstHorizon(Question({"sync.warm_start_updates=100"})),
              108 * 0.01, 1e-9);
}

TEST(AdviceTest, TheFirstHeatLastsForTwoEvaluationsIfNobodyWaits) {
  AdviceQuestion question = Question();
  // An epoch is a quarter of a round of the four workers.
  question.evaluate_every = 100;
  EXPECT_NEAR(FirstHorizon(question), 2 * 25 * 0.01, 1e-9);
}

TEST(AdviceTest, TheLastInTheListIsNotDroppedBeforeItsFirstEvaluation) {
  AdviceQuestion question = Question(
      {kOneSlowWorker, "stop.epochs=10000",
       "data.linear_regression.train_samples=256", "data.batch_size=256"});
  question.range.policies = {proto::SYNC, proto::ASYNC};
  question.rate_factors = {0.1};
  question.finalists = 1;
  // ASYNC takes 3.3 s for so many epochs, SYNC 50 s: eight tasks of each worker
  // are long over.
  question.evaluate_every = 1000;
  const Advice advice = Advised(question);
  ASSERT_TRUE(advice.Recommended().has_value());
  EXPECT_EQ(NameOf(advice, *advice.Recommended()), "ASYNC");
}

TEST(AdviceTest, TheRateIsPartOfTheAdvice) {
  AdviceQuestion question = Question();
  question.range.policies = {proto::SYNC};
  const Advice advice = Advised(question);
  ASSERT_TRUE(advice.Recommended().has_value());
  // Steps of 0.4 of the way instead of 0.1 or 0.2.
  EXPECT_DOUBLE_EQ(advice.entrants[*advice.Recommended()].learning_rate, 0.4);
}

TEST(AdviceTest, ARateThatIsSaidTwiceRunsOnce) {
  AdviceQuestion question = Question();
  question.range.policies = {proto::SYNC};
  question.rate_factors = {1, 2, 1};
  EXPECT_EQ(Advised(question).entrants.size(), 2);
}

TEST(AdviceTest, AChoiceThatDivergesIsNotRecommended) {
  AdviceQuestion question = Question({"optimizer.learning_rate=1"});
  question.rate_factors = {0.5, 4};
  question.range.policies = {proto::SYNC};
  const Advice advice = Advised(question);
  ASSERT_TRUE(advice.Recommended().has_value());
  EXPECT_DOUBLE_EQ(advice.entrants[*advice.Recommended()].learning_rate, 0.5);
  EXPECT_NE(advice.race.standing(1), Race::Standing::kRacing);
}

TEST(AdviceTest, ComputesNoGradientOfATaskThatIsCancelled) {
  AdviceQuestion question = Question({kOneSlowWorker});
  question.range = {.policies = {proto::K_SYNC}, .ks = {3}};
  const Advice advice = Advised(question);
  // One of four tasks is cancelled each time before it delivers, and each run
  // ends just after four tasks have been started.
  EXPECT_LT(advice.computed, 0.75 * advice.started);
  EXPECT_GT(advice.computed, 0.7 * advice.started);
}

// A question whose answer does not follow from arithmetic.
AdviceQuestion RandomQuestion() {
  AdviceQuestion question =
      Question({"delays.compute.exponential.mean_ms=10",
                "data.linear_regression.noise=0.1", "data.batch_size=32",
                "optimizer.learning_rate=0.05"});
  question.target.loss = 0.02;
  return question;
}

TEST(AdviceTest, EverySeedIsARunOfItsOwn) {
  const Advice advice = Advised(RandomQuestion());
  ASSERT_TRUE(advice.Recommended().has_value());
  std::set<double> times;
  for (const Race::Trial& trial : advice.race.trials(*advice.Recommended())) {
    times.insert(trial.reached.value_or(0));
  }
  EXPECT_EQ(times.size(), 3);
}

TEST(AdviceTest, WhatARunFindsAfterItsTimeDoesNotCount) {
  const Advice advice = Advised(RandomQuestion());
  int cut_short = 0;
  for (size_t e = 0; e < advice.entrants.size(); ++e) {
    const Race::Trial& first = advice.race.trials(e)[0];
    cut_short += !first.over;
    for (const auto& measured : advice.entrants[e].curve) {
      EXPECT_LE(measured.seconds, first.horizon) << NameOf(advice, e);
    }
  }
  EXPECT_GT(cut_short, 0);
}

TEST(AdviceTest, IsTheSameHoweverTheRunsAreSpreadOverThreads) {
  AdviceQuestion question = RandomQuestion();
  const Advice one = Advised(question);
  // Each run in its own thread, the last one started first.
  question.run_all = [](int n, const std::function<void(int)>& run) {
    std::vector<std::thread> threads;
    for (int i = n - 1; i >= 0; --i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
  };
  const Advice spread = Advised(question);
  EXPECT_EQ(one.race.Ranking(), spread.race.Ranking());
  EXPECT_EQ(one.computed, spread.computed);
  for (size_t e = 0; e < one.entrants.size(); ++e) {
    const auto &a = one.race.trials(e), &b = spread.race.trials(e);
    ASSERT_EQ(a.size(), b.size());
    for (size_t s = 0; s < a.size(); ++s) {
      EXPECT_EQ(a[s].reached, b[s].reached);
      EXPECT_EQ(a[s].error, b[s].error);
    }
  }
}

TEST(AdviceTest, WhenThereIsEnoughSaysWhatWasNotTried) {
  AdviceQuestion question = Question();
  question.enough = [] { return true; };
  const Advice advice = Advised(question);
  EXPECT_FALSE(advice.Recommended().has_value());
  EXPECT_THAT(advice.race.Untried(), HasSubstr("the first seed"));
}

TEST(AdviceTest, HalfAHeatCountsForNobody) {
  AdviceQuestion question = Question();
  int asked = 0;
  question.enough = [&asked] { return ++asked > 20; };
  const Advice advice = Advised(question);
  EXPECT_GT(advice.computed, 0);
  for (size_t e = 0; e < advice.entrants.size(); ++e) {
    EXPECT_TRUE(advice.race.trials(e).empty()) << NameOf(advice, e);
  }
}

TEST(AdviceTest, RefusesWhatCannotBeAsked) {
  const auto refusal = [](const AdviceQuestion& question) {
    const auto advice = Advise(question);
    EXPECT_TRUE(absl::IsInvalidArgument(advice.status())) << advice.status();
    return std::string(advice.status().message());
  };
  AdviceQuestion question = Question({"delays.compute.constant.ms=0"});
  question.begins = [](const Race::Heat&) { ADD_FAILURE() << "It began."; };
  EXPECT_THAT(refusal(question), HasSubstr("delays.compute"));
  question = Question();
  question.target = {.accuracy = 0.5, .loss = {}};
  EXPECT_THAT(refusal(question), HasSubstr("labels"));
  question = Question();
  question.range = {.policies = {proto::K_SYNC}, .ks = {9}};
  EXPECT_THAT(refusal(question), HasSubstr("K_SYNC is tried with 1 to 3"));
  question = Question({"cluster.workers=1"});
  question.range = {.policies = {proto::K_SYNC}, .ks = {}};
  EXPECT_THAT(refusal(question), HasSubstr("no policy and K"));
}

}  // namespace
}  // namespace sluice

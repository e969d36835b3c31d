#include "sim/advice/race.h"

#include <cmath>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

using Standing = Race::Standing;

// When an entrant reaches the target on a seed, in seconds.
using Times = std::function<double(int entrant, int seed)>;

constexpr double kNever = HUGE_VAL;

// A run whose error is 1 at the target and falls with 1 / time.
Race::Trial TrialOf(double time, const Race::Heat& heat) {
  Race::Trial trial;
  trial.horizon = heat.horizon;
  trial.error = time / heat.horizon;
  if (time <= heat.horizon) trial.reached = time;
  trial.resolution = 0.015;
  return trial;
}

struct Ran {
  Race race;
  std::vector<Race::Heat> heats;
};

// Runs the whole race, or its first `most_heats` heats.
Ran RunRace(const Race::Options& options, const Times& times,
            int most_heats = 1000) {
  Ran ran{Race(options), {}};
  while (ran.race.heat() != nullptr &&
         static_cast<int>(ran.heats.size()) < most_heats) {
    const Race::Heat heat = *ran.race.heat();
    ran.heats.push_back(heat);
    std::vector<Race::Trial> trials;
    for (const int e : heat.entrants) {
      trials.push_back(TrialOf(times(e, heat.seed), heat));
    }
    ran.race.Finish(trials);
  }
  return ran;
}

// ---- The first seed ----

TEST(RaceTest, TheBetterHalfGoesOnToTwiceTheHorizon) {
  const Ran ran =
      RunRace({.entrants = 8, .seeds = 1, .first_horizon = 1, .finalists = 2},
              [](int e, int) { return 7.9 - 0.1 * e; });  // From 7.9 to 7.2.
  ASSERT_GE(ran.heats.size(), 3);
  EXPECT_THAT(ran.heats[0].entrants, testing::SizeIs(8));
  EXPECT_EQ(ran.heats[1].horizon, 2);
  EXPECT_THAT(ran.heats[1].entrants, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(ran.heats[2].horizon, 4);
  EXPECT_THAT(ran.heats[2].entrants, ElementsAre(6, 7));
  EXPECT_EQ(ran.race.Ranking().front(), 7);
  EXPECT_EQ(ran.race.standing(0), Standing::kBehind);
  EXPECT_EQ(ran.race.trials(0)[0].horizon, 1);
}

TEST(RaceTest, FinalistsStayHoweverFewOthersThereAre) {
  const Ran ran =
      RunRace({.entrants = 8, .seeds = 1, .first_horizon = 1, .finalists = 6},
              [](int e, int) { return 16.0 + e; });
  EXPECT_THAT(ran.heats[1].entrants, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ran.heats[2].entrants, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(RaceTest, WhoIsAsGoodAsTheLastThatStaysStays) {
  const Ran ran =
      RunRace({.entrants = 8, .seeds = 1, .first_horizon = 1, .finalists = 2},
              [](int e, int) { return e < 7 ? 3.0 : 5.0; });
  EXPECT_THAT(ran.heats[1].entrants, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// Entrant e has its first evaluation at e + 1 seconds, and reaches the target
// at 20 - e.
Race::Trial LateTrial(int e, const Race::Heat& heat) {
  Race::Trial trial = TrialOf(20 - e, heat);
  if (heat.horizon < e + 1) trial.error = HUGE_VAL;
  return trial;
}

TEST(RaceTest, NobodyIsDroppedWhileTooFewHaveAnEvaluation) {
  Race race({.entrants = 8, .seeds = 1, .first_horizon = 1, .finalists = 2});
  std::vector<Race::Heat> heats;
  while (race.heat() != nullptr) {
    const Race::Heat heat = *race.heat();
    heats.push_back(heat);
    std::vector<Race::Trial> trials;
    for (const int e : heat.entrants) trials.push_back(LateTrial(e, heat));
    race.Finish(trials);
  }
  ASSERT_GE(heats.size(), 4);
  // At 1 s one entrant has an evaluation, at 2 s two, and at 4 s the four that
  // would stay of eight. These stay: the others are late.
  EXPECT_THAT(heats[1].entrants, testing::SizeIs(8));
  EXPECT_THAT(heats[2].entrants, testing::SizeIs(8));
  EXPECT_EQ(heats[2].horizon, 4);
  EXPECT_THAT(heats[3].entrants, ElementsAre(0, 1, 2, 3));
}

TEST(RaceTest, WhatHasEndedWithoutAnEvaluationGoesBeforeWhatHasNoneYet) {
  Race race({.entrants = 6, .seeds = 1, .first_horizon = 1, .finalists = 2});
  std::vector<Race::Trial> trials(6);
  for (Race::Trial& trial : trials) {
    trial.horizon = 1;
    trial.error = HUGE_VAL;
  }
  for (const int failed : {0, 2, 3}) trials[failed].over = true;
  trials[4].error = 2;
  race.Finish(trials);
  EXPECT_THAT(race.heat()->entrants, ElementsAre(1, 4, 5));
  for (const int failed : {0, 2, 3}) {
    EXPECT_EQ(race.standing(failed), Standing::kBehind) << failed;
  }
}

TEST(RaceTest, TheHorizonEndsAtTwiceTheTimeOfTheFirst) {
  const Ran ran = RunRace({.entrants = 3, .seeds = 1, .first_horizon = 1},
                          [](int e, int) { return e == 0 ? 1.5 : 10 * e; });
  for (const Race::Heat& heat : ran.heats) EXPECT_LE(heat.horizon, 3);
  EXPECT_EQ(ran.heats.back().horizon, 3);
  // An entrant that has reached the target is not run again.
  EXPECT_THAT(ran.heats.back().entrants, ElementsAre(1, 2));
  EXPECT_EQ(ran.race.standing(0), Standing::kRacing);
  EXPECT_EQ(ran.race.standing(1), Standing::kBehind);
  EXPECT_EQ(ran.race.heat(), nullptr);
}

TEST(RaceTest, WhatHasEndedIsNotRunLongerAndNeverReaches) {
  Race race({.entrants = 2, .seeds = 2, .first_horizon = 1});
  Race::Trial over;
  over.error = 0.5;
  over.over = true;
  race.Finish({over, TrialOf(3, *race.heat())});
  EXPECT_THAT(race.heat()->entrants, ElementsAre(1));
  race.Finish({TrialOf(3, *race.heat())});
  EXPECT_EQ(race.heat()->horizon, 4);
  race.Finish({TrialOf(3, *race.heat())});
  EXPECT_EQ(race.standing(0), Standing::kNeverReaches);
  EXPECT_EQ(race.heat(), nullptr);  // A single entrant needs no further seed.
  EXPECT_DOUBLE_EQ(*race.MeanTime(1), 3);
  EXPECT_EQ(race.MeanTime(0), std::nullopt);
}

// ---- Further seeds ----

// Times vary by 10% between seeds; entrant e is e percent slower on each.
double Noisy(int e, int seed) {
  return (1 + 0.1 * std::sin(7 * seed)) * (1 + 0.01 * e);
}

TEST(RaceTest, CommonSeedsTellSmallDifferencesApart) {
  // Differences of 1% are found although seeds differ by 10%, because times are
  // compared seed by seed. The time between evaluations, 0.015, hides a
  // difference of 1% but not one of 2%.
  const Ran ran =
      RunRace({.entrants = 4, .seeds = 5, .first_horizon = 4}, Noisy);
  EXPECT_EQ(ran.race.Ranking().front(), 0);
  EXPECT_FALSE(ran.race.Slower(1, 0));
  EXPECT_TRUE(ran.race.Slower(2, 0));
  EXPECT_TRUE(ran.race.Slower(3, 0));
  EXPECT_FALSE(ran.race.Slower(0, 3));
}

TEST(RaceTest, WhatChangesSidesFromSeedToSeedIsATie) {
  const Ran ran = RunRace({.entrants = 2, .seeds = 5, .first_horizon = 4},
                          [](int e, int seed) {
                            return e == 0 ? 1.0 : seed % 2 == 0 ? 1.5 : 0.8;
                          });
  EXPECT_FALSE(ran.race.Slower(0, 1));
  EXPECT_FALSE(ran.race.Slower(1, 0));
  EXPECT_EQ(ran.race.standing(1), Standing::kRacing);
}

TEST(RaceTest, TheSlowerAreDroppedFromTheThirdSeedOn) {
  const Ran ran = RunRace(
      {.entrants = 3, .seeds = 5, .first_horizon = 4}, [](int e, int seed) {
        return e == 2 ? 1.5 * Noisy(0, seed) : Noisy(e, seed);
      });
  std::vector<size_t> entrants;
  for (const Race::Heat& heat : ran.heats) {
    entrants.push_back(heat.entrants.size());
  }
  EXPECT_THAT(entrants, ElementsAre(3, 3, 3, 2, 2));
  EXPECT_EQ(ran.race.standing(2), Standing::kSlower);
  EXPECT_EQ(ran.race.trials(2).size(), 3);
  EXPECT_EQ(ran.race.Ranking(), (std::vector<int>{0, 1, 2}));
}

TEST(RaceTest, OneSeedTellsNothingApart) {
  const Ran ran = RunRace({.entrants = 2, .seeds = 1, .first_horizon = 4},
                          [](int e, int) { return 1.0 + e; });
  EXPECT_FALSE(ran.race.Slower(1, 0));
  EXPECT_EQ(ran.race.Ranking().front(), 0);
}

TEST(RaceTest, AFurtherSeedGoesOnUntilSomebodyIsThere) {
  const Ran ran =
      RunRace({.entrants = 2, .seeds = 2, .first_horizon = 4},
              [](int e, int seed) { return seed == 0 ? 1 + 0.1 * e : 7 + e; });
  EXPECT_EQ(ran.race.trials(0)[1].reached, 7);
  EXPECT_EQ(ran.race.trials(1)[1].reached, 8);
}

TEST(RaceTest, WhoMissesASeedHasNoMeanTimeAndDoesNotComeFirst) {
  const Ran ran = RunRace({.entrants = 2, .seeds = 5, .first_horizon = 4},
                          [](int e, int seed) {
                            if (e == 0) return seed == 3 ? kNever : 0.9;
                            return seed == 2 ? 1.7 : 1;
                          });
  EXPECT_EQ(ran.race.MeanTime(0), std::nullopt);
  EXPECT_EQ(ran.race.Ranking().front(), 1);
}

// ---- After the last seed ----

// 1 s, but that each is late on a seed of its own: 0 at 9 s and 1 at 3 s.
double LateOnce(int e, int seed) {
  if (seed == 3 + e) return e == 0 ? 9 : 3;
  return 1;
}

TEST(RaceTest, WhereAllMissedASeedTheyRunOnUntilOneHasReachedAll) {
  const Ran ran =
      RunRace({.entrants = 2, .seeds = 5, .first_horizon = 4}, LateOnce);
  ASSERT_EQ(ran.heats.size(), 7);
  EXPECT_EQ(ran.heats[5].seed, 3);
  EXPECT_EQ(ran.heats[5].horizon, 4);
  EXPECT_THAT(ran.heats[5].entrants, ElementsAre(0));
  EXPECT_EQ(ran.heats[6].seed, 4);
  EXPECT_THAT(ran.heats[6].entrants, ElementsAre(1));
  EXPECT_EQ(ran.race.Ranking().front(), 1);
  EXPECT_DOUBLE_EQ(*ran.race.MeanTime(1), std::pow(3, 0.2));
  EXPECT_EQ(ran.race.MeanTime(0), std::nullopt);
  EXPECT_EQ(ran.race.trials(0).size(), 5);
}

TEST(RaceTest, WhatHasEndedDoesNotRunOn) {
  Race race({.entrants = 1, .seeds = 5, .first_horizon = 1});
  race.Finish({TrialOf(0.5, *race.heat())});
  EXPECT_EQ(race.heat(), nullptr);

  Race both({.entrants = 2, .seeds = 2, .first_horizon = 1});
  both.Finish({TrialOf(0.5, *both.heat()), TrialOf(0.5, *both.heat())});
  Race::Trial over;
  over.horizon = both.heat()->horizon;
  over.error = 2;
  over.over = true;
  both.Finish({over, over});
  EXPECT_EQ(both.heat(), nullptr);
  EXPECT_EQ(both.MeanTime(0), std::nullopt);
}

// ---- What was not run ----

TEST(RaceTest, SaysWhatWasNotRun) {
  const Race::Options options = {.entrants = 4, .seeds = 5, .first_horizon = 4};
  EXPECT_EQ(RunRace(options, Noisy).race.Untried(), "");
  EXPECT_THAT(RunRace(options, Noisy, 0).race.Untried(),
              HasSubstr("the first seed"));
  EXPECT_EQ(RunRace(options, Noisy, 2).race.Untried(),
            "seeds 3 to 5 for 4 choices at a rate");
  EXPECT_EQ(
      RunRace({.entrants = 2, .seeds = 5, .first_horizon = 4}, LateOnce, 5)
          .race.Untried(),
      "seed 4 beyond 2 s for 1 choice at a rate");
}

TEST(RaceTest, HorizonsArePositiveAndGrowWithinASeed) {
  const Ran ran = RunRace({.entrants = 20, .seeds = 3, .first_horizon = 0.1},
                          [](int e, int) { return 1 + 0.3 * e; });
  for (size_t h = 1; h < ran.heats.size(); ++h) {
    if (ran.heats[h].seed != ran.heats[h - 1].seed) continue;
    EXPECT_GT(ran.heats[h].horizon, ran.heats[h - 1].horizon);
  }
  EXPECT_THAT(ran.race.Ranking(), Each(AllOf(Ge(0), Le(19))));
}

}  // namespace
}  // namespace sluice

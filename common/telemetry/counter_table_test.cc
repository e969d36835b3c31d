#include "common/telemetry/counter_table.h"

#include "common/telemetry/counter_json.h"
#include "common/telemetry/shared_counters.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Fruit {
  int64_t apples = 0;
  int64_t pears = 0;
};
constexpr CounterRow<Fruit> kFruit[] = {
    {"fruit.apples", "apples eaten", &Fruit::apples},
    {"pears", "pears eaten", &Fruit::pears},
};
static_assert(IsWhole(kFruit));

constexpr CounterRow<Fruit> kWithoutPears[] = {
    {"apples", "", &Fruit::apples},
};
static_assert(!IsWhole(kWithoutPears));

constexpr CounterRow<Fruit> kApplesTwice[] = {
    {"apples", "", &Fruit::apples},
    {"pears", "", &Fruit::apples},
};
static_assert(!IsWhole(kApplesTwice));

constexpr CounterRow<Fruit> kOneNameTwice[] = {
    {"apples", "", &Fruit::apples},
    {"apples", "", &Fruit::pears},
};
static_assert(!IsWhole(kOneNameTwice));

TEST(CounterTableTest, CountersComeBackFromTheirNames) {
  CounterMap map;
  PutCounters(kFruit, {3, 4}, &map);
  EXPECT_EQ(map, (CounterMap{{"fruit.apples", 3}, {"pears", 4}}));
  const Fruit fruit = CountersFrom(kFruit, map);
  EXPECT_EQ(fruit.apples, 3);
  EXPECT_EQ(fruit.pears, 4);
}

TEST(CounterTableTest, OneThatIsMissingIsZeroAndAnUnknownOneIsPassedOver) {
  const Fruit fruit =
      CountersFrom(kFruit, CounterMap{{"pears", 4}, {"plums", 5}});
  EXPECT_EQ(fruit.apples, 0);
  EXPECT_EQ(fruit.pears, 4);
}

TEST(CounterTableTest, ALogLineNamesThemInTheOrderOfTheTable) {
  EXPECT_EQ(CountersText(kFruit, {3, 4}), "fruit.apples=3 pears=4");
}

TEST(CounterTableTest, ADotMakesAnObjectInJsonAndKeepsWhatIsInIt) {
  nlohmann::ordered_json json = {{"fruit", {{"kind", "ripe"}}}};
  PutCountersInJson(kFruit, {3, 4}, &json);
  EXPECT_EQ(json.dump(), R"({"fruit":{"kind":"ripe","apples":3},"pears":4})");
  const Fruit back = CountersFromJson(kFruit, json);
  EXPECT_EQ(back.apples, 3);
  EXPECT_EQ(back.pears, 4);
  nlohmann::ordered_json empty = {{"fruit", nullptr}};
  PutCountersInJson(kFruit, {3, 4}, &empty);
  EXPECT_EQ(empty.dump(), R"({"fruit":{"apples":3},"pears":4})");
}

TEST(CounterTableTest, WhatIsNoNumberInJsonIsZero) {
  for (const char* text :
       {"{}", R"({"fruit": null, "pears": "many"})",
        R"({"fruit": 7, "pears": {}})", R"({"fruit": []})", "7", "null"}) {
    const Fruit fruit = CountersFromJson(kFruit, nlohmann::json::parse(text));
    EXPECT_EQ(fruit.apples, 0) << text;
    EXPECT_EQ(fruit.pears, 0) << text;
  }
}

TEST(SharedCountersTest, WhatWasAddedOrSetIsRead) {
  SharedCounters<Fruit> shared;
  shared.Add(&Fruit::apples);
  shared.Add(&Fruit::apples, 2);
  shared.Set(&Fruit::pears, 7);
  EXPECT_EQ(shared.Get().apples, 3);
  EXPECT_EQ(shared.Get().pears, 7);
}

}  // namespace
}  // namespace sluice

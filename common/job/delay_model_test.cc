#include "common/job/delay_model.h"

#include <google/protobuf/text_format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/testing/faulty_reads.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int kDraws = 20000;

DelayModel Model(const std::string& text, int workers = 4) {
  proto::Delay delay;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &delay));
  auto model = DelayModel::Create(delay, kSeed, "test", workers);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

std::vector<double> Sorted(const DelayModel& model, int64_t worker = 0) {
  std::vector<double> draws;
  for (int i = 0; i < kDraws; ++i) draws.push_back(model.Draw(worker, i));
  std::sort(draws.begin(), draws.end());
  return draws;
}

struct Case {
  const char* name;
  const char* delay;
  // The distribution function at t seconds.
  double (*at)(double t);
  double mean;
};
class DistributionTest : public ::testing::TestWithParam<Case> {};

// Kolmogorov's bound: with n draws the largest distance exceeds 1.95/sqrt(n)
// with probability 0.001. The seed is fixed, so the outcome is too.
TEST_P(DistributionTest, DrawsFollowIt) {
  const std::vector<double> draws = Sorted(Model(GetParam().delay));
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double p = GetParam().at(draws[i]);
    distance = std::max({distance, std::abs(p - 1.0 * i / kDraws),
                         std::abs(p - (i + 1.0) / kDraws)});
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(kDraws));
  EXPECT_DOUBLE_EQ(Model(GetParam().delay).Mean(), GetParam().mean);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DistributionTest,
    ::testing::Values(
        Case{"Exponential", "exponential { mean_ms: 50 }",
             [](double t) { return 1 - std::exp(-t / 0.05); }, 0.05},
        Case{"ShiftedExponential",
             "shifted_exponential { shift_ms: 250 mean_ms: 500 }",
             [](double t) { return 1 - std::exp(-(t - 0.25) / 0.5); }, 0.75},
        Case{"Pareto", "pareto { minimum_ms: 125 shape: 2 }",
             [](double t) { return 1 - std::pow(0.125 / t, 2); }, 0.25},
        Case{"LogNormal", "log_normal { median_ms: 1000 sigma: 0.5 }",
             [](double t) {
               return std::erfc(-std::log(t) / 0.5 / std::sqrt(2)) / 2;
             },
             std::exp(0.125)}),
    [](const auto& info) { return info.param.name; });

TEST(DelayModelTest, AConstantIsAlwaysTheSame) {
  const DelayModel model = Model("constant { ms: 20 }");
  EXPECT_DOUBLE_EQ(model.Draw(0, 0), 0.02);
  EXPECT_DOUBLE_EQ(model.Draw(3, 99), 0.02);
}

TEST(DelayModelTest, TheFirstShareOfTheWorkersIsSlow) {
  const DelayModel model =
      Model("two_speed { ms: 10 slow_share: 0.5 slow_factor: 4 }", 4);
  EXPECT_DOUBLE_EQ(model.Draw(0, 0), 0.04);
  EXPECT_DOUBLE_EQ(model.Draw(1, 0), 0.04);
  EXPECT_DOUBLE_EQ(model.Draw(2, 0), 0.01);
  EXPECT_DOUBLE_EQ(model.Mean(), 0.025);
}

TEST(DelayModelTest, TheSameKeyGivesTheSameDrawAndAnotherAnother) {
  const DelayModel one = Model("exponential { mean_ms: 50 }");
  const DelayModel same = Model("exponential { mean_ms: 50 }");
  EXPECT_EQ(one.Draw(2, 17), same.Draw(2, 17));
  EXPECT_NE(one.Draw(2, 17), one.Draw(2, 18));
  EXPECT_NE(one.Draw(2, 17), one.Draw(3, 17));
  EXPECT_EQ(DelayModel().Draw(2, 17), 0);
  EXPECT_TRUE(DelayModel().always_zero());
}

TEST(DelayModelTest, ATraceGivesItsLinesAndRefusesWhatIsNoDuration) {
  const std::string path = ::testing::TempDir() + "/trace.txt";
  std::ofstream(path) << "10\n20.5\n30\n";
  const DelayModel model = Model("trace { path: \"" + path + "\" }");
  const std::vector<double> draws = Sorted(model);
  EXPECT_DOUBLE_EQ(draws.front(), 0.01);
  EXPECT_DOUBLE_EQ(draws[kDraws / 2], 0.0205);
  EXPECT_DOUBLE_EQ(draws.back(), 0.03);

  std::ofstream(path) << "10\nfast\n";
  proto::Delay delay;
  delay.mutable_trace()->set_path(path);
  const auto refused = DelayModel::Create(delay, kSeed, "test", 1);
  EXPECT_EQ(
      refused.status().message(),
      path +
          ":2: expected a duration in milliseconds, 0 to 1e9, and perhaps "
          "a worker's number, found \"fast\"");
  for (const std::string line : {"", "-1", "nan", "10 -1", "10 x", "10 1 1"}) {
    std::ofstream(path) << "10\n" << line << "\n";
    EXPECT_FALSE(DelayModel::Create(delay, kSeed, "test", 1).ok()) << line;
  }
  delay.mutable_trace()->set_path(path + ".missing");
  EXPECT_EQ(DelayModel::Create(delay, kSeed, "test", 1).status().code(),
            absl::StatusCode::kNotFound);
  const std::string fifo = path + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  delay.mutable_trace()->set_path(fifo);
  EXPECT_EQ(DelayModel::Create(delay, kSeed, "test", 1).status().message(),
            fifo + ": is no file");
}

// What had been read before it would be another distribution.
TEST(DelayModelTest, ATraceThatCannotBeReadToItsEndIsNotTakenForAShorterOne) {
  const std::string path = ::testing::TempDir() + "/trace_of_two.txt";
  std::ofstream(path) << "10\n20";
  proto::Delay delay;
  delay.mutable_trace()->set_path(path);
  FaultyReads whole;
  ASSERT_TRUE(DelayModel::Create(delay, kSeed, "test", 1, &whole).ok());
  EXPECT_EQ(whole.operations(), 2);  // It is opened and read.
  for (int operation = 0; operation < whole.operations(); ++operation) {
    FaultyReads files(FaultyReads::Fault::kFails, operation, 1);
    EXPECT_EQ(
        DelayModel::Create(delay, kSeed, "test", 1, &files).status().code(),
        absl::StatusCode::kUnavailable);
  }
}

TEST(DelayModelTest, AFileThatIsTooLargeForATraceIsNotRead) {
  const std::string path = ::testing::TempDir() + "/trace_of_data.txt";
  std::ofstream(path) << "10\n";
  std::filesystem::resize_file(path, (64 << 20) + 1);
  proto::Delay delay;
  delay.mutable_trace()->set_path(path);
  EXPECT_EQ(DelayModel::Create(delay, kSeed, "test", 1).status().message(),
            path + ": has 67108865 bytes, a trace at most 67108864");
}

TEST(DelayModelTest, AWorkerThatATraceNamesDrawsFromItsOwnLines) {
  const std::string path = ::testing::TempDir() + "/workers.txt";
  std::ofstream(path) << "10 0\n20 0\n300 2\n40 7\n";
  const DelayModel model = Model("trace { path: \"" + path + "\" }", 3);
  EXPECT_DOUBLE_EQ(Sorted(model, 0).front(), 0.01);
  EXPECT_DOUBLE_EQ(Sorted(model, 0).back(), 0.02);
  EXPECT_DOUBLE_EQ(Sorted(model, 2).front(), 0.3);
  EXPECT_DOUBLE_EQ(Sorted(model, 2).back(), 0.3);
  // No line names worker 1, and worker 7 is not one of the job's.
  for (const int64_t other : {1, 7}) {
    EXPECT_DOUBLE_EQ(Sorted(model, other).front(), 0.01);
    EXPECT_DOUBLE_EQ(Sorted(model, other).back(), 0.3);
  }
  EXPECT_DOUBLE_EQ(model.Mean(), (0.015 + 0.3 + 0.37 / 4) / 3);
}

TEST(ComputeDelayTest, ATaskTakesTheSumOverItsMiniBatchesTimesItsFactor) {
  proto::Job job;
  job.set_seed(kSeed);
  job.mutable_cluster()->set_workers(2);
  auto* compute = job.mutable_delays()->mutable_compute();
  compute->mutable_exponential()->set_mean_ms(50);
  const auto plain = ComputeDelay::Create(job);
  job.mutable_delays()->add_worker_factor(3);
  const auto scaled = ComputeDelay::Create(job);
  ASSERT_TRUE(plain.ok() && scaled.ok());

  const double one = plain->Draw(0, 5, 1);
  const double two = plain->Draw(0, 5, 2);
  EXPECT_GT(two, one);
  EXPECT_DOUBLE_EQ(scaled->Draw(0, 5, 2), 3 * two);
  EXPECT_EQ(scaled->Draw(1, 5, 1), plain->Draw(1, 5, 1));
}

TEST(ComputeDelayTest, ItsMeanIsOverWorkersWhoseDrawsAndFactorsGoTogether) {
  proto::Job job;
  job.mutable_cluster()->set_workers(4);
  auto* two_speed =
      job.mutable_delays()->mutable_compute()->mutable_two_speed();
  two_speed->set_ms(10);
  two_speed->set_slow_share(0.5);
  two_speed->set_slow_factor(10);
  // Those that are slow ten times have a factor that makes up for it.
  job.mutable_delays()->add_worker_factor(0.1);
  job.mutable_delays()->add_worker_factor(0.1);
  const auto delay = ComputeDelay::Create(job);
  ASSERT_TRUE(delay.ok()) << delay.status();
  EXPECT_DOUBLE_EQ(delay->Mean(), 0.010);
}

TEST(ComputeDelayTest, FactorsBeyondTheWorkersDoNotCount) {
  proto::Job job;
  job.mutable_cluster()->set_workers(2);
  job.mutable_delays()->mutable_compute()->mutable_constant()->set_ms(10);
  for (const double factor : {3.0, 0.1, 0.1, 0.1}) {
    job.mutable_delays()->add_worker_factor(factor);
  }
  const auto delay = ComputeDelay::Create(job);
  ASSERT_TRUE(delay.ok()) << delay.status();
  EXPECT_DOUBLE_EQ(delay->Mean(), 0.010 * (3 + 0.1) / 2);
}

}  // namespace
}  // namespace sluice

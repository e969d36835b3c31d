#include "worker/external/model_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "third_party/spdlog.h"
#include "worker/testing/watched_flow.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kFloats = 4;  // Three features and the bias.
const char* const kPrograms = "worker/external/testing/";

ModelProcess::Options OptionsFor(const std::string& program,
                                 const std::string& what = "") {
  ModelProcess::Options options;
  options.command = {kPrograms + program};
  if (!what.empty()) options.command.push_back(what);
  options.description = {.job = "test",
                         .batch_size = 4,
                         .train_samples = 64,
                         .parameters = kFloats,
                         .tensors = {{.name = "w", .shape = {3}},
                                     {.name = "b",
                                      .shape = {1},
                                      .offset = 3,
                                      .kind = ModelDescription::Kind::kBias}}};
  options.most_batches = 2;
  options.most_indices = 16;
  // Where a rule is broken a test fails by this, and does not hang.
  options.silence_limit = absl::Seconds(30);
  return options;
}

// A model process, and one task's result at a time.
class ModelProcessTest : public testing::Test {
 protected:
  // REQUIRES: it becomes ready.
  void Start(ModelProcess::Options options) {
    auto started = ModelProcess::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status().message().data();
    process_ = *std::move(started);
  }
  static absl::Status StartFails(ModelProcess::Options options) {
    return ModelProcess::Start(std::move(options)).status();
  }

  static ModelProcess::Task SomeTask() {
    return {{.first = BatchId(5), .sizes = {3}, .indices = {2, 3, 5}}};
  }
  absl::StatusOr<Model::Result> Compute(const ModelProcess::Task& task,
                                        int weights = 0) {
    WatchedGradient gradient(process_->gradient(), {.on_final = on_final_});
    return process_->Compute(task, process_->weights(weights), gradient,
                             cancel_);
  }
  absl::Status ComputeFails() { return Compute(SomeTask()).status(); }

  std::unique_ptr<ModelProcess> process_;
  std::vector<int64_t> finals_;
  std::function<void(int64_t)> on_final_ = [this](int64_t from) {
    finals_.push_back(from);
  };
  CancelToken cancel_;
};

// Starts with the process's own name, so that a person finds it.
testing::Matcher<std::string> Named(const std::string& rest) {
  return AllOf(StartsWith("the model process (pid "),
               HasSubstr("worker/external/testing/"), HasSubstr(rest));
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// Both programs compute the same.
class LinearModelTest : public ModelProcessTest,
                        public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Languages, LinearModelTest,
                         testing::Values("linear_model", "linear_model_py"));

// Sample i has inputs ((7 i + 3 j) mod 11 - 5) / 8.
double Input(int64_t i, int64_t j) {
  return static_cast<double>((7 * i + 3 * j) % 11 - 5) / 8;
}

// The expected gradient and loss, at `weights`, as mathematics has them.
std::vector<double> Expected(const std::vector<int64_t>& samples,
                             const std::vector<double>& weights, double* loss) {
  std::vector<double> gradient(kFloats);
  *loss = 0;
  for (const int64_t i : samples) {
    double error = weights[3] - 0.25;
    for (int j = 0; j < 3; ++j) {
      error += (weights[j] - (j + 1) / 2.0) * Input(i, j);
    }
    const double n = static_cast<double>(samples.size());
    for (int j = 0; j < 3; ++j) gradient[j] += error * Input(i, j) / n;
    gradient[3] += error / n;
    *loss += error * error / 2 / n;
  }
  return gradient;
}

void ExpectNear(absl::Span<const float> computed,
                const std::vector<double>& expected) {
  for (int64_t j = 0; j < kFloats; ++j) {
    // Rounded to a float once; the sums before it are of doubles.
    EXPECT_NEAR(computed[j], expected[j], std::abs(expected[j]) * 1e-6 + 1e-9)
        << j;
  }
}

TEST_P(LinearModelTest, AGradientAndItsLossComeBack) {
  Start(OptionsFor(GetParam()));
  const std::vector<double> weights = {0.5, -1, 2, 0.125};
  std::copy(weights.begin(), weights.end(), process_->weights(0).begin());
  const auto result = Compute(SomeTask());
  ASSERT_TRUE(result.ok()) << result.status().message().data();
  double loss;
  ExpectNear(process_->gradient(), Expected({2, 3, 5}, weights, &loss));
  EXPECT_NEAR(result->loss, loss, 1e-12);
  EXPECT_EQ(result->samples, 3);
}

TEST_P(LinearModelTest, PartsBecomeFinalFromTheLastFloatToTheFirst) {
  Start(OptionsFor(GetParam()));
  ASSERT_TRUE(Compute(SomeTask()).ok());
  EXPECT_THAT(finals_, ElementsAre(3, 0));
}

TEST_P(LinearModelTest, APartThatIsFinalIsThere) {
  Start(OptionsFor(GetParam()));
  float bias = 0;
  on_final_ = [&](int64_t from) {
    if (from == 3) bias = process_->gradient()[3];
  };
  ASSERT_TRUE(Compute(SomeTask()).ok());
  EXPECT_NE(bias, 0);
  EXPECT_EQ(bias, process_->gradient()[3]);
}

TEST_P(LinearModelTest, TheWeightsAreThoseOfTheTasksBuffer) {
  Start(OptionsFor(GetParam()));
  process_->weights(1)[3] = 0.25;
  process_->weights(1)[0] = 0.5;
  process_->weights(1)[1] = 1;
  process_->weights(1)[2] = 1.5;
  const auto at_zero = Compute(SomeTask(), 0);
  const auto at_the_optimum = Compute(SomeTask(), 1);
  ASSERT_TRUE(at_zero.ok() && at_the_optimum.ok());
  EXPECT_GT(at_zero->loss, 0.01);
  EXPECT_EQ(at_the_optimum->loss, 0);
  EXPECT_THAT(process_->gradient(), ElementsAre(0, 0, 0, 0));
}

TEST_P(LinearModelTest, LocalStepsMoveTheWeightsBetweenMiniBatches) {
  Start(OptionsFor(GetParam()));
  const auto result =
      Compute({.batches = {BatchId(7), {3, 1}, {2, 3, 5, 8}}, .rate = 0.5});
  ASSERT_TRUE(result.ok());
  double loss0, loss1;
  std::vector<double> weights(kFloats);
  std::vector<double> sum = Expected({2, 3, 5}, weights, &loss0);
  for (int j = 0; j < kFloats; ++j) weights[j] -= 0.5 * sum[j];
  const std::vector<double> second = Expected({8}, weights, &loss1);
  for (int j = 0; j < kFloats; ++j) sum[j] += second[j];
  ExpectNear(process_->gradient(), sum);
  EXPECT_NEAR(result->loss, (3 * loss0 + loss1) / 4, 1e-12);
  EXPECT_EQ(result->samples, 4);
}

TEST_P(LinearModelTest, ManyTasksFollowEachOther) {
  Start(OptionsFor(GetParam()));
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Compute({{BatchId(i), {1}, {i}}}, i % 2).ok()) << i;
  }
  EXPECT_EQ(finals_.size(), 200);
}

TEST(BothLanguagesTest, ComputeTheSameBits) {
  std::vector<std::vector<float>> gradients;
  for (const char* program : {"linear_model", "linear_model_py"}) {
    auto process = ModelProcess::Start(OptionsFor(program));
    ASSERT_TRUE(process.ok()) << process.status().message().data();
    for (int j = 0; j < kFloats; ++j) {
      (*process)->weights(0)[j] = 1.0f / static_cast<float>(j + 3);
    }
    const auto values = (*process)->gradient();
    GradientInPlace gradient(values);
    ASSERT_TRUE(
        (*process)
            ->Compute({.batches = {BatchId(0), {3, 2}, {2, 3, 5, 7, 11}},
                       .rate = 0.1},
                      (*process)->weights(0), gradient, CancelToken())
            .ok());
    gradients.emplace_back(values.begin(), values.end());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST_P(LinearModelTest, ATaskThatIsCancelledBeforeItsEndIsAborted) {
  Start(OptionsFor(GetParam()));
  on_final_ = [this](int64_t) { cancel_.Cancel(); };
  EXPECT_EQ(ComputeFails().code(), absl::StatusCode::kAborted);
  // The process goes on.
  cancel_.Reset();
  on_final_ = [](int64_t) {};
  EXPECT_TRUE(Compute(SomeTask()).ok());
}

// ---- Cancelling ----

TEST_F(ModelProcessTest, ACancelReachesAProcessThatComputes) {
  Start(OptionsFor("faulty_model", "wait"));
  std::thread canceller;
  on_final_ = [&](int64_t) {
    canceller = std::thread([&] {
      cancel_.Cancel();
      process_->Wake();
    });
  };
  const absl::Status status = ComputeFails();
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(MessageOf(status), "the task was cancelled");
}

TEST_F(ModelProcessTest, AResultThatCrossesACancelEndsTheTaskAsCancelled) {
  Start(OptionsFor("faulty_model", "result-after-cancel"));
  on_final_ = [this](int64_t) { cancel_.Cancel(); };
  EXPECT_EQ(ComputeFails().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ComputeFails().code(), absl::StatusCode::kAborted);
}

class RefusingGradient final : public GradientSink {
 public:
  explicit RefusingGradient(absl::Span<float> values) : values_(values) {}
  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t) override {
    return absl::UnavailableError("shard 2 is gone");
  }

 private:
  const absl::Span<float> values_;
};

TEST_F(ModelProcessTest, WhatTheGradientSaysEndsTheTaskAndNotTheProcess) {
  Start(OptionsFor("faulty_model", "wait"));
  for (int i = 0; i < 2; ++i) {
    RefusingGradient gradient(process_->gradient());
    const auto result =
        process_->Compute(SomeTask(), process_->weights(0), gradient, cancel_);
    EXPECT_EQ(MessageOf(result.status()), "shard 2 is gone");
  }
}

// ---- What ends the process ----

TEST_F(ModelProcessTest, AKillInTheMiddleOfATaskIsSeenAtOnceAndNamed) {
  Start(OptionsFor("faulty_model", "wait"));
  on_final_ = [this](int64_t) { kill(process_->pid(), SIGKILL); };
  const absl::Status status = ComputeFails();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MessageOf(status),
            absl::StrCat("the model process (pid ", process_->pid(),
                         ", worker/external/testing/faulty_model wait) was "
                         "killed by signal 9 in task 1"));
}

TEST_F(ModelProcessTest, AnErrorStays) {
  Start(OptionsFor("faulty_model", "exit-in-task"));
  const absl::Status first = ComputeFails();
  EXPECT_THAT(MessageOf(first), Named("ended with exit status 4 in task 1"));
  EXPECT_EQ(ComputeFails(), first);
}

TEST_F(ModelProcessTest, AProcessThatStandsStillIsKilledAtTheLimit) {
  ModelProcess::Options options = OptionsFor("faulty_model", "wait");
  options.silence_limit = absl::Milliseconds(200);
  Start(options);
  on_final_ = [this](int64_t) { kill(process_->pid(), SIGSTOP); };
  const absl::Status status = ComputeFails();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status),
              Named("has said nothing for 200ms in task 1 and was killed"));
  EXPECT_EQ(kill(process_->pid(), 0), -1);
}

TEST_F(ModelProcessTest, OneThatDoesNotAnswerACancelIsKilledAtTheLimit) {
  // The one that chatters must be able to, on a busy machine, within its limit.
  for (const auto& [what, limit, said] :
       {std::tuple{"deaf", absl::Milliseconds(200),
                   "has said nothing for 200ms in task 1 and was killed"},
        {"chatter", absl::Seconds(2),
         "has not answered CANCEL within 2s in task 1"}}) {
    ModelProcess::Options options = OptionsFor("faulty_model", what);
    options.silence_limit = limit;
    Start(options);
    cancel_.Reset();
    on_final_ = [this](int64_t) { cancel_.Cancel(); };
    const absl::Status status = ComputeFails();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(MessageOf(status), Named(said));
  }
}

TEST_F(ModelProcessTest, OneThatIsAbandonedHasTheTimeOfAStop) {
  for (const auto& [what, ended] :
       {std::pair{"wait", absl::StatusCode::kAborted},
        {"deaf", absl::StatusCode::kDeadlineExceeded}}) {
    ModelProcess::Options options = OptionsFor("faulty_model", what);
    options.stop_limit = absl::Milliseconds(200);
    options.silence_limit = absl::Hours(1);
    Start(options);
    on_final_ = [this](int64_t) { process_->Abandon(); };
    EXPECT_EQ(ComputeFails().code(), ended) << what;
  }
}

TEST_F(ModelProcessTest, WhatAFailedProcessSaidIsToldAndNotItsExit) {
  Start(OptionsFor("faulty_model", "fail-and-exit"));
  const absl::Status status = ComputeFails();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status),
              Named("failed in task 1: 'out of memory'\\non \"device 0\""));
}

TEST_F(ModelProcessTest, WhatItSaidIsToldEvenIfItLeftAMessageUnread) {
  Start(OptionsFor("faulty_model", "fail-unheard"));
  // What it says after FINAL is read when it has ended.
  on_final_ = [this](int64_t) {
    siginfo_t ended;
    waitid(P_PID, process_->pid(), &ended, WEXITED | WNOWAIT);
  };
  EXPECT_THAT(MessageOf(ComputeFails()),
              Named("failed in task 1: out of memory"));
}

TEST_F(ModelProcessTest, AnEndIsSeenEvenIfTheSocketLivesOnInAnotherProcess) {
  Start(OptionsFor("faulty_model", "exit-and-leave-socket"));
  EXPECT_THAT(MessageOf(ComputeFails()),
              Named("ended with exit status 4 in task 1"));
}

TEST_F(ModelProcessTest, AClosedSocketEndsAProcessThatStaysAlive) {
  Start(OptionsFor("faulty_model", "close"));
  EXPECT_THAT(MessageOf(ComputeFails()),
              Named("closed its socket in task 1 and was killed"));
}

struct Fault {
  std::string what, said;
};

TEST_F(ModelProcessTest, WhatItMustNotSendEndsItAndSaysWhatWasExpected) {
  for (const auto& [what, said] : std::vector<Fault>{
           {"unknown-kind", "a message of kind 2139062143, expected FINAL"},
           {"text", "a message of kind 0, expected FINAL"},
           {"long-message", "a message of more than 4096 bytes"},
           {"short-result", "RESULT of 6 bytes, expected 32"},
           {"other-task", "FINAL of task 2, expected 1"},
           {"final-grows", "FINAL from float 2, expected 0 to 1"},
           {"final-below-0", "FINAL from float -1, expected 0 to 4"},
           {"result-too-soon",
            "RESULT where the gradient is final from float 1 on, expected 0"},
           {"fewer-samples", "RESULT of 2 samples, expected 3"},
           {"log-no-name", "a value logged as \"a b\", expected a name of 1 "},
           {"log-too-much", "logged as \"v64\", expected at most 64 names"},
           {"log-short", "LOG of 20 bytes, expected 24"},
           {"log-of-another-task", "LOG of task 2, expected 1"},
           {"cancelled-unasked",
            "CANCELLED of a task that nobody has cancelled"}}) {
    Start(OptionsFor("faulty_model", what));
    const absl::Status status = ComputeFails();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(MessageOf(status),
                AllOf(Named(said), HasSubstr("in task 1, and was killed")));
    EXPECT_EQ(kill(process_->pid(), 0), -1) << what;
  }
}

TEST_F(ModelProcessTest, ATaskThatHasNoRoomIsRefusedAndTheProcessGoesOn) {
  Start(OptionsFor("linear_model"));
  ModelProcess::Task task = SomeTask();
  task.next = {BatchId(6), {14}, std::vector<int64_t>(14)};
  const auto refused = Compute(task);
  EXPECT_EQ(MessageOf(refused.status()),
            "a task and what is likely to follow it have 2 mini-batches and 17 "
            "samples, expected at most 2 and 16");
  task.next = {BatchId(6), {13}, std::vector<int64_t>(13)};
  EXPECT_TRUE(Compute(task).ok());
}

TEST_P(LinearModelTest, WhatIsLikelyToComeNextTakesNoPartInTheTask) {
  Start(OptionsFor(GetParam()));
  ModelProcess::Task task = SomeTask();
  ASSERT_TRUE(Compute(task).ok());
  const auto values = process_->gradient();
  const std::vector<float> alone(values.begin(), values.end());
  task.next = {BatchId(6), {2}, {7, 11}};
  ASSERT_TRUE(Compute(task).ok());
  EXPECT_THAT(process_->gradient(), ElementsAreArray(alone));
}

TEST_F(ModelProcessTest, WhatItLogsComesWithTheTasksResult) {
  Start(OptionsFor("faulty_model", "log"));
  const auto result = Compute(SomeTask());
  ASSERT_TRUE(result.ok()) << result.status().message().data();
  EXPECT_EQ(result->logged, (LoggedValues{{"a", 2}, {"b", 3}}));
}

TEST_F(ModelProcessTest, WhatOneTaskLogsIsNotTheNextOnes) {
  Start(OptionsFor("faulty_model", "log-once"));
  EXPECT_EQ(Compute(SomeTask())->logged, (LoggedValues{{"a", 1}}));
  EXPECT_EQ(Compute(SomeTask())->logged, LoggedValues());
}

// ---- Starting and stopping ----

TEST_F(ModelProcessTest, ACommandThatCannotBeRunIsNamed) {
  const absl::Status status = StartFails(OptionsFor("no_such_program"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status),
            "the model process: cannot run worker/external/testing/"
            "no_such_program: No such file or directory");
}

TEST_F(ModelProcessTest, OneThatEndsAtOnceIsNamedWithItsExitStatus) {
  const absl::Status status = StartFails(OptionsFor("faulty_model", "exit"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status),
              Named("ended with exit status 3 before it was ready"));
}

TEST_F(ModelProcessTest, OneThatKnowsNothingOfItAllIsNamed) {
  ModelProcess::Options options = OptionsFor("");
  options.command = {"/bin/true"};
  EXPECT_THAT(MessageOf(StartFails(options)),
              HasSubstr(", /bin/true) ended with exit status 0 before it was "
                        "ready"));
}

TEST_F(ModelProcessTest, OneThatIsNotReadyInTimeIsKilled) {
  ModelProcess::Options options = OptionsFor("faulty_model", "silence");
  options.start_limit = absl::Milliseconds(200);
  const absl::Status status = StartFails(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status),
              Named("has said nothing for 200ms before it was ready"));
}

TEST_F(ModelProcessTest, AnotherProtocolIsRefused) {
  EXPECT_THAT(
      MessageOf(StartFails(OptionsFor("faulty_model", "other-protocol"))),
      Named("READY for protocol 2, expected 1"));
  EXPECT_THAT(MessageOf(StartFails(OptionsFor("faulty_model", "result-first"))),
              Named("sent RESULT, expected READY or FAILED"));
}

TEST_F(ModelProcessTest, WhatItHasBesideTheJobIsKept) {
  Start(OptionsFor("faulty_model", "own-input"));
  EXPECT_EQ(process_->own_input(), "frozen 17");
  for (const auto& [what, size] :
       {std::pair{"long-input", 257}, {"unprintable-input", 1}}) {
    EXPECT_THAT(MessageOf(StartFails(OptionsFor("faulty_model", what))),
                HasSubstr(absl::StrCat("READY with ", size,
                                       " characters, expected printable")));
  }
}

TEST_F(ModelProcessTest, AProcessEndsWithItsOwner) {
  Start(OptionsFor("linear_model_py"));
  const pid_t pid = process_->pid();
  process_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ModelProcessTest, OneThatDoesNotHeedStopIsKilled) {
  for (const bool well : {false, true}) {
    ModelProcess::Options options = OptionsFor("faulty_model", "wait");
    options.stop_limit = absl::Milliseconds(200);
    options.end_limit = absl::Milliseconds(300);
    Start(options);
    const pid_t pid = process_->pid();
    kill(pid, SIGSTOP);
    std::ostringstream log;
    const auto usual = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    if (well) process_->LetEnd();
    process_.reset();
    spdlog::set_default_logger(usual);
    EXPECT_EQ(kill(pid, 0), -1);
    const std::string limit = well ? "300ms" : "200ms";
    EXPECT_THAT(
        log.str(),
        AllOf(
            HasSubstr("event=model_process_runs_on reason=\"the model "
                      "process (pid "),
            HasSubstr("was told to end, and is killed " + limit +
                      " after that, or with this process\""),
            HasSubstr("event=model_process_killed"),
            HasSubstr("was told to end, and still ran " + limit + " later\"")));
  }
}

// ---- The user's mistakes in Python ----

TEST_F(ModelProcessTest, AnExceptionInATaskIsToldInItsOwnWords) {
  Start(OptionsFor("faulty_model_py", "compute"));
  const absl::Status status = ComputeFails();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status),
              Named("failed in task 1: ZeroDivisionError: division by zero"));
}

TEST_F(ModelProcessTest, AnExceptionBeforeTheFirstTaskIsToldToo) {
  EXPECT_THAT(MessageOf(StartFails(OptionsFor("faulty_model_py", "prepare"))),
              Named("failed before it was ready: FileNotFoundError: no "
                    "training data in /data"));
  EXPECT_THAT(MessageOf(StartFails(OptionsFor("faulty_model_py", "import"))),
              Named("ended with exit status 1 before it was ready"));
}

}  // namespace
}  // namespace sluice

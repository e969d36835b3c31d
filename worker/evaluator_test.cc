#include "worker/evaluator.h"

#include <filesystem>
#include <vector>

#include "common/formats/safetensors.h"
#include "common/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/compute/measure.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterLayout FourFloats() {
  TensorSpec tensor;
  tensor.name = "dense0.weight";
  tensor.shape = {4};
  tensor.size = 4;
  return ParameterLayout({tensor}, /*shards=*/1);
}

// Ten test samples, four per forward pass.
class EvaluatorTest : public ::testing::Test {
 protected:
  EvaluatorTest() { exchange_.weights = {1, 2, 3, 4}; }

  Evaluator::Options Options() {
    Evaluator::Options options;
    options.weights_path = path_;
    options.clock = &clock_;
    return options;
  }
  proto::Evaluated Run(int64_t version, bool final = false) {
    proto::Evaluate request;
    request.set_version(version);
    request.set_final(final);
    return *evaluator_.Run(request, Generation(2), token_);
  }

  const std::string path_ =
      ::testing::TempDir() + "/evaluator_test.safetensors";
  const ParameterLayout layout_ = FourFloats();
  FakeClock clock_;
  FakeDataSource test_{10};
  FakeModel model_;
  FakeExchange exchange_;
  CancelToken token_;
  NativeMeasure measure_{
      {.batch_size = 4, .parameters = 4}, &test_, model_.get()};
  Evaluator evaluator_{Options(), &layout_, &measure_, {&exchange_}};
};

// As a model process that dies in each evaluation.
class BrokenMeasure final : public VersionMeasure {
 public:
  absl::Span<float> Weights(int part) override {
    return absl::MakeSpan(weights_);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    broken_ = true;
    return absl::UnavailableError("killed by signal 9");
  }
  bool broken() const override { return broken_; }

 private:
  std::vector<float> weights_ = std::vector<float>(4);
  bool broken_ = false;
};

// As a split model's: each block of samples needs each part again.
class LongMeasure final : public VersionMeasure {
 public:
  explicit LongMeasure(FakeClock* clock) : clock_(*clock) {}
  int parts() const override { return 2; }
  absl::Span<float> Weights(int part) override {
    return absl::MakeSpan(weights_);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    SLUICE_RETURN_IF_ERROR(load(0));
    clock_.Advance(absl::Hours(100));
    SLUICE_RETURN_IF_ERROR(load(1));
    return Measurement();
  }

 private:
  FakeClock& clock_;
  std::vector<float> weights_ = std::vector<float>(4);
};

TEST_F(EvaluatorTest, EachPullHasItsTime) {
  LongMeasure measure(&clock_);
  FakeExchange second;
  second.weights = {1, 2, 3, 4};
  Evaluator evaluator(Options(), &layout_, &measure, {&exchange_, &second});
  proto::Evaluate request;
  ASSERT_TRUE(evaluator.Run(request, Generation(2), token_).ok());
  EXPECT_GT(second.pulled->deadline, clock_.Now());
}

TEST_F(EvaluatorTest, ExactlyThePinnedVersionIsPulled) {
  EXPECT_EQ(Run(7).version(), 7);
  ASSERT_TRUE(exchange_.pulled.has_value());
  EXPECT_EQ(exchange_.pulled->version, Version(7));
  EXPECT_EQ(exchange_.pulled->generation, Generation(2));
  EXPECT_TRUE(exchange_.pulled->exact);
}

// It did not fail: the coordinator asks for it again, unless the run is over.
TEST_F(EvaluatorTest, AnEvaluationThatIsCancelledEndsAndHasNoAnswer) {
  model_->on_evaluate = [this] {
    if (model_->evaluated.size() == 2) token_.Cancel();
  };
  EXPECT_EQ(evaluator_.Run({}, Generation(2), token_).status(),
            absl::AbortedError("given up"));
  EXPECT_THAT(model_->evaluated, ElementsAre(4, 4));
}

TEST_F(EvaluatorTest, TheWholeSplitIsMeasuredEachSampleOnce) {
  const proto::Evaluated answer = Run(7);
  EXPECT_EQ(answer.error(), "");
  EXPECT_THAT(model_->evaluated, ElementsAre(4, 4, 2));
  EXPECT_EQ(answer.samples(), 10);
  EXPECT_EQ(answer.loss(), 4.5);
  EXPECT_EQ(answer.accuracy(), 0.5);
  EXPECT_EQ(answer.weights_sha256(), "");
}

TEST_F(EvaluatorTest, ARegressionHasNoAccuracy) {
  NativeMeasure measure(
      {.batch_size = 4, .classification = false, .parameters = 4}, &test_,
      model_.get());
  Evaluator evaluator(Options(), &layout_, &measure, {&exchange_});
  EXPECT_FALSE(
      evaluator.Run(proto::Evaluate(), Generation(2), token_)->has_accuracy());
}

TEST_F(EvaluatorTest, TheFinalVersionsWeightsAreSavedAndDigested) {
  const proto::Evaluated answer = Run(7, /*final=*/true);
  EXPECT_EQ(answer.error(), "");
  // sha256sum of the 16 bytes 0000803f 00000040 00004040 00008040.
  EXPECT_EQ(answer.weights_sha256(),
            "ad73b9acd6e4a74b2f5bb5386658ce3bb146cd040a1867646ab3b973fb6632b1");
  const auto saved = ReadSafetensors(path_, layout_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, exchange_.weights);
}

TEST_F(EvaluatorTest, AFailureIsReportedAndTheNextEvaluationWorks) {
  exchange_.pull_status = absl::AbortedError("shard 0: version 7 is gone");
  EXPECT_THAT(Run(7).error(), HasSubstr("version 7 is gone"));
  exchange_.pull_status = absl::OkStatus();
  EXPECT_EQ(Run(8).error(), "");
}

TEST_F(EvaluatorTest, ALostShardIsNoAnswer) {
  for (const absl::Status& lost :
       {absl::UnavailableError("shard 1 cannot be reached"),
        absl::FailedPreconditionError("shard 1: generation 3")}) {
    exchange_.pull_status = lost;
    EXPECT_EQ(evaluator_.Run({}, Generation(2), token_).status(), lost);
  }
}

TEST_F(EvaluatorTest, WeightsThatCannotBeSavedAreAFailure) {
  Evaluator::Options options = Options();
  options.weights_path = "/nowhere/weights.safetensors";
  Evaluator evaluator(options, &layout_, &measure_, {&exchange_});
  proto::Evaluate request;
  request.set_final(true);
  EXPECT_THAT(evaluator.Run(request, Generation(2), token_)->error(),
              HasSubstr("/nowhere/weights.safetensors"));
}

// In the way of the weights' file is a folder, which is gone once the weights
// are asked for again.
class LateRoom final : public VersionMeasure {
 public:
  explicit LateRoom(std::string path) : path_(std::move(path)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_ + "/full");
  }
  absl::Span<float> Weights(int part) override {
    if (++asked_ == 3) std::filesystem::remove_all(path_);
    return absl::MakeSpan(weights_);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    return Measurement();
  }

 private:
  const std::string path_;
  int asked_ = 0;  // Once for the pull, then for each try to save.
  std::vector<float> weights_ = std::vector<float>(4);
};

TEST_F(EvaluatorTest, ADiskThatHasNoRoomIsTriedAgain) {
  proto::Evaluate request;
  request.set_final(true);
  for (const absl::Duration timeout : {absl::Minutes(1), absl::Seconds(0)}) {
    LateRoom measure(path_);
    Evaluator::Options options = Options();
    options.storage_timeout = timeout;
    Evaluator evaluator(options, &layout_, &measure, {&exchange_});
    const std::string error =
        evaluator.Run(request, Generation(2), token_)->error();
    if (timeout > absl::ZeroDuration()) {
      EXPECT_EQ(error, "");
      EXPECT_EQ(*ReadSafetensors(path_, layout_), exchange_.weights);
    } else {
      EXPECT_THAT(error, HasSubstr("tried for 0 (limits.storage_timeout_s)"));
    }
  }
  std::filesystem::remove_all(path_);
}

TEST_F(EvaluatorTest, WhoeverIsGivenUpDoesNotWaitForADisk) {
  LateRoom measure(path_);
  Evaluator::Options options = Options();
  options.storage_timeout = absl::Hours(1);
  Evaluator evaluator(options, &layout_, &measure, {&exchange_});
  proto::Evaluate request;
  request.set_final(true);
  token_.Cancel();
  EXPECT_EQ(evaluator.Run(request, Generation(2), token_).status().code(),
            absl::StatusCode::kAborted);
  std::filesystem::remove_all(path_);
}

TEST_F(EvaluatorTest, WithoutATestSplitTheFinalVersionIsSavedAndNotMeasured) {
  NoMeasure measure(4);
  Evaluator evaluator(Options(), &layout_, &measure, {&exchange_});
  proto::Evaluate request;
  request.set_final(true);
  const auto answer = evaluator.Run(request, Generation(2), token_);
  EXPECT_EQ(answer->error(), "");
  EXPECT_EQ(answer->samples(), 0);
  EXPECT_FALSE(answer->has_accuracy());
  EXPECT_NE(answer->weights_sha256(), "");
  EXPECT_EQ(*ReadSafetensors(path_, layout_), exchange_.weights);
}

TEST_F(EvaluatorTest, WhereWhatMeasuresIsBrokenThereIsNoAnswerButTheWeights) {
  std::filesystem::remove(path_);
  BrokenMeasure measure;
  Evaluator evaluator(Options(), &layout_, &measure, {&exchange_});
  proto::Evaluate request;
  request.set_final(true);
  EXPECT_EQ(evaluator.Run(request, Generation(2), token_).status().message(),
            "killed by signal 9");
  EXPECT_EQ(*ReadSafetensors(path_, layout_), exchange_.weights);
}

TEST_F(EvaluatorTest, OneThatWasCancelledBeforehandDoesNotBegin) {
  token_.Cancel();
  EXPECT_EQ(evaluator_.Run({}, Generation(2), token_).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(model_->evaluated.empty());
}

}  // namespace
}  // namespace sluice

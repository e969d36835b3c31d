#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kJob[] = R"(
cluster { workers: 2 }
data { external { train_samples: 100 } batch_size: 8 }
model {
  external {
    tensor { name: "0.weight" shape: 3 shape: 5 kind: WEIGHT }
    tensor { name: "0.bias" shape: 3 kind: BIAS }
    tensor { name: "1.scale" shape: 3 kind: NORM }
    tensor { name: "1.mean" shape: 3 kind: STATISTIC }
    tensor { name: "1.steps" kind: STATISTIC momentum: 1 }
  }
  init_from: "weights.safetensors"
}
stop { updates: 5 }
)";

proto::Job Job(const std::string& more = "") {
  proto::Job job, changes;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kJob, &job));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(more, &changes))
      << more;
  job.MergeFrom(changes);
  ResolveDefaults(&job);
  return job;
}

std::vector<std::string> Violations(const std::string& more = "") {
  return Validate(Job(more));
}

TEST(ExternalValidationTest, TheTableIsTheLayout) {
  const auto job = ParseJob(kJob, "job", {});
  ASSERT_TRUE(job.ok()) << job.status().message().data();
  const std::vector<TensorSpec>& tensors = job->layout.tensors();
  ASSERT_EQ(tensors.size(), 5);
  EXPECT_EQ(job->layout.size(), 15 + 3 + 3 + 3 + 1);
  EXPECT_EQ(tensors[1].name, "0.bias");
  EXPECT_EQ(tensors[1].offset, 15);
  std::vector<bool> decay, statistics;
  for (const TensorSpec& tensor : tensors) {
    decay.push_back(tensor.factors.decay != 0);
    statistics.push_back(tensor.is_statistic());
  }
  EXPECT_THAT(decay, ElementsAre(true, false, false, false, false));
  EXPECT_THAT(statistics, ElementsAre(false, false, false, true, true));
  EXPECT_EQ(tensors[3].moving_average, 0.1);
  EXPECT_EQ(tensors[4].moving_average, 1);
  EXPECT_EQ(job->data.train_samples, 100);
  EXPECT_EQ(job->job.model().loss(), proto::Model::MODEL_PROCESS);
}

TEST(ExternalValidationTest, WithoutTestSamplesNothingIsMeasured) {
  EXPECT_TRUE(Job().evaluation().enabled());
  EXPECT_EQ(Job().evaluation().every_epochs(), 0);
  EXPECT_THAT(Violations("evaluation { every_epochs: 0.5 }"),
              ElementsAre("evaluation.every_epochs: must be 0 without "
                          "data.external.test_samples, is 0.5"));
  // As a job has it that was resolved when evaluation was off.
  EXPECT_THAT(Violations("evaluation { enabled: false every_epochs: 1 }"),
              IsEmpty());
  const std::string measured = "data { external { test_samples: 20 } }";
  EXPECT_EQ(Job(measured).evaluation().every_epochs(), 1);
  EXPECT_THAT(Violations(measured + "stop { target_accuracy: 0.5 }"),
              IsEmpty());
  EXPECT_THAT(Violations("stop { target_accuracy: 0.5 }"),
              ElementsAre(HasSubstr("needs evaluation.enabled and "
                                    "evaluation.every_epochs above 0")));
}

TEST(ExternalValidationTest, AnotherKindIsAnotherJob) {
  proto::Job other = Job();
  other.mutable_model()->mutable_external()->mutable_tensor(1)->set_kind(
      proto::ExternalTensor::WEIGHT);
  EXPECT_NE(ParseJob(kJob, "job", {})->fingerprint,
            ParseJob(FormatJob(other), "job", {})->fingerprint);
}

TEST(ExternalValidationTest, AResolvedJobIsTheSameAgain) {
  const auto job = ParseJob(kJob, "job", {});
  const auto again = ParseJob(FormatJob(job->job), "again", {});
  ASSERT_TRUE(again.ok()) << again.status().message().data();
  EXPECT_EQ(FormatJob(again->job), FormatJob(job->job));
  EXPECT_EQ(again->fingerprint, job->fingerprint);
}

struct Case {
  std::string change;
  std::string violation;
};

class ExternalViolationTest : public testing::TestWithParam<Case> {};

TEST_P(ExternalViolationTest, IsSaidOnceWithWhatWasExpected) {
  EXPECT_THAT(Violations(GetParam().change), ElementsAre(GetParam().violation));
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, ExternalViolationTest,
    testing::Values(
        Case{"worker { micro_batch: 7 }",
             "worker.micro_batch: must be data.batch_size (8) or more with "
             "model.external"},
        Case{"worker { clip_norm: 1 }",
             "worker.clip_norm: must be 0 with model.external"},
        Case{"worker { device: CUDA }",
             "worker.device: must be CPU with model.external"},
        Case{"worker { gpus: 1 }",
             "worker.gpus: must be empty with model.external"},
        Case{"model { loss: MEAN_SQUARED_ERROR }",
             "model.loss: must be MODEL_PROCESS with model.external"},
        Case{"model { layer { relu {} } }",
             "model.layer: must be empty with model.external"}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, ExternalViolationTest,
    testing::Values(
        Case{"model { external { tensor { name: 'a b' kind: BIAS } } }",
             "model.external.tensor[5].name: must be 1 to 256 printable "
             "characters of ASCII without spaces, is \"a b\""},
        Case{"model { external { tensor { kind: BIAS } } }",
             "model.external.tensor[5].name: must be 1 to 256 printable "
             "characters of ASCII without spaces, is \"\""},
        Case{"model { external { tensor { name: '0.bias' kind: BIAS } } }",
             "model.external.tensor[5].name: must be another than "
             "model.external.tensor[1]'s, is \"0.bias\" too"},
        Case{"model { external { tensor { name: 'a' } } }",
             "model.external.tensor[5].kind: must be one of WEIGHT, BIAS, "
             "NORM, STATISTIC, is not set"},
        Case{"model { external { tensor { name: 'a' kind: BIAS momentum: 1 } "
             "} }",
             "model.external.tensor[5].momentum: is of a STATISTIC only, and "
             "this tensor is none"},
        Case{"model { external { tensor { name: 'a' kind: STATISTIC momentum: "
             "0 } } }",
             "model.external.tensor[5].momentum: must be above 0 and at most "
             "1, is 0"},
        Case{"model { external { tensor { name: 'a' kind: BIAS shape: "
             "2147483648 shape: 64 } } }",
             "model.external.tensor: must have at most 68719476736 weights in "
             "all, has more up to tensor[5]"},
        Case{"model { external { tensor { name: 'a' kind: BIAS shape: 5 "
             "shape: 0 shape: 4 } } }",
             "model.external.tensor[5].shape[1]: must be 1 to 2147483648, is "
             "0"},
        Case{"data { external { train_samples: -1 } }",
             "data.external.train_samples: must be 1 to 1099511627776, is -1"},
        Case{"data { external { train_samples: 9223372036854775807 } }",
             "data.external.train_samples: must be 1 to 1099511627776, is "
             "9223372036854775807"}));

TEST(ExternalValidationTest, ModelAndDataAreExternalTogether) {
  EXPECT_THAT(Violations("data { linear_regression { features: 2 } }"),
              ElementsAre("data.external: must be set with model.external, is "
                          "not"));
  proto::Job job = Job();
  job.mutable_model()->Clear();
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(
      "model { layer { dense { units: 1 } } loss: MEAN_SQUARED_ERROR }", &job));
  ResolveDefaults(&job);
  EXPECT_THAT(Validate(job),
              ElementsAre("model.external: must be set with data.external, is "
                          "not"));
}

TEST(ExternalValidationTest, TheLossOfAModelProcessNeedsOne) {
  proto::Job job = Job("data { linear_regression { features: 2 } }");
  job.mutable_model()->clear_external();
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(
      "model { layer { dense { units: 1 } } }", &job));
  ResolveDefaults(&job);
  EXPECT_THAT(Validate(job),
              ElementsAre("model.loss: must be another than MODEL_PROCESS "
                          "without model.external"));
}

TEST(ExternalValidationTest, Version0IsAFile) {
  proto::Job job = Job();
  job.mutable_model()->clear_init_from();
  EXPECT_THAT(Validate(job),
              ElementsAre("model.init_from: must name a file with "
                          "model.external, is not set"));
}

TEST(ExternalValidationTest, ATableHasATensor) {
  proto::Job job = Job();
  job.mutable_model()->mutable_external()->clear_tensor();
  EXPECT_THAT(Validate(job), ElementsAre("model.external.tensor: must have at "
                                         "least one, has none"));
}

}  // namespace
}  // namespace sluice

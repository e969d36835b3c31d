#include "common/job/job_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string ParseError(const std::string& text) {
  const absl::Status status = ParseJobText(text, "job.textproto").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ParseJobTextTest, AnUnknownFieldIsNamedWithLineColumnAndAlternatives) {
  EXPECT_EQ(ParseError("name: \"a\"\nsync {\n  policy: K_SYNC\n  kk: 3\n}\n"),
            "job.textproto:4:5: Message type \"sluice.proto.Sync\" has no "
            "field named \"kk\". It has: policy, k, gradients_per_update, "
            "staleness, local_steps, on_shortage, shortage_timeout_s, "
            "on_bad_gradient, warm_start_updates, k_schedule.");
}

TEST(ParseJobTextTest, AnUnknownEnumerationValueIsNamed) {
  EXPECT_EQ(
      ParseError("sync { policy: KSYNC }"),
      "job.textproto:1:22: Unknown enumeration value of \"KSYNC\" for "
      "field \"policy\". It is one of: SYNC, K_SYNC, K_BATCH_SYNC, ASYNC, "
      "K_ASYNC, K_BATCH_ASYNC.");
}

TEST(ParseJobTextTest, EveryOtherMistakeHasAPlaceToo) {
  for (const char* text : {
           "sync {",
           "sync }",
           "cluster { workers: 1 workers: 2 }",
           "cluster { workers: \"two\" }",
           "cluster { workers: 99999999999 }",
           "cluster { workers: 1.5 }",
           "worker { threads: }",
           "name: \"unterminated",
           "name: 3",
           "data { idx {} linear_regression {} }",
           "\x01\xff",
       }) {
    EXPECT_THAT(ParseError(text), StartsWith("job.textproto:1:")) << text;
  }
}

TEST(ParseJobTextTest, AnEmptyTextIsAJobWithNothingSet) {
  const auto job = ParseJobText("", "job");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->ByteSizeLong(), 0);
}

class ApplyOverrideTest : public testing::Test {
 protected:
  ApplyOverrideTest() {
    job_ = *ParseJobText(
        "sync { policy: SYNC k: 2 }"
        "model { layer { relu {} } layer { dense { units: 10 } } }",
        "job");
  }

  void Set(const std::string& text) {
    const absl::Status status = ApplyOverride(text, &job_);
    EXPECT_TRUE(status.ok()) << status;
  }

  // The message of a refused override, which must not change the job.
  std::string Error(const std::string& text) {
    const std::string before = job_.SerializeAsString();
    const absl::Status status = ApplyOverride(text, &job_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(job_.SerializeAsString(), before) << text;
    return std::string(status.message());
  }

  proto::Job job_;
};

TEST_F(ApplyOverrideTest, ScalarsOfEveryTypeAreSet) {
  Set("name=a name, with = in it");
  EXPECT_EQ(job_.name(), "a name, with = in it");
  Set("seed=18446744073709551615");
  EXPECT_EQ(job_.seed(), ~uint64_t{0});
  Set("sync.k=3");
  EXPECT_EQ(job_.sync().k(), 3);
  Set("data.shuffle=false");
  EXPECT_FALSE(job_.data().shuffle());
  Set("optimizer.learning_rate=1e-3");
  EXPECT_EQ(job_.optimizer().learning_rate(), 1e-3);
  Set("data.idx.mean=-0.5");
  EXPECT_EQ(job_.data().idx().mean(), -0.5);
  Set("sync.policy=K_ASYNC");
  EXPECT_EQ(job_.sync().policy(), proto::K_ASYNC);
}

TEST_F(ApplyOverrideTest, NestedMessagesAndOneofMembersAreMade) {
  Set("sync.staleness.action=DOWNWEIGHT");
  EXPECT_EQ(job_.sync().staleness().action(), proto::Staleness::DOWNWEIGHT);
  Set("schedule.step.every_epochs=2");
  Set("schedule.cosine.epochs=5");
  EXPECT_FALSE(job_.schedule().has_step());
  EXPECT_EQ(job_.schedule().cosine().epochs(), 5);
}

TEST_F(ApplyOverrideTest, AnElementIsReachedByItsIndex) {
  Set("model.layer[1].dense.units=64");
  EXPECT_EQ(job_.model().layer(1).dense().units(), 64);
  Set("model.layer[0]={tanh {}}");
  EXPECT_TRUE(job_.model().layer(0).has_tanh());
}

TEST_F(ApplyOverrideTest, AWholeMessageTakesTheOldOnesPlace) {
  Set("sync={policy: K_SYNC}");
  EXPECT_EQ(job_.sync().policy(), proto::K_SYNC);
  EXPECT_FALSE(job_.sync().has_k());
  EXPECT_THAT(Error("sync={nonsense: 1}"), HasSubstr("\"nonsense\""));
}

TEST_F(ApplyOverrideTest, AWholeListTakesTheOldOnesPlace) {
  for (int i = 0; i < 2; ++i) {
    Set("delays.worker_factor=[1, 2.5]");
    EXPECT_THAT(job_.delays().worker_factor(), ElementsAre(1, 2.5));
  }
  Set("delays.worker_factor=[]");
  EXPECT_THAT(job_.delays().worker_factor(), IsEmpty());
  Set("data.text.train=['a b', 'c']");
  EXPECT_THAT(job_.data().text().train(), ElementsAre("a b", "c"));
  Set("model.layer=[{tanh {}}]");
  ASSERT_EQ(job_.model().layer_size(), 1);
  EXPECT_TRUE(job_.model().layer(0).has_tanh());
  EXPECT_EQ(Error("delays.worker_factor=2"),
            "--set delays.worker_factor: is a list: set worker_factor[0] or "
            "another that is there, or give [...], got \"2\"");
  EXPECT_THAT(Error("delays.worker_factor=[fast]"),
              StartsWith("--set delays.worker_factor=[...]:1:17: "));
}

// Once, a string ended the process and a number was appended.
TEST_F(ApplyOverrideTest, AnElementOfAListOfValuesIsReplaced) {
  Set("delays.worker_factor=[1, 2, 3]");
  Set("delays.worker_factor[1]=9");
  EXPECT_THAT(job_.delays().worker_factor(), ElementsAre(1, 9, 3));
  Set("data.text.train=['a', 'b']");
  Set("data.text.train[0]=c");
  EXPECT_THAT(job_.data().text().train(), ElementsAre("c", "b"));
  EXPECT_THAT(Error("delays.worker_factor[0]=fast"),
              HasSubstr("delays.worker_factor[0]: expected double"));
}

TEST_F(ApplyOverrideTest, AnUnknownPartIsNamedWithWhatThereIs) {
  EXPECT_EQ(Error("cluster.wrokers=4"),
            "--set cluster.wrokers: Cluster has no field named \"wrokers\". It "
            "has: workers, shards, coordinator, max_workers.");
  EXPECT_THAT(Error("clutser.workers=4"),
              HasSubstr("Job has no field named \"clutser\""));
  EXPECT_THAT(Error("sync.k.more=4"),
              HasSubstr("sync.k: is a value and has no field named \"more\""));
  EXPECT_THAT(Error("model.layer[0].relu.slope=1"),
              HasSubstr("It has no fields."));
}

TEST_F(ApplyOverrideTest, AWrongIndexIsAnsweredWithTheRange) {
  EXPECT_EQ(Error("model.layer[2].dense.units=64"),
            "--set model.layer: expected the index of one, got \"layer[2]\"; "
            "there are model.layer[0] to model.layer[1]");
  for (const char* path : {"model.layer", "model.layer[]", "model.layer[-1]",
                           "model.layer[x]", "model.layer[0", "model.layer[0]]",
                           "model.layer[0][0]", "model.layer[99999999999]"}) {
    EXPECT_THAT(Error(std::string(path) + ".dense.units=64"),
                HasSubstr("expected the index"));
  }
  EXPECT_THAT(Error("sync[0].k=1"), HasSubstr("takes no index"));
  job_.clear_model();
  EXPECT_THAT(Error("model.layer[0].dense.units=64"),
              HasSubstr("there are none"));
}

TEST_F(ApplyOverrideTest, AWrongValueIsAnsweredWithTheTypeOrTheNames) {
  EXPECT_EQ(Error("sync.k=three"),
            "--set sync.k: expected int32, got \"three\"");
  EXPECT_EQ(Error("worker.device=GPU"),
            "--set worker.device: expected one of AUTO, CPU, CUDA, REFERENCE, "
            "got \"GPU\"");
  for (const char* text :
       {"sync.k=", "sync.k=1.5", "sync.k=99999999999", "sync.k=3 seed: 1",
        "sync.k=3#", "sync.k=3;", "seed=-1", "data.shuffle=maybe",
        "optimizer.learning_rate=fast", "worker.device=1",
        "worker.device=DEVICE_UNSPECIFIED", "sync.policy=k_sync"}) {
    EXPECT_THAT(Error(text), HasSubstr(": expected ")) << text;
  }
  EXPECT_THAT(Error("cluster=4"), HasSubstr("It has: workers, shards"));
  EXPECT_THAT(Error("sync.k"), HasSubstr("expected field=value"));
  EXPECT_THAT(Error(""), HasSubstr("expected field=value"));
  EXPECT_THAT(Error("=3"), HasSubstr("has no field named \"\""));
  EXPECT_THAT(Error("sync..k=3"), HasSubstr("has no field named \"\""));
}

TEST_F(ApplyOverrideTest, NothingMayFollowAList) {
  EXPECT_EQ(
      Error("worker.gpus=[0] threads: 8 gpus: [1]"),
      "--set worker.gpus: expected one list, got \"[0] threads: 8 gpus: [1]\"");
}

TEST_F(ApplyOverrideTest, WhatIsTooDeepIsRefused) {
  std::string open, close;
  for (int i = 0; i < 10000; ++i) {
    open += "{residual{layer";
    close += "}}";
  }
  EXPECT_THAT(Error("model.layer=[" + open + "{}" + close + "]"),
              HasSubstr("too deep"));
  EXPECT_THAT(Error("model={layer" + open + "{}" + close + "}"),
              HasSubstr("too deep"));
}

}  // namespace
}  // namespace sluice

#include "ps_server/decisions/event_conversion.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/testing/whole_message.h"
#include "gtest/gtest.h"

// What is sent or recorded is compared as a whole, and every field of the
// message must be set: what a conversion forgets fails here.
namespace sluice {
namespace {

const GradientKey kKey{Generation(1), WorkerId(2), Incarnation(3), Sequence(4)};
constexpr char kKeyText[] =
    "generation: 1 worker: 2 incarnation: 3 sequence: 4";

// Of a message to or from the coordinator: the session numbers it.
const std::vector<std::string> kOfTheSession = {"sequence", "ack", "behind"};

std::string WithKey(const std::string& text) {
  return absl::StrReplaceAll(text, {{"KEY", kKeyText}});
}

struct DecisionCase {
  AnyDecision what;
  std::string text;  // In FromCoordinator.decision.
};

std::vector<DecisionCase> Decisions() {
  GradientKey second = kKey;
  second.worker = WorkerId(9);
  return {
      {Restore{Generation(3), Version(5), "a secret", Generation(2), "mine",
               "a manifest"},
       "restore { generation: 3 version: 5 grant_secret: 'a secret' "
       "checkpoint_generation: 2 run_id: 'mine' manifest: 'a manifest' }"},
      {Fold{Version(7), 0.75, {{second, 0.5f}}},
       "fold { version: 7 total_weight: 0.75 entry { key { generation: 1 "
       "worker: 9 incarnation: 3 sequence: 4 } weight: 0.5 } }"},
      {Commit{Version(7), 0.125, {{second, 0.5f}, {kKey, 0.25f}}, true, 1},
       "commit { version: 7 learning_rate: 0.125 pin: true folded: 1 "
       "entry { key { generation: 1 worker: 9 incarnation: 3 sequence: 4 } "
       "weight: 0.5 } entry { key { KEY } weight: 0.25 } }"},
      {Discard{{second, kKey}},
       "discard { key { generation: 1 worker: 9 incarnation: 3 sequence: 4 } "
       "key { KEY } }"},
      {Pin{Version(7)}, "pin: 7"},
      {Release{Version(7)}, "release: 7"},
      {Store{Version(7), {Generation(2), Version(4)}},
       "store { version: 7 oldest_generation: 2 oldest_version: 4 }"},
  };
}

TEST(EventConversionTest, EveryKindOfDecisionSurvivesTheWire) {
  for (const DecisionCase& c : Decisions()) {
    SCOPED_TRACE(c.text);
    const proto::FromCoordinator sent = DecisionToProto({11, c.what});
    ExpectWhole(sent, WithKey("decision { number: 11 " + c.text + " }"),
                kOfTheSession);
    const absl::StatusOr<Decision> received =
        DecisionFromProto(sent.decision());
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->number, 11);
    EXPECT_EQ(received->what, c.what);
  }
  EXPECT_EQ(Decisions().size(), std::variant_size_v<AnyDecision>);
}

TEST(EventConversionTest, ADecisionOfNoKindIsRefused) {
  proto::Decision decision;
  decision.set_number(12);
  const absl::Status status = DecisionFromProto(decision).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "decision 12 is of no known kind");
  decision.mutable_discard();
  EXPECT_EQ(DecisionFromProto(decision).status().message(),
            "decision 12 discards nothing");
}

TEST(EventConversionTest, ATaskIsSentWhole) {
  ExpectWhole(
      TaskToProto({.key = kKey,
                   .first_batch = BatchId(12),
                   .batches = 2,
                   .version = Version(13),
                   .exact = true,
                   .local_learning_rate = 0.5},
                  "a grant"),
      WithKey("task { key { KEY } grant: 'a grant' first_batch: 12 batches: 2 "
              "version: 13 exact: true local_learning_rate: 0.5 }"),
      kOfTheSession);
}

TEST(EventConversionTest, ACancellationSaysWhy) {
  ExpectWhole(CancelToProto({kKey, "version 8 is there"}),
              WithKey("cancel { key { KEY } reason: 'version 8 is there' }"),
              kOfTheSession);
}

TEST(EventConversionTest, AVerdictSaysWhatBecameOfTheGradientAndWhy) {
  const std::pair<Outcome, std::string> outcomes[] = {
      {Outcome::kApplied, "APPLIED"}, {Outcome::kCancelled, "CANCELLED"},
      {Outcome::kDropped, "DROPPED"}, {Outcome::kRejected, "REJECTED"},
      {Outcome::kLost, "LOST"},
  };
  for (const auto& [outcome, name] : outcomes) {
    ExpectWhole(VerdictToProto({kKey, outcome, "staleness 9", Version(7)}),
                WithKey("verdict { key { KEY } outcome: " + name +
                        " reason: 'staleness 9' version: 7 }"),
                kOfTheSession);
  }
}

TEST(EventConversionTest, AnEvaluationIsAskedForWithItsVersion) {
  ExpectWhole(EvaluateToProto({Version(7), true}),
              "evaluate { version: 7 final: true }", kOfTheSession);
}

TEST(EventConversionTest, TheEndOfTheRunSaysWhyAndWhatFailed) {
  ExpectWhole(FinishToProto({"worker 1 died", "no worker is left"}),
              "finish { failure: 'worker 1 died' reason: 'no worker is left' }",
              kOfTheSession);
}

TEST(EventConversionTest, ADeliveryNamesTheBaseOnEveryShard) {
  proto::Ready ready;
  *ready.mutable_key() =
      DecisionToProto({1, Discard{{kKey}}}).decision().discard().key(0);
  ready.add_shard_base(5);
  ready.add_shard_base(6);
  ready.set_samples(64);
  ready.set_loss(0.5);
  ready.set_pull_seconds(1);
  ready.set_compute_seconds(2);
  ready.set_push_seconds(3);
  (*ready.mutable_logged())["norm"] = 4;
  EXPECT_EQ(UnsetFields(ready), std::vector<std::string>());
  const auto delivery = DeliveryFromProto(ready);
  ASSERT_TRUE(delivery.ok());
  EXPECT_EQ(*delivery, (Delivery{.key = kKey,
                                 .shard_bases = {Version(5), Version(6)},
                                 .samples = 64,
                                 .loss = 0.5,
                                 .compute_seconds = 2,
                                 .pull_seconds = 1,
                                 .push_seconds = 3,
                                 .logged = {{"norm", 4}}}));
}

TEST(EventConversionTest, AnEvaluationArrivesWhole) {
  proto::Evaluated evaluated;
  evaluated.set_version(7);
  evaluated.set_loss(0.5);
  evaluated.set_accuracy(0.75);
  evaluated.set_samples(64);
  evaluated.set_weights_sha256("ab");
  evaluated.set_error("no data");
  (*evaluated.mutable_logged())["f1"] = 0.25;
  EXPECT_EQ(UnsetFields(evaluated), std::vector<std::string>());
  const auto evaluation = EvaluationFromProto(evaluated);
  ASSERT_TRUE(evaluation.ok());
  EXPECT_EQ(
      *evaluation,
      (Evaluation{Version(7), 0.5, 0.75, 64, "ab", "no data", {{"f1", 0.25}}}));
}

TEST(EventConversionTest, WhatIsLoggedUnderNoNameIsRefused) {
  proto::Ready ready;
  (*ready.mutable_logged())["a b"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(DeliveryFromProto(ready).status()));
  proto::Evaluated evaluated;
  (*evaluated.mutable_logged())["a b"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(EvaluationFromProto(evaluated).status()));
}

TEST(EventConversionTest, ARegressionHasNoAccuracy) {
  proto::Evaluated evaluated;
  evaluated.set_loss(0.5);
  EXPECT_FALSE(EvaluationFromProto(evaluated)->accuracy.has_value());
  evaluated.set_accuracy(0);
  EXPECT_EQ(EvaluationFromProto(evaluated)->accuracy, 0.0);
}

TEST(EventConversionTest, AJoinWithoutARoleOrWithANegativeIdIsRefused) {
  proto::Join join;
  EXPECT_EQ(PeerFromProto("Join", join.role(), join.id()).status().message(),
            "Join.role: must be WORKER, SHARD or EVALUATOR, is 0");
  join.set_role(proto::WORKER);
  join.set_id(-1);
  EXPECT_EQ(PeerFromProto("Join", join.role(), join.id()).status().message(),
            "Join.id: must be at least 0, is -1");
  join.set_id(3);
  EXPECT_EQ(*PeerFromProto("Join", join.role(), join.id()),
            (Peer{Role::kWorker, 3}));
}

TEST(EventConversionTest, AShardAnswersAStoreWithItsFileOrWithWhatFailed) {
  proto::CheckpointFile file;
  file.set_name("shard-1.safetensors");
  file.set_begin(16);
  file.set_end(47);
  file.set_bytes(999);
  file.set_header_checksum(0xFEDCBA9876543210u);
  file.set_host("hostB");
  file.set_path("/local/shard-1.safetensors");
  EXPECT_EQ(UnsetFields(file), std::vector<std::string>());
  const proto::ToCoordinator stored =
      StoredToProto(Generation(2), Version(7), file);
  ExpectWhole(stored,
              "stored { generation: 2 version: 7 file { " +
                  file.ShortDebugString() + " } }",
              {"sequence", "ack", "stored.error"});
  EXPECT_EQ(StoredPartFromProto(stored.stored()),
            (StoredPart{"shard-1.safetensors", 16, 47, 999, 0xFEDCBA9876543210u,
                        "", "hostB", "/local/shard-1.safetensors"}));

  const proto::ToCoordinator failed = StoredToProto(
      Generation(2), Version(7), absl::UnavailableError("no room"));
  ExpectWhole(failed, "stored { generation: 2 version: 7 error: 'no room' }",
              {"sequence", "ack", "stored.file"});
  EXPECT_EQ(StoredPartFromProto(failed.stored()),
            (StoredPart{"", 0, 0, 0, 0, "no room"}));
}

TEST(EventConversionTest, ACommitIsRecordedWithAllThatDecidesItsBits) {
  RecordCommit record;
  record.version = Version(8);
  record.learning_rate = 0.1;
  record.entries.push_back({.key = kKey,
                            .first_batch = BatchId(20),
                            .batches = 2,
                            .shard_bases = {Version(6), Version(7)},
                            .weight = 0.5f,
                            .samples = 64,
                            .loss = 2.5,
                            .waited = absl::Milliseconds(1500)});
  ExpectWhole(RecordToProto(record),
              "commit { version: 8 learning_rate: 0.1 entry { worker: 2 "
              "incarnation: 3 sequence: 4 first_batch: 20 batches: 2 "
              "shard_base: [6, 7] weight: 0.5 samples: 64 loss: 2.5 "
              "waited_seconds: 1.5 } }",
              {"seconds"});
}

TEST(EventConversionTest, ABaseThatAllShardsShareIsRecordedOnce) {
  RecordCommit record;
  record.entries.emplace_back().shard_bases = {Version(6), Version(6)};
  const proto::LogRecord logged = RecordToProto(record);
  ASSERT_EQ(logged.commit().entry(0).shard_base_size(), 1);
  EXPECT_EQ(logged.commit().entry(0).shard_base(0), 6);
}

TEST(EventConversionTest, ATaskIsRecordedWhole) {
  ExpectWhole(RecordToProto(RecordTask{{.key = kKey,
                                        .first_batch = BatchId(5),
                                        .batches = 2,
                                        .version = Version(13),
                                        .exact = true,
                                        .local_learning_rate = 0.25}}),
              "task { worker: 2 incarnation: 3 sequence: 4 first_batch: 5 "
              "batches: 2 version: 13 local_learning_rate: 0.25 }",
              {"seconds"});
}

TEST(EventConversionTest, AnEndIsRecordedWhole) {
  ExpectWhole(RecordToProto(RecordEnd{kKey, Outcome::kDropped, "staleness 9",
                                      absl::Milliseconds(1500),
                                      /*worker_lost=*/true}),
              "end { worker: 2 incarnation: 3 sequence: 4 outcome: 3 "
              "reason: 'staleness 9' waited_seconds: 1.5 worker_lost: true }",
              {"seconds"});
}

TEST(EventConversionTest, WhatTheRunComputesWithIsRecorded) {
  const std::vector<proto::LogRecord> records =
      RecordsOf({RecordInstructionSet{proto::AVX512}}, 2.5);
  ASSERT_EQ(records.size(), 1);
  EXPECT_TRUE(records[0].has_instruction_set());
  EXPECT_EQ(records[0].instruction_set(), proto::AVX512);
  EXPECT_EQ(records[0].seconds(), 2.5);
}

TEST(EventConversionTest, WhatTheRunBeganWithIsRecorded) {
  ExpectWhole(RecordToProto(RecordInputs{{{"training data", "a"}}}),
              "inputs { inputs { key: 'training data' value: 'a' } }",
              {"seconds"});
}

TEST(EventConversionTest, DigestsAreRecordedAsTheShardSentThem) {
  proto::Executed executed;
  executed.set_version(100);
  executed.add_digest(7);
  executed.add_digest(0xffffffffffffffff);
  const RecordDigests record = DigestsFromProto(ShardId(3), executed);
  const std::vector<proto::LogRecord> records = RecordsOf({record}, 2.5);
  ASSERT_EQ(records.size(), 1);
  ExpectWhole(records[0],
              "seconds: 2.5 digests { shard: 3 version: 100 "
              "digest: [7, 0xffffffffffffffff] }");
}

TEST(EventConversionTest, OnlyWhatIsToBeRecordedIsAndInOrder) {
  RecordCommit commit;
  commit.version = Version(2);
  const std::vector<proto::LogRecord> records =
      RecordsOf({RecordTask{}, SendTask{}, commit, Announce{}, RecordEnd{}}, 1);
  ASSERT_EQ(records.size(), 3);
  EXPECT_TRUE(records[0].has_task());
  EXPECT_EQ(records[1].commit().version(), 2);
  EXPECT_TRUE(records[2].has_end());
}

}  // namespace
}  // namespace sluice

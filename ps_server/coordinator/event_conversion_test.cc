#include "ps_server/coordinator/event_conversion.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

const GradientKey kKey{Generation(1), WorkerId(2), Incarnation(3), Sequence(4)};

TEST(EventConversionTest, EveryKindOfDecisionSurvivesTheWire) {
  Commit commit;
  commit.version = Version(7);
  commit.learning_rate = 0.125;
  commit.entries = {{kKey, 0.5f}, {kKey, 0.25f}};
  commit.pin = true;
  const Decision decisions[] = {
      {1,
       Restore{Generation(3), Version(5), 0xFEDCBA9876543210u, Generation(2)}},
      {2, commit},
      {3, Discard{kKey}},
      {4, Pin{Version(7)}},
      {5, Release{Version(7)}},
      {6, Store{Version(7)}},
  };
  for (const Decision& decision : decisions) {
    const proto::FromCoordinator sent = DecisionToProto(decision);
    const absl::StatusOr<Decision> received =
        DecisionFromProto(sent.decision());
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->number, decision.number);
    EXPECT_EQ(received->what.index(), decision.what.index());
    EXPECT_EQ(DecisionToProto(*received).SerializeAsString(),
              sent.SerializeAsString());
  }
}

TEST(EventConversionTest, ACommitKeepsItsEntriesInOrder) {
  Commit commit;
  commit.version = Version(7);
  GradientKey second = kKey;
  second.worker = WorkerId(9);
  commit.entries = {{second, 0.5f}, {kKey, 0.25f}};
  const auto message = DecisionToProto({1, commit}).decision().commit();
  ASSERT_EQ(message.entry_size(), 2);
  EXPECT_EQ(message.entry(0).key().worker(), 9);
  EXPECT_EQ(message.entry(0).weight(), 0.5f);
  EXPECT_EQ(message.entry(1).key().worker(), 2);
}

TEST(EventConversionTest, ADecisionOfNoKindIsRefused) {
  proto::Decision decision;
  decision.set_number(12);
  const absl::Status status = DecisionFromProto(decision).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "decision 12 is of no known kind");
}

TEST(EventConversionTest, ATaskCarriesEveryField) {
  const proto::Task task = TaskToProto({.key = kKey,
                                        .grant = 11,
                                        .first_batch = BatchId(12),
                                        .batches = 2,
                                        .version = Version(13),
                                        .exact = true,
                                        .local_learning_rate = 0.5})
                               .task();
  EXPECT_EQ(task.key().generation(), 1);
  EXPECT_EQ(task.key().worker(), 2);
  EXPECT_EQ(task.key().incarnation(), 3);
  EXPECT_EQ(task.key().sequence(), 4);
  EXPECT_EQ(task.grant(), 11);
  EXPECT_EQ(task.first_batch(), 12);
  EXPECT_EQ(task.batches(), 2);
  EXPECT_EQ(task.version(), 13);
  EXPECT_TRUE(task.exact());
  EXPECT_EQ(task.local_learning_rate(), 0.5);
}

TEST(EventConversionTest, AVerdictSaysWhatBecameOfTheGradientAndWhy) {
  const proto::Verdict verdict =
      VerdictToProto({kKey, Outcome::kDropped, "staleness 9", Version(0)})
          .verdict();
  EXPECT_EQ(verdict.outcome(), proto::DROPPED);
  EXPECT_EQ(verdict.reason(), "staleness 9");
}

TEST(EventConversionTest, ADeliveryNamesTheBaseOnEveryShard) {
  proto::Ready ready;
  ready.mutable_key()->set_worker(2);
  ready.add_shard_base(5);
  ready.add_shard_base(6);
  ready.set_samples(64);
  ready.set_loss(0.5);
  const Delivery delivery = DeliveryFromProto(ready);
  EXPECT_EQ(delivery.key.worker, WorkerId(2));
  ASSERT_EQ(delivery.shard_bases.size(), 2);
  EXPECT_EQ(delivery.shard_bases[1], Version(6));
  EXPECT_EQ(delivery.samples, 64);
  EXPECT_EQ(delivery.loss, 0.5);
}

TEST(EventConversionTest, ARegressionHasNoAccuracy) {
  proto::Evaluated evaluated;
  evaluated.set_loss(0.5);
  EXPECT_FALSE(EvaluationFromProto(evaluated).accuracy.has_value());
  evaluated.set_accuracy(0);
  EXPECT_EQ(EvaluationFromProto(evaluated).accuracy, 0.0);
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

TEST(EventConversionTest, AStoredPartIsAFileOrAnError) {
  proto::Stored stored;
  stored.mutable_file()->set_name("shard-1.safetensors");
  stored.mutable_file()->set_begin(16);
  stored.mutable_file()->set_end(47);
  stored.mutable_file()->set_bytes(999);
  stored.mutable_file()->set_header_checksum(0xFEDCBA9876543210u);
  const StoredPart part = StoredPartFromProto(stored);
  EXPECT_EQ(part.file, "shard-1.safetensors");
  EXPECT_EQ(part.begin, 16);
  EXPECT_EQ(part.end, 47);
  EXPECT_EQ(part.bytes, 999);
  EXPECT_EQ(part.header_checksum, 0xFEDCBA9876543210u);
  EXPECT_EQ(part.error, "");
  stored.set_error("no room");
  EXPECT_EQ(StoredPartFromProto(stored).error, "no room");
}

TEST(EventConversionTest, AShardAnswersAStoreWithItsFileOrWithWhatFailed) {
  proto::CheckpointFile file;
  file.set_name("shard-1.safetensors");
  const proto::Stored stored =
      StoredToProto(Generation(2), Version(7), file).stored();
  EXPECT_EQ(stored.generation(), 2);
  EXPECT_EQ(stored.version(), 7);
  EXPECT_EQ(StoredPartFromProto(stored).file, "shard-1.safetensors");
  EXPECT_EQ(StoredPartFromProto(stored).error, "");
  const proto::Stored failed = StoredToProto(Generation(2), Version(7),
                                             absl::UnavailableError("no room"))
                                   .stored();
  EXPECT_EQ(failed.version(), 7);
  EXPECT_EQ(StoredPartFromProto(failed).file, "");
  EXPECT_EQ(StoredPartFromProto(failed).error, "no room");
}

TEST(EventConversionTest, TheStatusSaysWhatBecameOfCheckpoints) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  JobState state;
  EXPECT_FALSE(StatusToProto(state, now).has_checkpoint());
  state.checkpoints.emplace();
  EXPECT_FALSE(StatusToProto(state, now).checkpoint().has_newest_version());
  *state.checkpoints = {
      Version(8), 2, 1, 3, "no room", Version(9), now - absl::Seconds(4)};
  const proto::CheckpointStatus status = StatusToProto(state, now).checkpoint();
  EXPECT_EQ(status.newest_version(), 8);
  EXPECT_EQ(status.written(), 2);
  EXPECT_EQ(status.failed(), 1);
  EXPECT_EQ(status.late(), 3);
  EXPECT_EQ(status.last_error(), "no room");
  EXPECT_EQ(status.writing_version(), 9);
  EXPECT_EQ(status.writing_s(), 4);
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
  const proto::LogCommit commit = RecordToProto(record).commit();
  EXPECT_EQ(commit.version(), 8);
  EXPECT_EQ(commit.learning_rate(), 0.1);
  ASSERT_EQ(commit.entry_size(), 1);
  EXPECT_EQ(commit.entry(0).worker(), 2);
  EXPECT_EQ(commit.entry(0).incarnation(), 3);
  EXPECT_EQ(commit.entry(0).sequence(), 4);
  EXPECT_EQ(commit.entry(0).first_batch(), 20);
  EXPECT_EQ(commit.entry(0).batches(), 2);
  EXPECT_EQ(commit.entry(0).shard_base(1), 7);
  EXPECT_EQ(commit.entry(0).weight(), 0.5f);
  EXPECT_EQ(commit.entry(0).samples(), 64);
  EXPECT_EQ(commit.entry(0).loss(), 2.5);
  EXPECT_EQ(commit.entry(0).waited_seconds(), 1.5);
}

TEST(EventConversionTest, ATaskIsRecordedWithTheRateOfItsLocalSteps) {
  Task task;
  task.key = kKey;
  task.first_batch = BatchId(5);
  task.local_learning_rate = 0.25;
  const proto::LogTask logged = RecordToProto(RecordTask{task}).task();
  EXPECT_EQ(logged.first_batch(), 5);
  EXPECT_EQ(logged.local_learning_rate(), 0.25);
}

TEST(EventConversionTest, DigestsAreRecordedAsTheShardSentThem) {
  proto::Executed executed;
  executed.set_version(100);
  executed.add_digest(7);
  executed.add_digest(0xffffffffffffffff);
  const RecordDigests record = DigestsFromProto(ShardId(3), executed);
  const std::vector<proto::LogRecord> records = RecordsOf({record}, 2.5);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].seconds(), 2.5);
  EXPECT_EQ(records[0].digests().shard(), 3);
  EXPECT_EQ(records[0].digests().version(), 100);
  ASSERT_EQ(records[0].digests().digest_size(), 2);
  EXPECT_EQ(records[0].digests().digest(1), 0xffffffffffffffff);
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

TEST(EventConversionTest, TheStatusNamesWhoIsWaitedForAndForHowLong) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  JobState state;
  state.phase = Phase::kStarting;
  state.waiting_for = "worker 1";
  state.waiting_since = now - absl::Seconds(7);
  state.workers.resize(2);
  state.workers[0].life = PeerLife::kAlive;
  state.workers[0].computing = true;
  state.workers[0].last_heard = now - absl::Seconds(2);
  const proto::JobStatus status = StatusToProto(state, now);
  EXPECT_EQ(status.phase(), "starting");
  EXPECT_EQ(status.waiting_for(), "worker 1");
  EXPECT_EQ(status.waiting_s(), 7);
  ASSERT_EQ(status.worker_size(), 2);
  EXPECT_EQ(status.worker(0).state(), "computing");
  EXPECT_EQ(status.worker(0).last_heard_s(), 2);
  EXPECT_EQ(status.worker(1).state(), "missing");
  EXPECT_FALSE(status.has_test_accuracy());
}

}  // namespace
}  // namespace sluice

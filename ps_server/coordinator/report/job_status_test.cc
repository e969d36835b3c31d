#include "ps_server/coordinator/report/job_status.h"

#include "absl/time/time.h"
#include "common/testing/whole_message.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A state of which everything can be said.
JobState FullState(absl::Time now) {
  JobState state;
  state.phase = Phase::kRecovering;
  state.message = "shard 1 died";
  state.generation = Generation(2);
  state.version = Version(40);
  state.epoch = 1.5;
  state.progress = 0.25;
  state.loss = 0.5;
  state.learning_rate = 0.125;
  state.logged = {{"norm", 0.5}};
  state.last_evaluation = Evaluation{Version(30), 0.75, 0.875, 64, "", ""};
  state.checkpoints = {
      Version(8), {2, 1, 3}, "no room", Version(9), now - absl::Seconds(4)};
  state.recovery = {Version(8), 17, "shard 1 died"};
  state.running = absl::Seconds(90);
  state.mean_staleness = 0.375;
  state.staleness_histogram = {5, 3};
  state.counters.samples_applied = 2560;
  state.workers = {{WorkerId(1),
                    PeerLife::kAlive,
                    true,
                    Incarnation(2),
                    now - absl::Seconds(2),
                    {6, 7, 8, 9, 10},
                    "host:1",
                    {{"tasks", 11}, {"certificate_seconds_left", 7200}},
                    {"host:1", "host:2"},
                    "left: a mistake",
                    "group 1, slot 0",
                    /*extra=*/true}};
  state.shards = {{ShardId(1),
                   PeerLife::kAlive,
                   Version(39),
                   now - absl::Seconds(3),
                   "host:7000",
                   "host:2",
                   {{"pulls", 12}, {"certificate_seconds_left", 3600}}}};
  state.waiting_for = "worker 0";
  state.waiting_since = now - absl::Seconds(7);
  return state;
}

TEST(JobStatusTest, ItSaysAllThatIsKnown) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  proto::JobStatus status = StatusToProto(FullState(now), now);
  // cli/report/counters_test looks at each of them.
  EXPECT_EQ(status.counters().at("samples"), 2560);
  status.clear_counters();
  status.clear_task_time();  // The next test looks at it.
  ExpectWhole(
      status, R"pb(
        phase: "recovering"
        message: "shard 1 died"
        generation: 2
        version: 40
        epoch: 1.5
        loss: 0.5
        test_loss: 0.75
        test_accuracy: 0.875
        test_version: 30
        seconds: 90
        mean_staleness: 0.375
        staleness_histogram: [ 5, 3 ]
        worker {
          id: 1
          state: "computing"
          incarnation: 2
          last_heard_s: 2
          gradients { applied: 6 cancelled: 7 dropped: 8 rejected: 9 lost: 10 }
          process: "host:1"
          counters { key: "certificate_seconds_left" value: 7200 }
          counters { key: "tasks" value: 11 }
          members: [ "host:1", "host:2" ]
          place: "group 1, slot 0"
          last_loss: "left: a mistake"
          extra: true
        }
        shard {
          id: 1
          state: "serving"
          version: 39
          last_heard_s: 3
          address: "host:7000"
          process: "host:2"
          counters { key: "certificate_seconds_left" value: 3600 }
          counters { key: "pulls" value: 12 }
        }
        waiting_for: "worker 0"
        waiting_s: 7
        learning_rate: 0.125
        progress: 0.25
        checkpoint {
          newest_version: 8
          last_error: "no room"
          writing_version: 9
          writing_s: 4
        }
        recovery { restored_version: 8 updates_lost: 17 reason: "shard 1 died" }
        certificate_expires_s: 3600
        certificate_of: "shard 1"
        logged { key: "norm" value: 0.5 }
      )pb",
      // The caller's: the state knows neither the job nor rates.
      {"name", "epochs_total", "updates_per_second", "samples_per_second",
       "policy", "run_id", "counters", "insecure", "task_time"});
}

TEST(JobStatusTest, ItSaysHowLongEachPhaseOfTheTasksTook) {
  JobState state;
  state.task_times.pull.Add(0.25);
  state.task_times.compute.Add(2);
  state.task_times.compute.Add(3);
  const proto::JobStatus status = StatusToProto(state, absl::UnixEpoch());
  ASSERT_EQ(status.task_time_size(), 3);
  const proto::TaskTime& pull = status.task_time(0);
  EXPECT_EQ(pull.phase(), "pull");
  EXPECT_EQ(pull.seconds(), 0.25);
  EXPECT_EQ(pull.histogram_size(), PhaseTimes::kBins);
  EXPECT_EQ(pull.histogram(8), 1) << "above 0.128 s, at most 0.256";
  EXPECT_EQ(status.task_time(1).phase(), "compute");
  EXPECT_EQ(status.task_time(1).seconds(), 5);
  EXPECT_EQ(status.task_time(2).phase(), "push");
  EXPECT_EQ(status.task_time(2).histogram(0), 0);
}

TEST(JobStatusTest, ItLeavesOutWhatThereIsNot) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  JobState state;
  state.workers.resize(1);
  const proto::JobStatus status = StatusToProto(state, now);
  EXPECT_EQ(status.phase(), "starting");
  EXPECT_EQ(status.worker(0).state(), "missing");
  EXPECT_EQ(status.worker(0).last_heard_s(), 0);
  EXPECT_FALSE(status.has_test_accuracy());
  EXPECT_FALSE(status.has_checkpoint());
  EXPECT_FALSE(status.has_recovery());
  state.checkpoints.emplace();
  const proto::JobStatus with = StatusToProto(state, now);
  EXPECT_FALSE(with.checkpoint().has_newest_version());
  EXPECT_FALSE(with.checkpoint().has_writing_version());
}

}  // namespace
}  // namespace sluice

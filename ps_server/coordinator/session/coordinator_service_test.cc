#include "ps_server/coordinator/session/coordinator_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/key_proto.h"
#include "common/process/process_setup.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_service_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::ExpectNumbered;
using ::sluice::testing::FakePeer;
using ::sluice::testing::JoinFrame;
using ::sluice::testing::kPatience;
using ::sluice::testing::Lead;
using ::sluice::testing::Peers;
using ::sluice::testing::RunOf;

TEST(CoordinatorServiceTest, ARunReachesItsEndAndEverybodyHearsOfIt) {
  Lead lead(RunOf(2, 3, 50));
  Peers peers(lead, 2, 3);
  const auto end = std::get<FinishRun>(lead.service().AwaitEnd());
  EXPECT_EQ(end.failure, "");
  EXPECT_EQ(lead.service().State().version, Version(50));
  for (auto& peer : peers.all) {
    ASSERT_TRUE(peer->AwaitConnected().ok());
    EXPECT_TRUE(peer->client().Wait().ok());
    ExpectNumbered(peer->received());
    EXPECT_TRUE(peer->received().back().has_finish());
  }
}

TEST(CoordinatorServiceTest, AReadyThatCameWithItsGradientCountsOnce) {
  Lead lead(RunOf(1, 1, 20));
  const auto say = [&](const proto::Ready& ready) {
    const GradientKey key = KeyFromProto(ready.key());
    const std::string bytes = ready.SerializeAsString();
    GradientKey other = key;
    ++other.sequence;
    const absl::Status wrong = lead.service().OnPushedReady(other, bytes);
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(wrong.message(),
              absl::StrCat("gradient ", other.ToString(), " comes with ",
                           bytes.size(), " bytes that are no Ready for it"));
    EXPECT_TRUE(
        absl::IsInvalidArgument(lead.service().OnPushedReady(key, "\xff\xff")));
    EXPECT_TRUE(lead.service().OnPushedReady(key, bytes).ok());
    // As a push that is repeated, since its reply got lost, says it again.
    const absl::Status again = lead.service().OnPushedReady(key, bytes);
    EXPECT_TRUE(again.ok() || absl::IsAborted(again)) << again;
  };
  FakePeer worker(lead, proto::WORKER, 0, 1, say);
  FakePeer shard(lead, proto::SHARD, 0);
  const auto end = std::get<FinishRun>(lead.service().AwaitEnd());
  EXPECT_EQ(end.failure, "");
  EXPECT_EQ(lead.service().State().version, Version(20));
  EXPECT_EQ(lead.service().State().counters.applied, 20);
}

TEST(CoordinatorServiceTest, WhatABusyWorkerCountsStandsInTheStateAsItRuns) {
  Lead lead(RunOf(1, 1, 1000000000));
  Peers peers(lead, 1, 1);
  FakePeer& worker = *peers.all[0];
  ASSERT_TRUE(worker.AwaitConnected().ok());
  std::atomic<int64_t> asked = 0;
  absl::Notification second;
  worker.client().TellCounters([&] {
    if (++asked == 2) second.Notify();
    return CounterMap{{"asked", asked}};
  });
  // The first heartbeat has then been written, and what follows it is read
  // after it.
  ASSERT_TRUE(second.WaitForNotificationWithTimeout(kPatience));
  worker.client().Leave("test");
  const WorkerState state = lead.service().State().workers[0];
  EXPECT_GE(state.counters.at("asked"), 1);
  EXPECT_GT(state.gradients.applied, 100) << "it was busy";
}

TEST(CoordinatorServiceTest, TheLogHoldsEveryCommitOfTheRun) {
  const std::string path = ::testing::TempDir() + "/commits";
  std::remove(path.c_str());
  auto log = CommitLogWriter::Create(path, {});
  ASSERT_TRUE(log.ok()) << log.status();
  {
    Lead lead(RunOf(1, 2, 20), log->get());
    Peers peers(lead, 1, 2);
    lead.service().AwaitEnd();
  }
  const auto read = ReadCommitLog(path);
  ASSERT_TRUE(read.ok()) << read.status();
  int64_t version = 0;
  for (const proto::LogRecord& record : read->records) {
    if (!record.has_commit()) continue;
    EXPECT_EQ(record.commit().version(), ++version);
  }
  EXPECT_EQ(version, 20);
}

// The largest file this process may write, until destroyed.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    SetUpProcess();  // As in the daemons.
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(CoordinatorServiceTest, ALogThatCannotBeWrittenFailsTheRunAndIsNamed) {
  const std::string path = ::testing::TempDir() + "/full";
  std::remove(path.c_str());
  auto log = CommitLogWriter::Create(path, {});
  ASSERT_TRUE(log.ok()) << log.status();
  Lead lead(RunOf(1, 1, 1000000), log->get());
  FinishRun end;
  {
    const FileSizeLimit limit(4096);
    Peers peers(lead, 1, 1);
    end = std::get<FinishRun>(lead.service().AwaitEnd());
  }
  EXPECT_EQ(end.failure, path + ": write: File too large");
  EXPECT_EQ(lead.service().State().phase, Phase::kFailed);
  // What was decided but not recorded has been told to nobody.
  const auto read = ReadCommitLog(path);
  ASSERT_TRUE(read.ok()) << read.status();
}

// A disk that has no room, or takes its time, while it is told so.
class ObstinateDisk : public FileOperations {
 public:
  absl::Status Write(int file, const std::string& path,
                     absl::string_view data) override {
    bool full;
    {
      absl::MutexLock lock(&mu_);
      ++writes_;
      mu_.Await(absl::Condition(this, &ObstinateDisk::Quick));
      full = full_;
    }
    if (!full) return FileOperations::Write(file, path, data);
    // Half of it fits.
    FileOperations::Write(file, path, data.substr(0, data.size() / 2))
        .IgnoreError();
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": write: No space left on device"));
  }

  void SetFull(bool full) {
    absl::MutexLock lock(&mu_);
    full_ = full;
  }
  void SetStalled(bool stalled) {
    absl::MutexLock lock(&mu_);
    stalled_ = stalled;
  }
  int64_t writes() {
    absl::MutexLock lock(&mu_);
    return writes_;
  }

 private:
  bool Quick() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !stalled_; }

  absl::Mutex mu_;
  bool full_ ABSL_GUARDED_BY(mu_) = false;
  bool stalled_ ABSL_GUARDED_BY(mu_) = false;
  int64_t writes_ ABSL_GUARDED_BY(mu_) = 0;
};

// A run whose log is on such a disk, with everybody it needs.
class ObstinateDiskTest : public ::testing::Test {
 protected:
  explicit ObstinateDiskTest(int64_t updates = 1000000) {
    std::remove(path_.c_str());
    log_ = *CommitLogWriter::Create(path_, {}, &disk_);
    CoordinatorService::Options options = RunOf(1, 2, updates);
    options.core.job.mutable_limits()->set_lease_s(
        absl::ToDoubleSeconds(kLease));
    options.core.job.mutable_limits()->set_task_deadline_s(
        absl::ToDoubleSeconds(kDeadline));
    lead_ = std::make_unique<Lead>(options, log_.get());
    peers_ = std::make_unique<Peers>(*lead_, 1, 2);
    EXPECT_TRUE(peers_->all[0]->AwaitReceived(10));
  }

  // Until `holds` is true of the state; false after kPatience.
  bool AwaitState(const std::function<bool(const JobState&)>& holds) {
    const absl::Time until = Clock::Real()->Now() + kPatience;
    while (!holds(lead_->service().State())) {
      if (Clock::Real()->Now() > until) return false;
      // Between two looks, so that others come to theirs.
      absl::Notification().WaitForNotificationWithTimeout(kLook);
    }
    return true;
  }
  // Until the state names `what` as that for which the run waits.
  bool WaitsFor(const std::string& what) {
    return AwaitState(
        [&](const JobState& state) { return state.waiting_for == what; });
  }
  std::string NoRoom() const {
    return absl::StrCat("room on the disk: ", path_,
                        ": write: No space left on device");
  }
  // Everybody has been heard for longer than a lease from now on.
  bool LeasesAreKept() {
    const absl::Time until = Clock::Real()->Now() + 2 * kLease;
    return AwaitState([&](const JobState& state) {
      return state.shards[0].last_heard > until &&
             state.workers[0].last_heard > until &&
             state.workers[1].last_heard > until;
    });
  }
  // Tasks have been under way for longer than they may take.
  bool DeadlinesPass() {
    const absl::Time until = Clock::Real()->Now() + 2 * kDeadline;
    return AwaitState(
        [&](const JobState&) { return Clock::Real()->Now() > until; });
  }
  // The run goes on, and neither tasks nor decisions have counted as late.
  void ExpectNothingLate() {
    const size_t received = peers_->all[0]->received().size();
    EXPECT_TRUE(peers_->all[0]->AwaitReceived(received + 10));
    EXPECT_EQ(lead_->service().State().counters.tasks_overdue, 0);
    lead_->service().RequestStop("test");
    EXPECT_EQ(std::get<FinishRun>(lead_->service().AwaitEnd()).failure, "");
  }
  void ExpectAllAlive() {
    const JobState state = lead_->service().State();
    EXPECT_EQ(state.phase, Phase::kRunning) << state.message;
    EXPECT_EQ(state.shards[0].life, PeerLife::kAlive);
    for (const WorkerState& worker : state.workers) {
      if (worker.id < WorkerId(2)) {
        EXPECT_EQ(worker.life, PeerLife::kAlive);
      }
    }
  }

  // Every version once and in order, and nothing else that was ever decided.
  void ExpectWholeLog() {
    const auto read = ReadCommitLog(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_FALSE(read->torn.has_value());
    int64_t version = 0;
    for (const proto::LogRecord& record : read->records) {
      if (!record.has_commit()) continue;
      EXPECT_EQ(record.commit().version(), ++version);
    }
    EXPECT_EQ(version, lead_->service().State().version.value());
  }

  // Above the second within which a client beats for the first time.
  static constexpr absl::Duration kLease = absl::Milliseconds(1500);
  // Of a task: above the second after which a write counts as slow.
  static constexpr absl::Duration kDeadline = absl::Seconds(2);
  static constexpr absl::Duration kLook = absl::Milliseconds(2);
  const std::string path_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  ObstinateDisk disk_;
  std::unique_ptr<CommitLogWriter> log_;
  std::unique_ptr<Lead> lead_;
  std::unique_ptr<Peers> peers_;
};

TEST_F(ObstinateDiskTest, AFullDiskHoldsTheRunAndItGoesOnWhenThereIsRoom) {
  disk_.SetFull(true);
  ASSERT_TRUE(WaitsFor(NoRoom()));
  EXPECT_GT(lead_->service().State().waiting_since, absl::UnixEpoch());
  const size_t received = peers_->all[0]->received().size();
  ASSERT_TRUE(LeasesAreKept());
  ExpectAllAlive();
  // Nobody is given anything meanwhile.
  EXPECT_EQ(peers_->all[0]->received().size(), received);
  disk_.SetFull(false);
  ASSERT_TRUE(peers_->all[0]->AwaitReceived(received + 10));
  EXPECT_NE(lead_->service().State().waiting_for, NoRoom());
  lead_->service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead_->service().AwaitEnd()).failure, "");
  ExpectWholeLog();
}

TEST_F(ObstinateDiskTest, WhoStopsARunThatWaitsForRoomIsNotKeptWaiting) {
  disk_.SetFull(true);
  ASSERT_TRUE(WaitsFor(NoRoom()));
  lead_->service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead_->service().AwaitEnd()).failure,
            path_ + ": write: No space left on device");
  const auto read = ReadCommitLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->torn.has_value());
}

TEST_F(ObstinateDiskTest, ALogThatStallsCostsNobodyItsLease) {
  disk_.SetStalled(true);
  ASSERT_TRUE(LeasesAreKept());
  ExpectAllAlive();
  EXPECT_TRUE(
      WaitsFor(absl::StrCat("the disk, to take what ", path_, " is to hold")));
  const size_t received = peers_->all[0]->received().size();
  disk_.SetStalled(false);
  ASSERT_TRUE(peers_->all[0]->AwaitReceived(received + 10));
  lead_->service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead_->service().AwaitEnd()).failure, "");
  ExpectWholeLog();
}

TEST_F(ObstinateDiskTest, ALogThatStallsForLongerThanATaskMayTakeEndsNoTask) {
  disk_.SetStalled(true);
  ASSERT_TRUE(
      WaitsFor(absl::StrCat("the disk, to take what ", path_, " is to hold")));
  ASSERT_TRUE(DeadlinesPass());
  disk_.SetStalled(false);
  ExpectNothingLate();
  ExpectWholeLog();
}

TEST_F(ObstinateDiskTest, NoTimePassesWhileTheDiskIsFullWhateverArrives) {
  disk_.SetFull(true);
  ASSERT_TRUE(WaitsFor(NoRoom()));
  // Each one of a cluster's many messages would count for a tick.
  const absl::Time until = Clock::Real()->Now() + 4 * kDeadline;
  ASSERT_TRUE(AwaitState([&](const JobState&) {
    lead_->service().OnRequestCheckpoint().IgnoreError();
    return Clock::Real()->Now() > until;
  }));
  disk_.SetFull(false);
  ExpectNothingLate();
  ExpectWholeLog();
}

// Metrics, and the look for a later generation.
TEST(CoordinatorServiceTest, FilesThatStallHoldUpNothing) {
  absl::Notification stalled, over;
  CoordinatorService::Options options = RunOf(1, 1, 1000000);
  options.superseded = [&] {
    if (!stalled.HasBeenNotified()) stalled.Notify();
    over.WaitForNotification();
    return false;
  };
  Lead lead(options);
  Peers peers(lead, 1, 1);
  stalled.WaitForNotification();
  EXPECT_TRUE(peers.all[0]->AwaitReceived(100));
  lead.service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).failure, "");
  over.Notify();
}

TEST(CoordinatorServiceTest, AWorkerIsWelcomedOnlyWhenAllShardsAreThere) {
  Lead lead(RunOf(2, 1, 5));
  FakePeer worker(lead, proto::WORKER, 0, 2);
  FakePeer shard0(lead, proto::SHARD, 0);
  ASSERT_TRUE(shard0.AwaitConnected().ok());
  EXPECT_FALSE(worker.connected());
  FakePeer shard1(lead, proto::SHARD, 1);
  ASSERT_TRUE(worker.AwaitConnected().ok());
  const proto::Welcome welcome = worker.client().welcome();
  ASSERT_EQ(welcome.shard_addresses_size(), 2);
  EXPECT_EQ(welcome.shard_addresses(0), "shard0:1");
  EXPECT_EQ(welcome.shard_addresses(1), "shard1:1");
  lead.service().AwaitEnd();
}

TEST(CoordinatorServiceTest, AShardThatVanishesFailsTheRunWhichNamesIt) {
  Lead lead(RunOf(2, 1, 1000000));
  FakePeer worker(lead, proto::WORKER, 0, 2);
  FakePeer shard0(lead, proto::SHARD, 0);
  {
    FakePeer shard1(lead, proto::SHARD, 1);
    ASSERT_TRUE(worker.AwaitReceived(10));
  }
  const auto end = std::get<FinishRun>(lead.service().AwaitEnd());
  EXPECT_NE(end.failure.find("shard 1"), std::string::npos) << end.failure;
  EXPECT_TRUE(worker.client().Wait().ok());
  EXPECT_EQ(worker.received().back().finish().failure(), end.failure);
}

TEST(CoordinatorServiceTest, AWorkerThatLeavesIsNotWaitedFor) {
  Lead lead(RunOf(1, 2, 1000000));
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker0(lead, proto::WORKER, 0);
  FakePeer worker1(lead, proto::WORKER, 1);
  ASSERT_TRUE(worker1.AwaitReceived(10));
  ASSERT_TRUE(worker1.AwaitConnected().ok());
  worker1.client().Leave("enough");
  EXPECT_TRUE(worker1.client().Wait().ok());
  const size_t seen = worker0.received().size();
  ASSERT_TRUE(worker0.AwaitReceived(seen + 10)) << "the others go on";
  EXPECT_EQ(lead.service().State().workers[1].life, PeerLife::kLeft);
  lead.service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).failure, "");
}

TEST(CoordinatorServiceTest, APeerThatIsStoppedDoesNotHoldUpTheEnd) {
  CoordinatorService::Options options = RunOf(1, 2, 1000000);
  options.core.job.mutable_limits()->set_lease_s(
      absl::ToDoubleSeconds(kPatience));
  Lead lead(options);
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker(lead, proto::WORKER, 0);
  const auto stub = lead.Stub();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto stopped = stub->Session(&context);
  ASSERT_TRUE(stopped->Write(JoinFrame(proto::WORKER, 1)));
  ASSERT_TRUE(worker.AwaitReceived(10));  // The run has begun with both.
  const absl::Time before = Clock::Real()->Now();
  lead.service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).failure, "");
  EXPECT_LT(Clock::Real()->Now() - before, options.core.finish_timeout);
  context.TryCancel();
  stopped->Finish();
}

TEST(CoordinatorServiceTest, StopEndsTheRunAndTheStatusSaysSo) {
  Lead lead(RunOf(1, 1, 1000000));
  Peers peers(lead, 1, 1);
  ASSERT_TRUE(peers.all[0]->AwaitReceived(10));
  const auto stub = lead.Stub();
  grpc::ClientContext stop;
  stop.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  proto::StopRequest request;
  request.set_reason("enough");
  proto::StopReply reply;
  ASSERT_TRUE(stub->Stop(&stop, request, &reply).ok());
  EXPECT_EQ(reply.status().phase(), "finishing");
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).reason, "enough");
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  proto::JobStatus status;
  ASSERT_TRUE(stub->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.name(), "test");
  EXPECT_EQ(status.phase(), "finished");
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(status.worker_size(), 1);
  EXPECT_EQ(status.shard_size(), 1);
}

TEST(CoordinatorServiceTest, WhoMeansAnotherRunIsToldAndChangesNothing) {
  CoordinatorService::Options options = RunOf(1, 1, 1000000);
  options.core.run_id = "this";
  Lead lead(options);
  Peers peers(lead, 1, 1);
  ASSERT_TRUE(peers.all[0]->AwaitReceived(10));
  const auto stub = lead.Stub();
  const auto say = [&](auto method, auto request, auto reply) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
    return (stub.get()->*method)(&context, request, &reply);
  };
  using Stub = proto::Coordinator::Stub;
  proto::StatusRequest about;
  proto::StopRequest stop;
  proto::CheckpointRequest store;
  for (auto* run : {about.mutable_run_id(), stop.mutable_run_id(),
                    store.mutable_run_id()}) {
    *run = "that";
  }
  for (const grpc::Status& refused :
       {say(&Stub::GetStatus, about, proto::JobStatus()),
        say(&Stub::Stop, stop, proto::StopReply()),
        say(&Stub::RequestCheckpoint, store, proto::CheckpointReply())}) {
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(refused.error_message(),
              "another run, this, answers where run that listened");
  }
  stop.set_run_id("this");
  stop.set_reason("meant");
  EXPECT_TRUE(say(&Stub::Stop, stop, proto::StopReply()).ok());
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).reason, "meant");
}

TEST(CoordinatorServiceTest, WhenNobodyComesItFailsAndNamesTheMissing) {
  CoordinatorService::Options options = RunOf(1, 2, 5);
  options.core.job.mutable_limits()->set_start_timeout_s(0.3);
  Lead lead(options);
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker(lead, proto::WORKER, 0);
  const auto end = std::get<FinishRun>(lead.service().AwaitEnd());
  EXPECT_NE(end.failure.find("worker 1"), std::string::npos) << end.failure;
}

}  // namespace
}  // namespace sluice

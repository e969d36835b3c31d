#include "ps_server/coordinator/coordinator_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/named_thread.h"
#include "common/rpc/channel_options.h"
#include "common/session/coordinator_client.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Longer than anything here takes; reached only when something hangs.
constexpr absl::Duration kPatience = absl::Seconds(30);

CoordinatorService::Options RunOf(int shards, int workers, int64_t updates) {
  CoordinatorService::Options options;
  options.core.shards = shards;
  options.core.workers = workers;
  options.core.sync.policy = PolicyKind::kAsync;
  options.core.staged_gradients = 1 + workers;
  options.core.train_samples = 1000;
  options.core.batch_size = 10;
  options.core.stop.updates = updates;
  options.core.tick = absl::Milliseconds(10);
  options.core.lease = absl::Seconds(1);
  options.core.finish_timeout = absl::Seconds(5);
  options.rejoin_timeout = absl::Seconds(1);
  options.job_name = "test";
  options.fingerprint = "abc";
  options.job_text = "seed: 1\n";
  return options;
}

// A coordinator on a free port.
class Lead {
 public:
  explicit Lead(CoordinatorService::Options options,
                CommitLogWriter* log = nullptr)
      : service_(std::move(options), log, nullptr) {
    Serve();
  }
  ~Lead() { server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch())); }

  // Breaks every connection and listens again at the same address.
  void BreakConnections() {
    server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
    server_.reset();
    Serve();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  CoordinatorService& service() { return service_; }
  std::unique_ptr<proto::Coordinator::Stub> Stub() const {
    return proto::Coordinator::NewStub(
        grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(),
                                  SessionChannelArguments()));
  }

 private:
  void Serve() {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    builder.RegisterService(&service_);
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials(),
                             &port_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }

  CoordinatorService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

proto::Join JoinOf(proto::Role role, int64_t id) {
  proto::Join join;
  join.set_role(role);
  join.set_id(id);
  join.set_fingerprint("abc");
  join.set_job("seed: 1\n");
  join.set_address(absl::StrCat("shard", id, ":1"));
  return join;
}

// A process that answers as a worker or a shard would, without computing.
class FakePeer {
 public:
  FakePeer(const Lead& lead, proto::Role role, int64_t id, int shards = 1)
      : shards_(shards) {
    CoordinatorClient::Options options;
    options.address = lead.address();
    options.join = JoinOf(role, id);
    options.start_timeout = kPatience;
    options.on_message = [this](const proto::FromCoordinator& message) {
      OnMessage(message);
    };
    if (role == proto::WORKER) {
      options.on_new_life = [](const proto::Welcome&) {};
    }
    // Connect blocks a worker until the shards are there.
    thread_ = StartThread("fake-peer", [this, options = std::move(options)] {
      auto client = CoordinatorClient::Connect(options);
      absl::MutexLock lock(&mu_);
      status_ = client.status();
      connected_ = true;
      if (!client.ok()) return;
      client_ = *std::move(client);
      for (auto& answer : early_) client_->Send(std::move(answer));
    });
  }
  ~FakePeer() {
    AwaitConnected().IgnoreError();
    thread_.join();
  }

  absl::Status AwaitConnected() {
    absl::MutexLock lock(&mu_);
    if (!mu_.AwaitWithTimeout(absl::Condition(&connected_), kPatience)) {
      return absl::DeadlineExceededError("not connected");
    }
    return status_;
  }
  bool connected() {
    absl::MutexLock lock(&mu_);
    return connected_;
  }
  CoordinatorClient& client() {
    absl::MutexLock lock(&mu_);
    return *client_;
  }
  std::vector<proto::FromCoordinator> received() {
    absl::MutexLock lock(&mu_);
    return received_;
  }
  // Blocks until so many messages have come.
  bool AwaitReceived(size_t count) {
    absl::MutexLock lock(&mu_);
    while (received_.size() < count) {
      if (arrived_.WaitWithTimeout(&mu_, kPatience)) return false;
    }
    return true;
  }

 private:
  void OnMessage(const proto::FromCoordinator& message) {
    proto::ToCoordinator answer;
    if (message.has_task()) {
      *answer.mutable_ready()->mutable_key() = message.task().key();
      for (int i = 0; i < shards_; ++i) {
        answer.mutable_ready()->add_shard_base(message.task().version());
      }
      answer.mutable_ready()->set_samples(10);
      answer.mutable_ready()->set_loss(1);
    } else if (message.has_decision()) {
      if (message.decision().has_commit()) {
        version_ = message.decision().commit().version();
      }
      answer.mutable_executed()->set_decision(message.decision().number());
      answer.mutable_executed()->set_version(version_);
    }
    absl::MutexLock lock(&mu_);
    received_.push_back(message);
    arrived_.SignalAll();
    if (answer.body_case() == proto::ToCoordinator::BODY_NOT_SET) return;
    if (client_ == nullptr) {
      early_.push_back(answer);
    } else {
      client_->Send(answer);
    }
  }

  const int shards_;
  int64_t version_ = 0;  // Reader thread only.

  absl::Mutex mu_;
  absl::CondVar arrived_;
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<proto::FromCoordinator> received_ ABSL_GUARDED_BY(mu_);
  std::vector<proto::ToCoordinator> early_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<CoordinatorClient> client_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

struct Peers {
  Peers(const Lead& lead, int shards, int workers) {
    for (int i = 0; i < workers; ++i) {
      all.push_back(std::make_unique<FakePeer>(lead, proto::WORKER, i, shards));
    }
    for (int i = 0; i < shards; ++i) {
      all.push_back(std::make_unique<FakePeer>(lead, proto::SHARD, i, shards));
    }
  }
  std::vector<std::unique_ptr<FakePeer>> all;
};

// Every message has come once and in order.
void ExpectNumbered(const std::vector<proto::FromCoordinator>& messages) {
  int64_t decision = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i].sequence(), i + 1);
    if (messages[i].has_decision()) {
      ASSERT_EQ(messages[i].decision().number(), ++decision);
    }
  }
}

// What the coordinator answers to these frames, sent in this order.
grpc::Status Say(const Lead& lead,
                 const std::vector<proto::ToCoordinator>& frames) {
  const auto stub = lead.Stub();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto stream = stub->Session(&context);
  for (const auto& frame : frames) stream->Write(frame);
  proto::FromCoordinator answer;
  while (stream->Read(&answer)) {
  }
  return stream->Finish();
}

proto::ToCoordinator JoinFrame(proto::Role role, int64_t id) {
  proto::ToCoordinator frame;
  *frame.mutable_join() = JoinOf(role, id);
  return frame;
}

TEST(CoordinatorServiceTest, ARunReachesItsEndAndEverybodyHearsOfIt) {
  Lead lead(RunOf(2, 3, 50));
  Peers peers(lead, 2, 3);
  const FinishRun end = lead.service().AwaitEnd();
  EXPECT_EQ(end.failure, "");
  EXPECT_EQ(lead.service().State().version, Version(50));
  for (auto& peer : peers.all) {
    ASSERT_TRUE(peer->AwaitConnected().ok());
    EXPECT_TRUE(peer->client().Wait().ok());
    ExpectNumbered(peer->received());
    EXPECT_TRUE(peer->received().back().has_finish());
  }
}

TEST(CoordinatorServiceTest, BrokenConnectionsAreResumedWithoutLossOrRepeat) {
  Lead lead(RunOf(2, 3, 3000));
  Peers peers(lead, 2, 3);
  for (size_t seen : {100, 400, 700}) {
    ASSERT_TRUE(peers.all[0]->AwaitReceived(seen));
    lead.BreakConnections();
  }
  const FinishRun end = lead.service().AwaitEnd();
  EXPECT_EQ(end.failure, "");
  const JobState state = lead.service().State();
  EXPECT_EQ(state.version, Version(3000));
  EXPECT_EQ(state.gradients.applied, 3000);
  for (auto& peer : peers.all) {
    EXPECT_TRUE(peer->client().Wait().ok());
    ExpectNumbered(peer->received());
  }
  for (const WorkerState& worker : state.workers) {
    EXPECT_EQ(worker.incarnation, Incarnation(1)) << "resumed, not new";
  }
}

TEST(CoordinatorServiceTest, TheLogHoldsEveryCommitOfTheRun) {
  const std::string path = testing::TempDir() + "/commits";
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
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(CoordinatorServiceTest, ALogThatCannotBeWrittenFailsTheRunAndIsNamed) {
  const std::string path = testing::TempDir() + "/full";
  std::remove(path.c_str());
  auto log = CommitLogWriter::Create(path, {});
  ASSERT_TRUE(log.ok()) << log.status();
  Lead lead(RunOf(1, 1, 1000000), log->get());
  FinishRun end;
  {
    const FileSizeLimit limit(4096);
    Peers peers(lead, 1, 1);
    end = lead.service().AwaitEnd();
  }
  EXPECT_EQ(end.failure, path + ": write: File too large");
  EXPECT_EQ(lead.service().State().phase, Phase::kFailed);
  // What was decided but not recorded has been told to nobody.
  const auto read = ReadCommitLog(path);
  ASSERT_TRUE(read.ok()) << read.status();
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

TEST(CoordinatorServiceTest, AnotherJobIsRefusedAndTheFieldIsNamed) {
  Lead lead(RunOf(1, 1, 5));
  proto::ToCoordinator join = JoinFrame(proto::WORKER, 0);
  join.mutable_join()->set_fingerprint("def");
  join.mutable_join()->set_job("seed: 2\n");
  const grpc::Status status = Say(lead, {join});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "worker 0: another job than the coordinator's: seed: 1 here, 2 "
            "there");
}

TEST(CoordinatorServiceTest, AnIdOfALivingProcessIsRefused) {
  Lead lead(RunOf(1, 2, 5));
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker(lead, proto::WORKER, 0);
  ASSERT_TRUE(worker.AwaitConnected().ok());
  EXPECT_EQ(Say(lead, {JoinFrame(proto::WORKER, 0)}).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  lead.service().RequestStop("test");
  lead.service().AwaitEnd();
}

TEST(CoordinatorServiceTest, MalformedMessagesAreRefusedAtTheDoor) {
  Lead lead(RunOf(1, 2, 5));
  FakePeer shard(lead, proto::SHARD, 0);
  ASSERT_TRUE(shard.AwaitConnected().ok());
  proto::ToCoordinator heartbeat;
  heartbeat.mutable_heartbeat();
  proto::ToCoordinator empty;
  empty.set_sequence(1);
  proto::ToCoordinator gap;
  gap.set_sequence(3);
  gap.mutable_ready();
  proto::ToCoordinator others;  // A gradient of worker 1.
  others.set_sequence(1);
  others.mutable_ready()->mutable_key()->set_worker(1);
  proto::ToCoordinator executed;
  executed.set_sequence(1);
  executed.mutable_executed();
  proto::ToCoordinator acks = heartbeat;
  acks.set_ack(1000);

  const struct {
    std::vector<proto::ToCoordinator> frames;
    std::string message;
  } cases[] = {
      {{heartbeat}, "the first message must be a Join"},
      {{JoinFrame(proto::ROLE_UNSPECIFIED, 0)},
       "Join.role: must be WORKER, SHARD or EVALUATOR, is 0"},
      {{JoinFrame(proto::WORKER, -1)}, "Join.id: must be at least 0, is -1"},
      {{JoinFrame(proto::WORKER, 0), JoinFrame(proto::WORKER, 0)},
       "worker 0: a second Join"},
      {{JoinFrame(proto::WORKER, 1), empty},
       "worker 1: message 1 has no known body"},
      {{JoinFrame(proto::WORKER, 2), gap},
       "worker 2: message 1 is expected, 3 came"},
      {{JoinFrame(proto::WORKER, 3), others},
       "worker 3: Ready for g0/w1/i0/s0"},
      {{JoinFrame(proto::WORKER, 4), executed}, "worker 4: Executed"},
      {{JoinFrame(proto::WORKER, 5), acks},
       "worker 5: message 1000 is acknowledged, the last one sent is 0"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.message);
    const grpc::Status status = Say(lead, c.frames);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), c.message);
  }
  lead.service().RequestStop("test");
  EXPECT_EQ(lead.service().AwaitEnd().failure, "");
}

TEST(CoordinatorServiceTest, AShardThatVanishesFailsTheRunWhichNamesIt) {
  Lead lead(RunOf(2, 1, 1000000));
  FakePeer worker(lead, proto::WORKER, 0, 2);
  FakePeer shard0(lead, proto::SHARD, 0);
  {
    FakePeer shard1(lead, proto::SHARD, 1);
    ASSERT_TRUE(worker.AwaitReceived(10));
  }
  const FinishRun end = lead.service().AwaitEnd();
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
  EXPECT_EQ(lead.service().AwaitEnd().failure, "");
}

TEST(CoordinatorServiceTest, APeerThatIsStoppedDoesNotHoldUpTheEnd) {
  CoordinatorService::Options options = RunOf(1, 2, 1000000);
  options.core.lease = kPatience;
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
  EXPECT_EQ(lead.service().AwaitEnd().failure, "");
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
  EXPECT_EQ(lead.service().AwaitEnd().reason, "enough");
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

TEST(CoordinatorServiceTest, WhenNobodyComesItFailsAndNamesTheMissing) {
  CoordinatorService::Options options = RunOf(1, 2, 5);
  options.core.start_timeout = absl::Milliseconds(300);
  Lead lead(options);
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker(lead, proto::WORKER, 0);
  const FinishRun end = lead.service().AwaitEnd();
  EXPECT_NE(end.failure.find("worker 1"), std::string::npos) << end.failure;
}

}  // namespace
}  // namespace sluice

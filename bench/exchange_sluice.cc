#include "bench/exchange_sluice.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/grant.h"
#include "common/parameter_layout.h"
#include "common/process/shared_memory.h"
#include "common/rpc/channel_options.h"
#include "common/tls/pem.h"
#include "proto/coordinator.pb.h"
#include "ps_server/shard/chunk_grid.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shared_chunks.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/grpc_exchange.h"
#include "worker/task/cancel_token.h"

namespace sluice::bench {
namespace {

constexpr char kSecret[] = "the secret of a benchmark";

GradientKey KeyOf(int worker, int64_t round) {
  return {Generation(1), WorkerId(worker), Incarnation(1), Sequence(round)};
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

// Whom the worker's grants are for.
std::string HolderIn(const std::string& certificates) {
  if (certificates.empty()) return "";
  const std::string path = absl::StrCat(certificates, "/worker/tls.crt");
  const auto pem = ReadSmallFile(path);
  Check(pem.status());
  const auto own = CertificatesFromPem(path, *pem);
  Check(own.status());
  return KeyDigest(own->front().get());
}

Commit CommitOf(const ExchangePlan& plan, int64_t round) {
  Commit commit;
  commit.version = Version(round);
  commit.learning_rate = kRate;
  for (int w = 0; w < plan.workers; ++w) {
    commit.entries.push_back({KeyOf(w, round), 1.0f / plan.workers});
  }
  return commit;
}

std::shared_ptr<SharedChunks> SharedWeights(const ShardOptions& options) {
  auto shared = SharedChunks::CreateFor(
      ChunkGrid(options.layout.range(options.id).size(),
                options.chunk_bytes / static_cast<int64_t>(sizeof(float))),
      options.max_held);
  Check(shared.status());
  return *shared;
}

SharedMemory NewMemory(int64_t floats) {
  auto memory = SharedMemory::Create(
      "bench gradient", floats * static_cast<int64_t>(sizeof(float)),
      SharedMemory::Others::kRead);
  Check(memory.status());
  return *std::move(memory);
}

// What a coordinator in the only shard's process does, without a log: the last
// gradient of a round decides its update. No push is repeated here.
//
// Thread-safe, but for Take: call from the exchange thread.
class LeadOfOneShard {
 public:
  LeadOfOneShard(const ExchangePlan& plan, ExchangeService* exchange)
      : plan_(plan), exchange_(*exchange) {}

  absl::Status Take(int64_t round) {
    if (++ready_ < plan_.workers) return absl::OkStatus();
    ready_ = 0;
    exchange_.Execute({round + 1, CommitOf(plan_, round)},
                      [this, round](const auto& outcome, int64_t, Version) {
                        Check(outcome.status());
                        absl::MutexLock lock(&mu_);
                        executed_ = round;
                      });
    return absl::OkStatus();
  }
  void AwaitExecuted(int64_t round) {
    const auto executed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return executed_ >= round;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&executed));
  }

 private:
  const ExchangePlan plan_;
  ExchangeService& exchange_;
  int ready_ = 0;
  absl::Mutex mu_;
  int64_t executed_ ABSL_GUARDED_BY(mu_) = 0;
};

void RunShard(const std::string& certificates, const ExchangePlan& plan,
              int index, const Control& control) {
  const TransportSecurity security = SecurityOf(certificates, TlsRole::kLead);
  ShardOptions options{ShardId(index),
                       [layout = LayoutOf(plan)](ParameterRange range) {
                         return layout.InitialWeights(1, range);
                       },
                       LayoutOf(plan),
                       {}};
  options.optimizer.mutable_sgd();
  options.chunk_bytes = plan.chunk_bytes;
  options.push_type = plan.type;
  options.staged_gradients = 2 * plan.workers;
  if (plan.shares_memory) options.shared_weights = SharedWeights(options);
  Shard shard(options);
  ExchangeService exchange(&shard, Clock::Real(), absl::Seconds(30), security);
  grpc::ServerBuilder builder;
  int port = 0;
  ApplyServerOptions(&builder);
  builder.AddListeningPort("127.0.0.1:0", security.ForServer(), &port);
  exchange.Register(&builder);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) Fail("a shard cannot listen");
  LeadOfOneShard lead(plan, &exchange);
  exchange.Start([&](const GradientKey& key, const std::string&) {
    return lead.Take(key.sequence.value());
  });

  const auto execute = [&](Decision decision) {
    std::promise<absl::Status> done;
    exchange.Execute(
        std::move(decision),
        [&done](const absl::StatusOr<Shard::Executed>& outcome, int64_t,
                Version) { done.set_value(outcome.status()); });
    Check(done.get_future().get());
  };
  execute({1, Restore{Generation(1), Version(0), kSecret}});
  control.Send({.kind = Note::Kind::kPort, .number = port});
  while (true) {
    const Note note = control.Receive();
    if (note.kind == Note::Kind::kStop) break;
    if (plan.shards == 1) {
      lead.AwaitExecuted(note.number);
    } else {
      execute({note.number + 1, CommitOf(plan, note.number)});
    }
    control.Send({.kind = Note::Kind::kApplied});
  }
  server->Shutdown(std::chrono::system_clock::time_point());
  exchange.Shutdown();
}

// A worker's exchange and what it moves.
class Worker {
 public:
  Worker(const std::string& certificates, const ExchangePlan& plan, int index,
         const Control& control)
      : security_(SecurityOf(certificates, TlsRole::kWorker)),
        holder_(HolderIn(certificates)),
        plan_(plan),
        index_(index),
        control_(control),
        layout_(LayoutOf(plan)),
        memory_(NewMemory(plan.floats)),
        gradient_(memory_.As<float>()),
        weights_(plan.floats) {
    std::vector<std::string> addresses;
    for (int s = 0; s < plan.shards; ++s) {
      addresses.push_back(absl::StrCat("127.0.0.1:", control.Receive().number));
    }
    for (int64_t i = 0; i < plan.floats; ++i) {
      gradient_[i] = GradientAt(index, i);
    }
    const GrpcExchange::Options options{
        .credentials = security_.ToShards(),
        .window = plan.round_trip > absl::ZeroDuration()
                      ? Window::kRoundTrip
                      : WindowTo(addresses.front(), security_.tls()),
        .chunk_bytes = plan.chunk_bytes,
        .types = {.pull = plan.type, .push = plan.type},
        .loop = std::make_shared<CompletionLoop>()};
    pushes_ = std::make_unique<GrpcExchange>(&layout_, addresses, options);
    // A worker's exchange does one thing at a time. In a real system one worker
    // pushes while another pulls, so doing both at once takes two exchanges; of
    // a small vector, whose push decides the update, one asks for the weights
    // before it pushes.
    const bool small = plan.floats * sizeof(float) <= plan.chunk_bytes;
    if (plan.at_once && !(small && pushes_->takes_ready())) {
      pulls_ = std::make_unique<GrpcExchange>(&layout_, addresses, options);
    }
    Pull(0, true);  // Connects.
    if (!plan.shares_memory) return;
    pushes_->ShareMemory({&memory_});
    if (pulls_) pulls_->ShareMemory({});
  }

  void Round(const Note& go) {
    const absl::Time start = Clock::Real()->Now();
    Note done = {.kind = Note::Kind::kDone};
    if (plan_.at_once && !pulls_) {
      pushes_->Prefetch(Spec(go.number, true), absl::MakeSpan(weights_));
      Push(go.number);
      Pull(go.number, true);
      done.seconds = Since(start);
      SayPushed();
      control_.Receive();
    } else if (plan_.at_once) {
      std::thread pulling([&] {
        Pull(go.number - 1, false);
        done.pull_seconds = Since(start);
      });
      Push(go.number);
      SayPushed();
      done.push_seconds = Since(start);
      control_.Receive();
      pulling.join();
      done.seconds = Since(start);
    } else {
      Push(go.number);
      const bool decided = pushes_->takes_ready();
      if (!decided) SayPushed();
      const absl::Time pushed = Clock::Real()->Now();
      done.push_seconds = Since(start);
      Pull(go.number, true);
      done.pull_seconds = Since(pushed);
      done.seconds = Since(start);
      if (decided) SayPushed();
      control_.Receive();
    }
    if (go.verify) Verify(plan_, go.number, weights_);
    control_.Send(done);
  }

 private:
  static double Since(absl::Time start) {
    return absl::ToDoubleSeconds(Clock::Real()->Now() - start);
  }

  void Push(int64_t round) {
    const GradientKey key = KeyOf(index_, round);
    pushes_->BeginPush(key, grants_.GrantFor(key, holder_), gradient_);
    if (pushes_->takes_ready()) {
      proto::Ready ready;
      ready.set_samples(1);
      pushes_->PushLast(ready);
    } else {
      pushes_->PushFrom(0);
    }
    Check(pushes_->FinishPush(never_));
  }
  void SayPushed() { control_.Send({.kind = Note::Kind::kPushed}); }

  static PullSpec Spec(int64_t version, bool exact) {
    return {Generation(1), Version(version), exact,
            Clock::Real()->Now() + absl::Minutes(1)};
  }
  void Pull(int64_t version, bool exact) {
    GrpcExchange* exchange = pulls_ ? pulls_.get() : pushes_.get();
    Check(exchange->Pull(Spec(version, exact), absl::MakeSpan(weights_), never_)
              .status());
  }

  const TransportSecurity security_;
  const std::string holder_;
  const GrantKey grants_{kSecret};
  const ExchangePlan plan_;
  const int index_;
  const Control control_;
  const ParameterLayout layout_;
  const CancelToken never_;
  const SharedMemory memory_;
  const absl::Span<float> gradient_;  // In it.
  std::vector<float> weights_;
  std::unique_ptr<GrpcExchange> pushes_;
  std::unique_ptr<GrpcExchange> pulls_;
};

void RunWorker(const std::string& certificates, const ExchangePlan& plan,
               int index, const Control& control) {
  Worker worker(certificates, plan, index, control);
  control.Send({.kind = Note::Kind::kReady});
  while (true) {
    const Note note = control.Receive();
    if (note.kind == Note::Kind::kStop) break;
    worker.Round(note);
  }
}

}  // namespace

TransportSecurity SecurityOf(const std::string& certificates, TlsRole role) {
  if (certificates.empty()) return TransportSecurity();
  TlsFlags flags;
  flags.folder = absl::StrCat(certificates, "/", TlsRoleName(role));
  const auto security = TransportSecurity::Open(flags, "", role);
  Check(security.status());
  return *security;
}

Bodies SluiceSide(const std::string& certificates) {
  return {[certificates](const ExchangePlan& plan, int index,
                         const Control& control) {
            RunShard(certificates, plan, index, control);
          },
          [certificates](const ExchangePlan& plan, int index,
                         const Control& control) {
            RunWorker(certificates, plan, index, control);
          }};
}

}  // namespace sluice::bench

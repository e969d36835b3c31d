// One thread owns the shard, its calls and its updates; what others want of it
// is posted. So a chunk is staged, a version sent and an update applied without
// a lock, and the order of what happens to the shard is the order on this
// thread.
//
//   Execute(Commit 5)    from the session's thread: posted, and the queue woken
//   RunPosted            first the pulls that waited for version 4, if that was
//                        made by a decision just before: the Commit may end it.
//                        Then version 5 is published and the coordinator
//                        answered
//   AnswerParked         last, the pulls that waited for version 5: each makes
//                        the chunk that it sends, unless another has
//   MakeSome             some of what nobody has asked for yet, and more after
//                        what the network has brought meanwhile
//
// What is posted while the thread is busy is found by the wake that is under
// way, so a burst of decisions costs one.
#include "ps_server/shard/exchange_service.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/process/named_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "kernels/numerics.h"
#include "ps_server/shard/exchange_calls.h"
#include "third_party/spdlog.h"

namespace sluice {

namespace {

// Floats that are made between two looks at the network: 50 us, as long as a
// wake takes.
constexpr int64_t kMadeAtOnce = 256 << 10;

absl::Status RefuseReady(const GradientKey& key, const std::string& ready) {
  return absl::InvalidArgumentError(
      absl::StrCat("gradient ", key.ToString(),
                   " comes with a Ready, expected it on the worker's session: "
                   "this is not the one shard of the run"));
}

}  // namespace

class ExchangeService::Impl {
 public:
  Impl(Shard* shard, Clock* clock, absl::Duration stall,
       const TransportSecurity& security, Listener* listener)
      : context_(shard, clock, stall, Admission(security, listener)) {}
  ~Impl() { SLUICE_CHECK(!thread_.joinable()); }

  void Register(grpc::ServerBuilder* builder, bool begins_connections) {
    builder->RegisterService(&context_.service);
    context_.queue = builder->AddCompletionQueue(
        /*is_frequently_polled=*/begins_connections);
    context_.watch.Use(context_.queue.get());
  }

  void Start(TakeReady take_ready) {
    context_.take_ready =
        take_ready != nullptr ? std::move(take_ready) : &RefuseReady;
    OpenLinks();
    thread_ = StartThread("exchange", [this] { Run(); });
  }

  void Execute(Decision decision, ExecuteDone done) {
    auto execute = [this, decision = std::move(decision), done] {
      ExecuteHere(decision, done);
    };
    if (!Post(std::move(execute))) {
      done(absl::UnavailableError("the exchange is shutting down"), 0,
           Version());
    }
  }

  void Shutdown() {
    if (std::exchange(shut_, true)) return;
    if (thread_.joinable()) {
      Post([this] { Stop(); });
      thread_.join();
    } else if (context_.queue) {
      // A queue must be shut and empty before it goes, used or not.
      context_.queue->Shutdown();
      ServeQueue(context_.queue.get());
    }
  }

  ExchangeCounters counters() const { return context_.counters.Get(); }

 private:
  // Where workers of this host are to share memory with the shard.
  void OpenLinks() {
    const SharedChunks* const weights = context_.shard->shared_weights();
    if (weights == nullptr) return;
    auto links =
        SharedLinks::Open(weights, context_.shard->vector_floats() *
                                       static_cast<int64_t>(sizeof(float)));
    if (links.ok()) {
      context_.links = *std::move(links);
    } else {
      spdlog::warn("event=no_shared_memory reason={}",
                   LogValue(links.status().message()));
    }
  }

  // False where the queue takes nothing any more.
  bool Post(std::function<void()> body) {
    absl::MutexLock lock(&mu_);
    if (closed_) return false;
    posted_.push_back(std::move(body));
    if (posted_.size() > 1) return true;  // The wake before will find it.
    // Under the lock, so that the queue is not shut in between.
    RunOn(context_.queue.get(), [this] { RunPosted(); });
    return true;
  }

  void RunPosted() {
    std::vector<std::function<void()>> bodies;
    {
      absl::MutexLock lock(&mu_);
      bodies.swap(posted_);
    }
    for (const auto& body : bodies) body();
    AnswerParked();
    MakeSome();
  }

  // Makes some of the newest version, if any is to be made, and comes back for
  // more: pulls are sent in between, and make what they send.
  void MakeSome() {
    Shard& shard = *context_.shard;
    for (int64_t made = 0; made < kMadeAtOnce;) {
      const auto chunk = shard.unmade();
      if (!chunk.has_value()) return;
      shard.MakeAhead(*chunk);
      made += shard.grid().size(*chunk);
    }
    Post([] {});
  }

  void Run() {
    kernels::SetNumericMode();  // Updates are computed here.
    PullCall::Listen(&context_);
    PushCall::Listen(&context_);
    ShareCall::Listen(&context_);
    ServeQueue(context_.queue.get());
  }

  void ExecuteHere(const Decision& decision, const ExecuteDone& done) {
    Shard& shard = *context_.shard;
    // Who waits for exactly this version gets it before anything may end it.
    if (!std::holds_alternative<Discard>(decision.what)) AnswerParked();
    absl::StatusOr<Shard::Executed> executed = shard.Begin(decision);
    if (executed.ok()) EndReads(executed->ended_reads);
    context_.counters.Set(&ExchangeCounters::decisions, shard.executed());
    done(std::move(executed), shard.executed(),
         shard.restored() ? shard.version() : Version());
    unanswered_ = true;
    if (shard.restored()) {
      context_.counters.Set(&ExchangeCounters::chunks_copied,
                            shard.store().chunks_copied());
    }
  }

  void EndReads(const std::vector<ReadId>& ended) {
    for (const ReadId id : ended) {
      const auto call = context_.reading.find(id);
      if (call != context_.reading.end()) call->second->EndRead();
    }
  }

  // Answers the pulls whose version is here, and takes the pushes for which
  // there is room, after the decisions that came together with the Commit: the
  // coordinator waits for those.
  void AnswerParked() {
    if (!std::exchange(unanswered_, false)) return;
    // A copy, because calls leave the set.
    const std::vector<PullCall*> parked(context_.parked.begin(),
                                        context_.parked.end());
    for (PullCall* call : parked) call->Retry();
    const std::vector<PushCall*> waiting(context_.waiting.begin(),
                                         context_.waiting.end());
    for (PushCall* call : waiting) call->Retry();
  }

  void Stop() {
    {
      absl::MutexLock lock(&mu_);
      closed_ = true;
    }
    context_.stopping = true;
    context_.watch.Stop();
    context_.ShutQueueIfDone();
  }

  ExchangeContext context_;
  bool unanswered_ = false;  // Decisions came since AnswerParked.
  std::thread thread_;
  bool shut_ = false;  // Belongs to whoever starts and shuts down.

  absl::Mutex mu_;  // Leaf lock: nothing of ours is acquired under it.
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

ExchangeService::ExchangeService(Shard* shard, Clock* clock,
                                 absl::Duration stall,
                                 const TransportSecurity& security,
                                 Listener* listener)
    : impl_(std::make_unique<Impl>(shard, clock, stall, security, listener)) {}
ExchangeService::~ExchangeService() = default;
void ExchangeService::Register(grpc::ServerBuilder* builder,
                               bool begins_connections) {
  impl_->Register(builder, begins_connections);
}
void ExchangeService::Start(TakeReady take_ready) {
  impl_->Start(std::move(take_ready));
}
void ExchangeService::Execute(Decision decision, ExecuteDone done) {
  impl_->Execute(std::move(decision), std::move(done));
}
void ExchangeService::Shutdown() { impl_->Shutdown(); }
ExchangeCounters ExchangeService::counters() const { return impl_->counters(); }

}  // namespace sluice

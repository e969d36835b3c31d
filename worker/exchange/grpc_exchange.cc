#include "worker/exchange/grpc_exchange.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/status_macros.h"
#include "proto/exchange.pb.h"
#include "spdlog/spdlog.h"

namespace sluice {

GrpcExchange::GrpcExchange(const ParameterLayout* layout,
                           std::vector<std::string> addresses, Options options)
    : layout_(*layout),
      options_(std::move(options)),
      chunk_floats_(options_.chunk_bytes / static_cast<int64_t>(sizeof(float))),
      calls_({}, options_.rejoin_timeout),
      loop_(options_.loop ? options_.loop
                          : std::make_shared<CompletionLoop>()) {
  SLUICE_CHECK(static_cast<int>(addresses.size()) == layout_.shards());
  for (size_t s = 0; s < addresses.size(); ++s) {
    names_.push_back(absl::StrCat("shard ", s, " at ", addresses[s]));
    stubs_.push_back(
        std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
            addresses[s], grpc::InsecureChannelCredentials(),
            BulkChannelArguments())));
  }
}

GrpcExchange::~GrpcExchange() {
  AbortPull();
  AbortPush();
}

absl::StatusOr<std::vector<Version>> GrpcExchange::Pull(
    const PullSpec& spec, absl::Span<float> weights,
    const CancelToken& cancel) {
  const bool begun = ahead_.has_value() && ahead_->SameWeights(spec) &&
                     ahead_weights_.data() == weights.data();
  if (!begun) StartPulls(spec, weights);
  const absl::Status status = Drive(spec.deadline, cancel, [&](int shard) {
    StartPull(shard, spec, weights);
  });
  std::vector<Version> versions;
  if (status.ok()) {
    for (const auto& pull : pulls_) versions.push_back(pull->version());
  }
  AbortPull();
  SLUICE_RETURN_IF_ERROR(status);
  return versions;
}

void GrpcExchange::PullAhead(const PullSpec& spec, absl::Span<float> weights) {
  StartPulls(spec, weights);
  ahead_ = spec;
  ahead_weights_ = weights;
}

void GrpcExchange::StartPulls(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == layout_.size());
  AbortPull();
  ResetCalls();
  pulls_.resize(stubs_.size());
  for (int shard = 0; shard < layout_.shards(); ++shard) {
    StartPull(shard, spec, weights);
  }
}

void GrpcExchange::AbortPull() {
  ahead_.reset();
  if (pulls_.empty()) return;
  for (const auto& pull : pulls_) pull->Cancel();
  Drain();
  pulls_.clear();
}

void GrpcExchange::StartPull(int shard, const PullSpec& spec,
                             absl::Span<float> weights) {
  const ParameterRange range = layout_.range(ShardId(shard));
  proto::PullRequest request;
  request.set_generation(spec.generation.value());
  request.set_client(options_.client);
  request.set_version(spec.version.value());
  request.set_exact(spec.exact);
  pulls_[shard] = std::make_unique<PullAttempt>(
      shard, weights.subspan(range.begin, range.size()), chunk_floats_,
      static_cast<CallObserver*>(this));
  pulls_[shard]->Start(request, options_.call_timeout, stubs_[shard].get(),
                       loop_->queue());
}

void GrpcExchange::BeginPush(const GradientKey& key, uint64_t grant,
                             absl::Span<const float> gradient) {
  SLUICE_CHECK(pushes_.empty());
  AbortPull();
  SLUICE_CHECK(static_cast<int64_t>(gradient.size()) == layout_.size());
  pushed_ = {.key = key, .grant = grant, .values = gradient};
  push_deadline_ = options_.clock->Now() + options_.push_timeout;
  ResetCalls();
  pushes_.resize(stubs_.size());
  for (int shard = 0; shard < layout_.shards(); ++shard) MakePush(shard);
}

void GrpcExchange::MakePush(int shard) {
  const PushAttempt::Path path = {.shard = shard,
                                  .range = layout_.range(ShardId(shard)),
                                  .chunk_floats = chunk_floats_,
                                  .timeout = options_.push_timeout,
                                  .stub = stubs_[shard].get(),
                                  .queue = loop_->queue(),
                                  .observer = this};
  pushes_[shard] = std::make_unique<PushAttempt>(path, pushed_);
}

void GrpcExchange::PushFrom(int64_t from) {
  for (const auto& push : pushes_) push->Offer(from);
}

absl::Status GrpcExchange::FinishPush(const CancelToken& cancel) {
  const absl::Status status = Drive(push_deadline_, cancel, [this](int shard) {
    MakePush(shard);
    pushes_[shard]->Offer(0);
  });
  AbortPush();
  return status;
}

void GrpcExchange::AbortPush() {
  if (pushes_.empty()) return;
  for (const auto& push : pushes_) push->Cancel();
  Drain();
  pushes_.clear();
}

void GrpcExchange::Wake() {
  // Every waiter looks at its condition anew when the lock is released.
  absl::MutexLock lock(&mu_);
}

void GrpcExchange::OnCallEnded(int shard, const absl::Status& status) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  calls_.Ended(shard, status, now);
}

void GrpcExchange::ResetCalls() {
  absl::MutexLock lock(&mu_);
  calls_ = ShardCalls(names_, options_.rejoin_timeout);
}

absl::Status GrpcExchange::Drive(absl::Time deadline, const CancelToken& cancel,
                                 const std::function<void(int)>& repeat) {
  while (true) {
    AwaitNews(deadline, cancel);
    const absl::Time now = options_.clock->Now();
    std::vector<int> due;
    {
      absl::MutexLock lock(&mu_);
      if (calls_.succeeded()) return absl::OkStatus();
      if (cancel.cancelled()) return absl::AbortedError("cancelled");
      if (!calls_.failure().ok()) return calls_.failure();
      if (now >= deadline) return calls_.DescribeWait();
      due = calls_.TakeDue(now);
    }
    for (const int shard : due) {
      spdlog::debug("event=call_repeated peer=\"{}\"", names_[shard]);
      repeat(shard);
    }
    repeated_calls_total_ += static_cast<int64_t>(due.size());
  }
}

void GrpcExchange::AwaitNews(absl::Time deadline, const CancelToken& cancel) {
  absl::MutexLock lock(&mu_);
  const absl::Time due = calls_.next_due();
  const auto news = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return cancel.cancelled() || calls_.succeeded() || !calls_.failure().ok() ||
           calls_.next_due() != due;
  };
  mu_.AwaitWithTimeout(absl::Condition(&news),
                       std::min(deadline, due) - options_.clock->Now());
}

void GrpcExchange::Drain() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&calls_, &ShardCalls::idle));
}

}  // namespace sluice

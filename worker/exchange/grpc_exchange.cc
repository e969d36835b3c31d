#include "worker/exchange/grpc_exchange.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/status_macros.h"

namespace sluice {

namespace {

std::vector<std::string> Names(const std::vector<std::string>& addresses) {
  std::vector<std::string> names;
  for (size_t s = 0; s < addresses.size(); ++s) {
    names.push_back(absl::StrCat("shard ", s, " at ", addresses[s]));
  }
  return names;
}

}  // namespace

GrpcExchange::GrpcExchange(const ParameterLayout* layout,
                           std::vector<std::string> addresses, Options options)
    : layout_(*layout),
      options_(std::move(options)),
      chunk_floats_(options_.chunk_bytes / static_cast<int64_t>(sizeof(float))),
      format_(layout->statistics()),
      loop_(options_.loop ? options_.loop : std::make_shared<CompletionLoop>()),
      pull_(PullPath(), Names(addresses), options_.rejoin_timeout,
            options_.clock),
      ahead_(PullPath(), Names(addresses), options_.rejoin_timeout,
             options_.clock),
      push_calls_(Names(addresses), options_.rejoin_timeout, options_.clock) {
  SLUICE_CHECK(static_cast<int>(addresses.size()) == layout_.shards());
  for (const std::string& address : addresses) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                  BulkChannelArguments())));
  }
}

VectorPull::Path GrpcExchange::PullPath() const {
  return {.layout = &layout_,
          .client = options_.client,
          .chunk_floats = chunk_floats_,
          .format = &format_,
          .type = options_.types.pull,
          .timeout = options_.call_timeout,
          .stubs = &stubs_,
          .queue = loop_->queue()};
}

GrpcExchange::~GrpcExchange() {
  pull_.Abort();
  ahead_.Abort();
  AbortPush();
}

void GrpcExchange::BeginPull(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(pulling_ == nullptr);
  pull_deadline_ = spec.deadline;
  if (ahead_.Brings(spec, weights)) {
    pulling_ = &ahead_;
    return;
  }
  if (ahead_.Fills(weights)) ahead_.Abort();
  pull_.Begin(spec, weights);
  pulling_ = &pull_;
}

absl::StatusOr<int64_t> GrpcExchange::AwaitPulled(int64_t end,
                                                  const CancelToken& cancel) {
  return pulling_->Await(end, pull_deadline_, cancel);
}

absl::StatusOr<std::vector<Version>> GrpcExchange::FinishPull(
    const CancelToken& cancel) {
  VectorPull& pull = *std::exchange(pulling_, nullptr);
  SLUICE_ASSIGN_OR_RETURN(auto versions, pull.Finish(pull_deadline_, cancel));
  pull_travels_ = pull.travels();
  return versions;
}

void GrpcExchange::AbortPull() {
  if (pulling_ != nullptr) std::exchange(pulling_, nullptr)->Abort();
}

void GrpcExchange::PullAhead(const PullSpec& spec, absl::Span<float> weights) {
  if (!ahead_.Brings(spec, weights)) ahead_.Begin(spec, weights);
}

void GrpcExchange::BeginPush(const GradientKey& key, uint64_t grant,
                             absl::Span<const float> gradient) {
  SLUICE_CHECK(pushes_.empty());
  SLUICE_CHECK(static_cast<int64_t>(gradient.size()) == layout_.size());
  pushed_ = {.key = key, .grant = grant, .values = gradient};
  push_deadline_ = options_.clock->Now() + options_.push_timeout;
  push_calls_.Begin();
  pushes_.resize(stubs_.size());
  for (int shard = 0; shard < layout_.shards(); ++shard) MakePush(shard);
}

void GrpcExchange::MakePush(int shard) {
  const PushAttempt::Path path = {.shard = shard,
                                  .range = layout_.range(ShardId(shard)),
                                  .chunk_floats = chunk_floats_,
                                  .format = &format_,
                                  .type = options_.types.push,
                                  .timeout = options_.push_timeout,
                                  .stub = stubs_[shard].get(),
                                  .queue = loop_->queue(),
                                  .observer = &push_calls_};
  pushes_[shard] = std::make_unique<PushAttempt>(path, pushed_);
}

void GrpcExchange::PushFrom(int64_t from) {
  for (const auto& push : pushes_) push->Offer(from);
}

absl::Status GrpcExchange::FinishPush(const CancelToken& cancel) {
  const absl::Status status =
      push_calls_.Drive(push_deadline_, cancel, [this](int shard) {
        MakePush(shard);
        pushes_[shard]->Offer(0);
      });
  if (status.ok()) push_travels_ = push_calls_.travels();
  AbortPush();
  return status;
}

void GrpcExchange::AbortPush() {
  if (pushes_.empty()) return;
  for (const auto& push : pushes_) push->Cancel();
  push_calls_.Drain();
  pushes_.clear();
}

void GrpcExchange::Wake() {
  pull_.Wake();
  ahead_.Wake();
  push_calls_.Wake();
}

}  // namespace sluice

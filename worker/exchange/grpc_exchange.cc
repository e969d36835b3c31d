#include "worker/exchange/grpc_exchange.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace sluice {

namespace {

// How often whoever waits for a connection says for which, and looks whether
// it still is to.
constexpr absl::Duration kSayEvery = absl::Seconds(2);
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

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
      names_(Names(addresses)),
      loop_(options_.loop ? options_.loop : std::make_shared<CompletionLoop>()),
      pull_(PullPath(), names_, options_.limits, options_.clock),
      prefetch_(PullPath(), names_, options_.limits, options_.clock),
      push_calls_(names_, options_.limits, options_.clock) {
  SLUICE_CHECK(static_cast<int>(addresses.size()) == layout_.shards());
  for (const std::string& address : addresses) {
    channels_.push_back(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), BulkChannelArguments()));
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
  }
}

absl::Status GrpcExchange::AwaitReachable(
    absl::Duration timeout, const std::string& field,
    const std::function<bool()>& stopped) {
  const absl::Time begin = options_.clock->Now();
  absl::Time say = begin + kSayEvery;
  const absl::Cleanup forget = [this] { SetUnconnected(std::nullopt); };
  for (const auto& channel : channels_) channel->GetState(/*connect=*/true);
  for (const auto& channel : channels_) {
    grpc_connectivity_state state;
    while ((state = channel->GetState(/*connect=*/true)) !=
           GRPC_CHANNEL_READY) {
      if (stopped()) return absl::OkStatus();
      const absl::Duration waited = options_.clock->Now() - begin;
      if (waited >= timeout) {
        return absl::UnavailableError(absl::StrCat(
            Unconnected(), ": no connection for ",
            absl::FormatDuration(timeout), " (", field,
            "); its address must be one that can be reached from here"));
      }
      if (begin + waited >= say) {
        say += kSayEvery;
        SetUnconnected(UnreachedShard{Unconnected(), begin});
        spdlog::warn("event=waiting for=\"a connection to {}\" seconds={:.0f}",
                     Unconnected(), absl::ToDoubleSeconds(waited));
      }
      channel->WaitForStateChange(state, FromNow(kLookEvery));
    }
  }
  return absl::OkStatus();
}

std::string GrpcExchange::Unconnected() const {
  std::vector<std::string> names;
  for (size_t s = 0; s < channels_.size(); ++s) {
    if (channels_[s]->GetState(/*connect=*/true) != GRPC_CHANNEL_READY) {
      names.push_back(names_[s]);
    }
  }
  return absl::StrJoin(names, ", ");
}

void GrpcExchange::SetUnconnected(std::optional<UnreachedShard> shards) {
  absl::MutexLock lock(&mu_);
  unconnected_ = std::move(shards);
}

VectorPull::Path GrpcExchange::PullPath() const {
  return {.layout = &layout_,
          .client = options_.client,
          .chunk_floats = chunk_floats_,
          .format = &format_,
          .type = options_.types.pull,
          .stubs = &stubs_,
          .queue = loop_->queue()};
}

GrpcExchange::~GrpcExchange() {
  pull_.Abort();
  prefetch_.Abort();
  AbortPush();
}

void GrpcExchange::BeginPull(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(pulling_ == nullptr);
  pull_deadline_ = spec.deadline;
  if (prefetch_.Brings(spec, weights)) {
    pulling_ = &prefetch_;
    return;
  }
  if (prefetch_.Fills(weights)) prefetch_.Abort();
  pull_.Begin(spec, weights);
  pulling_ = &pull_;
}

absl::StatusOr<OrRestarted<int64_t>> GrpcExchange::AwaitPulled(
    int64_t end, const CancelToken& cancel) {
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

void GrpcExchange::Prefetch(const PullSpec& spec, absl::Span<float> weights) {
  if (!prefetch_.Brings(spec, weights)) prefetch_.Begin(spec, weights);
}

void GrpcExchange::BeginPush(const GradientKey& key, uint64_t grant,
                             absl::Span<const float> gradient) {
  SLUICE_CHECK(pushes_.empty());
  SLUICE_CHECK(static_cast<int64_t>(gradient.size()) == layout_.size());
  pushed_ = {.key = key, .grant = grant, .values = gradient};
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
                                  .stub = stubs_[shard].get(),
                                  .queue = loop_->queue(),
                                  .observer = &push_calls_};
  pushes_[shard] = std::make_unique<PushAttempt>(path, pushed_);
}

void GrpcExchange::PushFrom(int64_t from) {
  for (const auto& push : pushes_) push->Offer(from);
}

absl::Status GrpcExchange::FinishPush(const CancelToken& cancel) {
  const CallDriver::Hands hands = {
      .repeat =
          [this](int shard) {
            MakePush(shard);
            pushes_[shard]->Offer(0);
          },
      .cancel = [this](int shard) { pushes_[shard]->Cancel(); }};
  // The coordinator bounds a task, and cancels one that takes too long.
  const absl::Status status =
      push_calls_.Drive(absl::InfiniteFuture(), cancel, hands);
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

std::optional<UnreachedShard> GrpcExchange::unreached() const {
  std::optional<UnreachedShard> longest;
  {
    absl::MutexLock lock(&mu_);
    longest = unconnected_;
  }
  for (const auto& shard :
       {pull_.unreached(), prefetch_.unreached(), push_calls_.unreached()}) {
    if (!shard.has_value()) continue;
    if (!longest.has_value() || shard->since < longest->since) longest = shard;
  }
  return longest;
}

void GrpcExchange::Wake() {
  pull_.Wake();
  prefetch_.Wake();
  push_calls_.Wake();
}

}  // namespace sluice

// Two pulls exist side by side: `pull_` brings what a task computes on,
// `prefetch_` what the next one probably will, each into memory of its own.
// BeginPull takes the prefetch where it is of the same weights in the same
// memory, and otherwise ends it only if it would write into that memory. So at
// most one of the two fills a given array, and `pulling_` is the one that the
// trainer waits for.
//
// Pushes have no such twin: one gradient is made at a time, and a task waits
// until it is staged.
#include "worker/exchange/grpc_exchange.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/process/exit_codes.h"
#include "common/rpc/deadline.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {

namespace {

// How often whoever waits for a connection says for which, and looks whether
// it still is to.
constexpr absl::Duration kSayEvery = absl::Seconds(2);
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// Of those shards that hold some of the vector.
std::vector<std::string> Names(const ParameterLayout& layout,
                               const std::vector<std::string>& addresses) {
  std::vector<std::string> names;
  for (const ShardSlice& slice : layout.slices()) {
    const int64_t shard = slice.shard.value();
    SLUICE_CHECK(shard < static_cast<int64_t>(addresses.size()));
    names.push_back(absl::StrCat("shard ", shard, " at ", addresses[shard]));
  }
  return names;
}

// Calls at once that bring a slice where a round trip takes long: a shard lets
// no more than 1 MiB of each be on the way. ConnectionLimits counts with these.
constexpr int kLanes = 8;

// For linking with all shards; the others are sent to.
constexpr absl::Duration kLinkingTime = absl::Seconds(5);

// On one host, a vector of at most so many floats is received in less time than
// a thread that would do it beside the task takes to wake and be waited for
// (docs/benchmarks.md, "One chunk").
constexpr int64_t kMostWaitedFloats = (1 << 20) / sizeof(float);

// Each slice is one message for which nothing need be done while it travels: it
// fits into HTTP/2's window, but for some bytes at most, or all of them are
// soon here.
bool IsSmall(const ParameterLayout& layout, int64_t chunk_floats,
             Window window) {
  const bool near =
      window == Window::kMessage && layout.size() <= kMostWaitedFloats;
  const auto small = [&](const ShardSlice& slice) {
    return (near || slice.range.size() < kWindowFloats) &&
           slice.offset % chunk_floats + slice.range.size() <= chunk_floats;
  };
  return absl::c_all_of(layout.slices(), small);
}

std::shared_ptr<CompletionLoop> LoopFor(const ParameterLayout& layout,
                                        const GrpcExchange::Options& options) {
  using ServedBy = CompletionLoop::ServedBy;
  const int64_t chunk_floats =
      options.chunk_bytes / static_cast<int64_t>(sizeof(float));
  if (IsSmall(layout, chunk_floats, options.window)) {
    return std::make_shared<CompletionLoop>(ServedBy::kWaiter);
  }
  if (options.loop) return options.loop;
  // Half the processors: whoever sends the slices may be on this host, too.
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::make_shared<CompletionLoop>(
      ServedBy::kThread,
      std::clamp(processors / 2, 1, std::max(layout.shards(), 1)));
}

}  // namespace

GrpcExchange::GrpcExchange(const ParameterLayout* layout,
                           std::vector<std::string> addresses, Options options)
    : layout_(*layout),
      options_(std::move(options)),
      chunk_floats_(options_.chunk_bytes / static_cast<int64_t>(sizeof(float))),
      format_(layout->statistics()),
      names_(Names(*layout, addresses)),
      on_the_way_(absl::StrJoin(names_, ", ")),
      loop_(LoopFor(layout_, options_)),
      pull_(PathOf(options_.types.pull), names_, options_.limits,
            options_.clock),
      prefetch_(PathOf(options_.types.pull), names_, options_.limits,
                options_.clock),
      push_(PathOf(options_.types.push),
            options_.window == Window::kRoundTrip ? kLanes : 1, names_,
            options_.limits, options_.clock) {
  const auto credentials = options_.credentials
                               ? options_.credentials
                               : grpc::InsecureChannelCredentials();
  for (const ShardSlice& slice : layout_.slices()) {
    channels_.push_back(
        grpc::CreateCustomChannel(addresses[slice.shard.value()], credentials,
                                  BulkChannelArguments(options_.window)));
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
  }
  shared_.resize(stubs_.size());
}

void GrpcExchange::ShareMemory(
    const std::vector<const SharedMemory*>& gradients) {
  const absl::Time end = options_.clock->Now() + kLinkingTime;
  for (size_t s = 0; s < channels_.size(); ++s) {
    const absl::Duration left =
        std::max(end - options_.clock->Now(), absl::Milliseconds(1));
    auto shared = SharedShard::Link(channels_[s], gradients, left);
    if (shared.ok()) {
      shared_[s] = *std::move(shared);
      spdlog::info("event=shares_memory with={}", LogValue(names_[s]));
    } else {
      spdlog::info("event=shares_no_memory with={} reason={}",
                   LogValue(names_[s]), LogValue(shared.status().message()));
    }
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
        return AskForRestart(absl::UnavailableError(absl::StrCat(
            Unconnected(), ": no connection for ",
            absl::FormatDuration(timeout), " (", field,
            "); its address must be one that can be reached from here")));
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

VectorPath GrpcExchange::PathOf(FloatType type) {
  return {.layout = &layout_,
          .chunk_floats = chunk_floats_,
          .format = &format_,
          .type = type,
          .stubs = &stubs_,
          .shared = &shared_,
          .loop = loop_.get(),
          .on_the_way = &on_the_way_};
}

GrpcExchange::~GrpcExchange() = default;

void GrpcExchange::BeginPull(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(pulling_ == nullptr);
  pull_deadline_ = spec.deadline;
  loop_->Listen();  // A prefetch may have failed.
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
  if (!prefetch_.Brings(spec, weights)) prefetch_.BeginAhead(spec, weights);
}

void GrpcExchange::BeginPush(const GradientKey& key, const std::string& grant,
                             absl::Span<const float> gradient) {
  push_.Begin({key, grant, gradient});
}

void GrpcExchange::PushFrom(int64_t from) { push_.From(from); }

bool GrpcExchange::takes_ready() const {
  return layout_.shards() == 1 && !layout_.is_part();
}

void GrpcExchange::PushLast(const proto::Ready& ready) { push_.Last(ready); }

absl::Status GrpcExchange::FinishPush(const CancelToken& cancel) {
  const absl::Status status = push_.Finish(cancel);
  if (status.ok()) push_travels_ = push_.travels();
  push_.Abort();
  return status;
}

void GrpcExchange::AbortPush() { push_.Abort(); }

std::optional<UnreachedShard> GrpcExchange::unreached() const {
  loop_->Listen();  // Perhaps nobody else does.
  std::optional<UnreachedShard> longest;
  {
    absl::MutexLock lock(&mu_);
    longest = unconnected_;
  }
  for (const auto& shard :
       {pull_.unreached(), prefetch_.unreached(), push_.unreached()}) {
    longest = LongerUnreached(longest, shard);
  }
  return longest;
}

void GrpcExchange::Wake() {
  pull_.Wake();
  prefetch_.Wake();
  push_.Wake();
}

}  // namespace sluice

#ifndef SLUICE_WORKER_TESTING_FAKES_H_
#define SLUICE_WORKER_TESTING_FAKES_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "worker/data/data_source.h"
#include "worker/exchange/exchange.h"
#include "worker/testing/fake_model.h"

// Stand-ins for what a trainer works with. Not thread-safe: call from one
// thread.
namespace sluice {

// A clock that moves when it is told to.
class FakeClock final : public Clock {
 public:
  absl::Time Now() override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// `size` samples; the input and the target of sample i are i, its label is 0.
class FakeDataSource final : public DataSource {
 public:
  explicit FakeDataSource(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.assign(indices.begin(), indices.end());
    batch->targets = batch->inputs;
    batch->labels.assign(indices.size(), 0);
    ++gathered;
    return absl::OkStatus();
  }

  mutable std::atomic<int> gathered = 0;  // Mini-batches, or parts of them.

 private:
  int64_t size_;
};

// Two shards that hold half of `weights` each and remember what was pushed.
class FakeExchange final : public Exchange {
 public:
  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override {
    pulled = spec;
    pulled_into = weights.data();
    ++pulls_under_way;
    asked_ = false;
  }
  absl::StatusOr<OrRestarted<int64_t>> AwaitPulled(
      int64_t end, const CancelToken& cancel) override {
    if (!std::exchange(asked_, true) && on_pull != nullptr) on_pull();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    if (!pull_status.ok()) return pull_status;
    awaited.push_back(end);
    const int64_t half = static_cast<int64_t>(weights.size()) / 2;
    if (end > half && breaks > 0) {
      --breaks;
      if (on_break != nullptr) on_break();
      return Restarted{};
    }
    const int64_t there = end > half ? 2 * half : half;
    std::copy_n(weights.begin(), there, pulled_into);
    return there;
  }
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override {
    --pulls_under_way;
    if (!asked_) {
      SLUICE_RETURN_IF_ERROR(AwaitPulled(weights.size(), cancel).status());
    }
    return std::vector<Version>{pulled->version, pulled->version + 1};
  }
  void AbortPull() override { pulls_under_way = 0; }
  void Prefetch(const PullSpec& spec, absl::Span<float> weights) override {
    prefetched.push_back(spec);
    prefetched_into = weights.data();
  }
  void AbortPrefetch() override { prefetched_into = nullptr; }
  void BeginPush(const GradientKey& key, const std::string& grant,
                 absl::Span<const float> gradient) override {
    push_key = key;
    push_grant = grant;
    gradient_ = gradient;
    offers.clear();
  }
  void PushFrom(int64_t from) override { offers.push_back(from); }
  bool takes_ready() const override { return lead; }
  void PushLast(const proto::Ready& ready) override {
    offers.push_back(0);
    brought = ready;
  }
  absl::Status FinishPush(const CancelToken& cancel) override {
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    if (on_finish_push != nullptr) on_finish_push();
    if (push_status.ok()) pushed.assign(gradient_.begin(), gradient_.end());
    return push_status;
  }
  void AbortPush() override { ++aborted_pushes; }
  void Wake() override {}
  std::vector<Travel> pull_travels() const override { return travels; }
  std::vector<Travel> push_travels() const override { return travels; }

  std::vector<float> weights;
  std::vector<Travel> travels;  // What it says of every pull and push.
  absl::Status pull_status;
  absl::Status push_status;
  std::function<void()> on_pull;

  std::optional<PullSpec> pulled;
  float* pulled_into = nullptr;
  std::vector<int64_t> awaited;  // The ends.
  int pulls_under_way = 0;
  int breaks = 0;  // Times that the second shard begins anew.
  std::function<void()> on_break;
  std::vector<PullSpec> prefetched;
  const float* prefetched_into = nullptr;
  std::optional<GradientKey> push_key;
  std::string push_grant;
  std::vector<int64_t> offers;
  bool lead = false;  // Its shard takes a Ready:
  std::optional<proto::Ready> brought;
  std::function<void()> on_finish_push;
  std::vector<float> pushed;  // The last gradient that was staged.
  int aborted_pushes = 0;

 private:
  bool asked_ = false;
  absl::Span<const float> gradient_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TESTING_FAKES_H_

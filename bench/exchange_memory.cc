#include "bench/exchange_memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "kernels/numerics.h"
#include "kernels/optimizer_kernels.h"

namespace sluice::bench {
namespace {

constexpr int64_t kPiece = (256 << 10) / sizeof(float);

// A word that one process sets and another waits for.
class Word {
 public:
  void Set(uint32_t value) {
    word_.store(value, std::memory_order_release);
    syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  // Until it is not `value` any more; what it is then.
  uint32_t AwaitOther(uint32_t value) {
    uint32_t now;
    while ((now = word_.load(std::memory_order_acquire)) == value) {
      syscall(SYS_futex, &word_, FUTEX_WAIT, value, nullptr, nullptr, 0);
    }
    return now;
  }

 private:
  std::atomic<uint32_t> word_{0};
};

// What both map. It begins as zeros.
struct Shared {
  Word pushed;   // Rounds; kOver: the worker has left.
  Word staged;   // Rounds.
  Word applied;  // Rounds.
};
constexpr uint32_t kOver = ~0U;
constexpr int64_t kHeader = 4096;
static_assert(sizeof(Shared) <= kHeader);

// The memory, from before the processes part until the last of them ends.
class Memory {
 public:
  explicit Memory(int64_t floats) : floats_(floats) {
    memory_ = mmap(nullptr, kHeader + 2 * bytes(), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) Fail("no memory to share");
  }
  ~Memory() { munmap(memory_, kHeader + 2 * bytes()); }
  Memory(const Memory&) = delete;

  int64_t floats() const { return floats_; }
  int64_t bytes() const { return floats_ * sizeof(float); }
  Shared& shared() const { return *static_cast<Shared*>(memory_); }
  float* gradient() const {
    return reinterpret_cast<float*>(static_cast<char*>(memory_) + kHeader);
  }
  float* weights() const { return gradient() + floats_; }

 private:
  const int64_t floats_;
  void* memory_;
};

void RunShard(const Memory& memory, const Control& control) {
  kernels::SetNumericMode();
  std::fill_n(memory.weights(), memory.floats(), 1.0f);
  std::vector<float> staged(memory.floats());
  control.Send({.kind = Note::Kind::kPort});
  for (uint32_t round = 0;; ++round) {
    if (memory.shared().pushed.AwaitOther(round) == kOver) break;
    for (int64_t at = 0; at < memory.floats(); at += kPiece) {
      const int64_t count = std::min(kPiece, memory.floats() - at);
      std::memcpy(&staged[at], memory.gradient() + at, count * sizeof(float));
      if (kernels::FirstNonFinite({&staged[at], static_cast<size_t>(count)}) >=
          0) {
        Fail("a gradient is not finite");
      }
    }
    memory.shared().staged.Set(round + 1);
    const float* const gradient = staged.data();
    const float factor = 1;
    kernels::SgdUpdate({.learning_rate = kRate}, {{&gradient, 1}, {&factor, 1}},
                       memory.floats(), memory.weights(), nullptr,
                       memory.weights());
    memory.shared().applied.Set(round + 1);
  }
  control.Receive();
}

void RunWorker(const Memory& memory, const ExchangePlan& plan, int index,
               const Control& control) {
  control.Receive();  // The shard is there.
  std::vector<float> weights(plan.floats);
  for (int64_t i = 0; i < plan.floats; ++i) {
    memory.gradient()[i] = GradientAt(index, i);
  }
  control.Send({.kind = Note::Kind::kReady});
  for (uint32_t round = 0;; ++round) {
    const Note go = control.Receive();
    if (go.kind == Note::Kind::kStop) break;
    const absl::Time start = Clock::Real()->Now();
    memory.shared().pushed.Set(round + 1);
    memory.shared().staged.AwaitOther(round);
    const absl::Time pushed = Clock::Real()->Now();
    memory.shared().applied.AwaitOther(round);
    std::memcpy(weights.data(), memory.weights(), memory.bytes());
    const absl::Time end = Clock::Real()->Now();
    if (go.verify) Verify(plan, go.number, weights);
    control.Send({.kind = Note::Kind::kDone,
                  .push_seconds = absl::ToDoubleSeconds(pushed - start),
                  .pull_seconds = absl::ToDoubleSeconds(end - pushed),
                  .seconds = absl::ToDoubleSeconds(end - start)});
  }
  memory.shared().pushed.Set(kOver);
}

}  // namespace

Bodies MemorySide(const ExchangePlan& plan) {
  const auto memory = std::make_shared<const Memory>(plan.floats);
  return {
      [memory](const ExchangePlan&, int, const Control& control) {
        RunShard(*memory, control);
      },
      [memory](const ExchangePlan& same, int index, const Control& control) {
        RunWorker(*memory, same, index, control);
      }};
}

}  // namespace sluice::bench

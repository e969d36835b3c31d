#include "kernels/cuda/emulation.h"

#include <utility>

#include "common/status_macros.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace sluice::kernels::cuda::emulation {
namespace {

constexpr size_t kStackBytes = 64 << 10;

// ThreadSanitizer is told of fibers: each has its own call stack.
#if defined(__SANITIZE_THREAD__)
void* NewTsanFiber() { return __tsan_create_fiber(0); }
void* ThisTsanFiber() { return __tsan_get_current_fiber(); }
void EndTsanFiber(void* fiber) { __tsan_destroy_fiber(fiber); }
void EnterTsanFiber(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
void* NewTsanFiber() { return nullptr; }
void* ThisTsanFiber() { return nullptr; }
void EndTsanFiber(void*) {}
void EnterTsanFiber(void*) {}
#endif

}  // namespace

Block* block = nullptr;

Block::Block(uint32_t threads, std::function<void()> body)
    : body_(std::move(body)),
      all_{threads},
      warps_(threads / kLanes, Warp{{kLanes}, {}}),
      fibers_(threads),
      host_tsan_(ThisTsanFiber()) {
  for (Fiber& fiber : fibers_) {
    fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
    fiber.tsan = NewTsanFiber();
  }
}

Block::~Block() {
  for (Fiber& fiber : fibers_) EndTsanFiber(fiber.tsan);
}

void Block::SwitchToHost() {
  EnterTsanFiber(host_tsan_);
  SLUICE_CHECK(swapcontext(&fibers_[threadIdx.x].context, &host_) == 0);
}

void Block::SwitchTo(Fiber* fiber) {
  EnterTsanFiber(fiber->tsan);
  SLUICE_CHECK(swapcontext(&host_, &fiber->context) == 0);
}

void Block::Wait(Barrier* barrier) {
  const uint32_t before = barrier->passed;
  if (++barrier->arrived == barrier->size) {
    barrier->arrived = 0;
    ++barrier->passed;
    progress_ = true;
  }
  while (barrier->passed == before) SwitchToHost();
}

void Block::Enter() {
  block->body_();
  block->fibers_[threadIdx.x].ended = true;
  block->progress_ = true;
  block->SwitchToHost();
}

void Block::Run() {
  block = this;
  for (Fiber& fiber : fibers_) {
    SLUICE_CHECK(getcontext(&fiber.context) == 0);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    fiber.ended = false;
    makecontext(&fiber.context, &Block::Enter, 0);
  }
  do {
    progress_ = false;
    for (uint32_t t = 0; t < fibers_.size(); ++t) {
      threadIdx = {t, 0};
      if (!fibers_[t].ended) SwitchTo(&fibers_[t]);
    }
  } while (progress_);
  for (const Fiber& fiber : fibers_) SLUICE_CHECK(fiber.ended);
}

}  // namespace sluice::kernels::cuda::emulation

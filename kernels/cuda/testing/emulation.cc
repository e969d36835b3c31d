// A block's threads are fibers of one thread of the host. They run in the order
// of their numbers, each until it ends or waits at a barrier for the others:
//
//   round 1    0 runs up to __syncthreads and gives way; so do 1, 2, ...; the
//              last one finds all there, and goes on to its end
//   round 2    the others go on from there
//
// A round in which no barrier is passed and no thread ends would be followed by
// more such: some threads wait for others that never come, which on a GPU hangs
// or goes unnoticed. Here the check at the end of Run fails.
#include "kernels/cuda/testing/emulation.h"

#include <iterator>
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
[[maybe_unused]] void EnterTsanFiber(void*) {}
#endif

}  // namespace

Context::Context() : began_(true), tsan_(ThisTsanFiber()) {}

Context::Context(char* stack, size_t bytes, void (*enter)())
    : began_(false), tsan_(NewTsanFiber()) {
  SLUICE_CHECK(getcontext(&first_) == 0);
  first_.uc_stack.ss_sp = stack;
  first_.uc_stack.ss_size = bytes;
  first_.uc_link = nullptr;
  makecontext(&first_, enter, 0);
}

Context::~Context() {
  if (tsan_ != nullptr && tsan_ != ThisTsanFiber()) EndTsanFiber(tsan_);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizers follow swapcontext, and take a jump to another stack for an
// error.
void Context::SwitchTo(Context* next) {
  EnterTsanFiber(next->tsan_);
  SLUICE_CHECK(swapcontext(&first_, &next->first_) == 0);
}

#else

// swapcontext takes a call of the kernel, for the mask of signals; an emulated
// block switches tens of thousands of times.
void Context::SwitchTo(Context* next) {
  if (_setjmp(later_) != 0) return;
  if (next->began_) _longjmp(next->later_, 1);
  next->began_ = true;
  setcontext(&next->first_);
  SLUICE_CHECK(false);
}

#endif

void Stream::WaitUntil(size_t done) {
  for (; done_ < done; ++done_) {
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    call();
  }
}

void Stream::Pace(size_t ahead) {
  marks_.push_back(called());
  for (; marks_.size() > ahead; marks_.pop_front()) WaitUntil(marks_.front());
}

void Stream::Allocated(const void* array, int64_t bytes) {
  memory_[array] = static_cast<const char*>(array) + bytes;
}

void Stream::Registered(const void* host, int64_t bytes) {
  registered_[host] = static_cast<const char*>(host) + bytes;
}

namespace {

// Whether one of these arrays, with its end, has both.
bool Has(const std::map<const void*, const void*>& arrays, const void* first,
         const void* last) {
  const auto behind = arrays.upper_bound(first);
  return behind != arrays.begin() && last <= std::prev(behind)->second;
}

}  // namespace

bool Stream::Holds(const void* pointer) const {
  return pointer == nullptr || Has(memory_, pointer, pointer);
}

bool Stream::IsRegistered(const void* host, int64_t bytes) const {
  return Has(registered_, host, static_cast<const char*>(host) + bytes);
}

Block* block = nullptr;

Block& Block::Of(uint32_t threads) {
  static auto& blocks = *new std::map<uint32_t, Block>();
  return blocks.try_emplace(threads, threads).first->second;
}

Block::Block(uint32_t threads)
    : all_{threads},
      warps_(threads / kLanes, Warp{{kLanes}, {}}),
      fibers_(threads) {
  for (Fiber& fiber : fibers_) {
    fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
    fiber.context = std::make_unique<Context>(fiber.stack.get(), kStackBytes,
                                              &Block::Enter);
  }
}

void Block::SwitchToHost() { fibers_[threadIdx.x].context->SwitchTo(&*host_); }

void Block::Wait(Barrier* barrier) {
  const uint32_t before = barrier->passed;
  if (++barrier->arrived == barrier->size) {
    barrier->arrived = 0;
    ++barrier->passed;
    progress_ = true;
  }
  while (barrier->passed == before) SwitchToHost();
}

// A thread begins anew for each block of the grid.
void Block::Enter() {
  for (;;) {
    (*block->body_)();
    block->fibers_[threadIdx.x].ended = true;
    block->progress_ = true;
    block->SwitchToHost();
  }
}

void Block::Run(const std::function<void()>& body) {
  block = this;
  body_ = &body;
  host_.emplace();
  for (Fiber& fiber : fibers_) fiber.ended = false;
  do {
    progress_ = false;
    for (uint32_t t = 0; t < fibers_.size(); ++t) {
      threadIdx = {t, 0};
      if (!fibers_[t].ended) host_->SwitchTo(fibers_[t].context.get());
    }
  } while (progress_);
  for (const Fiber& fiber : fibers_) SLUICE_CHECK(fiber.ended);
  host_.reset();  // The next launch may come from another thread.
}

}  // namespace sluice::kernels::cuda::emulation

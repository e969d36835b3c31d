// Makes the completion of a gRPC operation known to ThreadSanitizer.
//
// Debian's gRPC is not built with -fsanitize=thread, yet its templates are
// compiled into our code: one thread starts an operation, the library hands it
// to another, which finishes it there. With --config=tsan every test is linked
// with this file, whose functions take the place of the library's: what came
// before the start of an operation happens before its completion is handled.

#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include "third_party/tsan_original.h"

using sluice::tsan::Original;

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops,
                                      size_t size, void* tag, void* reserved) {
  static const auto original =
      Original<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return original(call, ops, size, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                      gpr_timespec deadline, void* reserved) {
  static const auto original = Original<decltype(&grpc_completion_queue_next)>(
      "grpc_completion_queue_next");
  const grpc_event event = original(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static const auto original = Original<decltype(&grpc_completion_queue_pluck)>(
      "grpc_completion_queue_pluck");
  const grpc_event event = original(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

// grpc::Alarm::SetInternal, which is private. What completes is the alarm's own
// tag, its only member behind a base class of two words.
#define SLUICE_SET_ALARM \
  "_ZN4grpc5Alarm11SetInternalEPNS_15CompletionQueueE12gpr_timespecPv"

void SetAlarm(void** alarm, void* queue, gpr_timespec deadline,
              void* tag) asm(SLUICE_SET_ALARM);

void SetAlarm(void** alarm, void* queue, gpr_timespec deadline, void* tag) {
  static const auto original = Original<decltype(&SetAlarm)>(SLUICE_SET_ALARM);
  __tsan_release(alarm[2]);
  original(alarm, queue, deadline, tag);
}

// grpc::internal::CallbackWithSuccessTag::StaticRun, which is private: the
// completion queue calls it with the tag that the operation was started with.
#define SLUICE_STATIC_RUN                                                   \
  "_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_" \
  "queue_functori"

void RunCallback(grpc_completion_queue_functor* tag,
                 int ok) asm(SLUICE_STATIC_RUN);

void RunCallback(grpc_completion_queue_functor* tag, int ok) {
  static const auto original =
      Original<decltype(&RunCallback)>(SLUICE_STATIC_RUN);
  __tsan_acquire(tag);
  original(tag, ok);
}
}

// Makes absl::Mutex known to ThreadSanitizer.
//
// Debian's Abseil is not built with -fsanitize=thread, so the sanitizer does
// not see that one of its locks orders two threads and reports everything it
// guards. With --config=tsan every test is linked with this file, whose
// functions take the place of the library's, tell the sanitizer what they
// order, and call the library's. gRPC's own locks are made of absl::Mutex, so
// they are covered as well.

#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "third_party/tsan_original.h"

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

using sluice::tsan::Original;

// The library evaluates the conditions of threads that wait in whichever
// thread lets go of the lock, after it has told the sanitizer so.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto original =
      Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  original(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto original =
      Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  const IgnoreReads ignore;
  original(this);
}

bool Mutex::TryLock() {
  static const auto original =
      Original<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = original(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto original =
      Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  original(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static const auto original =
      Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  __tsan_release(this);
  const IgnoreReads ignore;
  original(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto original = Original<void (*)(Mutex*, const Condition&)>(
      "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  {
    const IgnoreReads ignore;
    original(this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto original =
      Original<bool (*)(Mutex*, const Condition&, Duration)>(
          "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_"
          "8DurationE");
  __tsan_release(this);
  bool met = false;
  {
    const IgnoreReads ignore;
    met = original(this, condition, timeout);
  }
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto original =
      Original<bool (*)(Mutex*, const Condition&, Time)>(
          "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_"
          "4TimeE");
  __tsan_release(this);
  bool met = false;
  {
    const IgnoreReads ignore;
    met = original(this, condition, deadline);
  }
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mutex) {
  static const auto original = Original<void (*)(CondVar*, Mutex*)>(
      "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  original(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto original = Original<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = original(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

// A notification's waiters may see its flag without taking its lock.
void Notification::Notify() {
  static const auto original = Original<void (*)(Notification*)>(
      "_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(this);
  original(this);
}

void Notification::WaitForNotification() const {
  static const auto original = Original<void (*)(const Notification*)>(
      "_ZNK4absl7debian312Notification19WaitForNotificationEv");
  original(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto original =
      Original<bool (*)(const Notification*, Duration)>(
          "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_"
          "8DurationE");
  const bool notified = original(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

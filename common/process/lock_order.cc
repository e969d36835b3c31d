#include "common/process/lock_order.h"

#include "absl/synchronization/mutex.h"

namespace sluice {

void LeaveLockOrderUnwatched() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace sluice

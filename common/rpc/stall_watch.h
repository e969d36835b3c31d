#ifndef SLUICE_COMMON_RPC_STALL_WATCH_H_
#define SLUICE_COMMON_RPC_STALL_WATCH_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <list>
#include <optional>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/rpc/completion_tag.h"

namespace sluice {

// Tells the calls of a completion queue when their peer has made no progress
// for too long. One alarm serves all of them: setting and cancelling one for
// each call takes a tenth of a small call's time.
//
//   void OnCall()     { watch.Begin(this); Read(); }
//   void OnRead()     { watch.Begin(this); Read(); }   // Progress.
//   void OnLast()     { watch.End(this); }
//   void OnStalled(absl::Duration silent) { Finish(kDeadlineExceeded); }
//
// Not thread-safe: call from the queue's thread.
class StallWatch final : private CompletionTag {
 public:
  // A call that can be watched. One that is watched must not be destroyed.
  class Watched {
   protected:
    ~Watched() = default;

   private:
    friend class StallWatch;
    // It is not watched any more.
    virtual void OnStalled(absl::Duration silent) = 0;

    absl::Time since_;
    std::optional<std::list<Watched*>::iterator> place_;
  };

  // Calls may be silent for `most`. `clock` outlives this; alarms ring by real
  // time, and only look.
  StallWatch(Clock* clock, absl::Duration most) : clock_(*clock), most_(most) {}

  // Where alarms ring. REQUIRES: before the first Begin; the queue is empty
  // before this is destroyed.
  void Use(grpc::CompletionQueue* queue) { queue_ = queue; }
  // Watches `call` from now on. If it is watched already, it has made progress.
  void Begin(Watched* call);
  // Harmless if it is not watched.
  void End(Watched* call);
  // Nobody is told any more, and nothing is started on the queue.
  void Stop();

 private:
  void Complete(bool ok) override;
  // So that it rings when the call that has been silent longest is due.
  void SetAlarm();

  Clock& clock_;
  const absl::Duration most_;
  grpc::CompletionQueue* queue_ = nullptr;
  std::list<Watched*> calls_;  // The one that has been silent longest is first.
  std::optional<grpc::Alarm> alarm_;  // From SetAlarm until it has rung.
  bool stopped_ = false;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_STALL_WATCH_H_

#ifndef SLUICE_PS_SERVER_LOCAL_SESSION_H_
#define SLUICE_PS_SERVER_LOCAL_SESSION_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/session/client_session.h"
#include "common/telemetry/counter_table.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/coordinator/session/frame_sink.h"

namespace sluice {

// The session of the lead's own shard with the coordinator: as
// CoordinatorClient's, with the same messages, but without a connection. What
// one side sends the other gets on the thread that sends it, for the
// coordinator the one that carries out what it decides; nothing is waited for.
// It cannot break: it lives as long as the process.
//
// Thread-safe.
class LocalSession final : public FrameSink,
                           public std::enable_shared_from_this<LocalSession> {
 public:
  struct Options {
    CoordinatorService* service = nullptr;  // Outlives the session's Close.
    proto::Join join;                       // As CoordinatorClient's.
    // Called with every numbered message, once each and in order, on the
    // thread of whoever made the coordinator send it, under none of its locks:
    // must not block; may Send. REQUIRES: not empty.
    std::function<void(const proto::FromCoordinator&)> on_message;
    // What the shard has counted, for each heartbeat. Empty: nothing.
    std::function<CounterMap()> counters;
    Clock* clock = Clock::Real();
  };
  static std::shared_ptr<LocalSession> Create(Options options);

  // Joins the run. The coordinator's refusal, in its words. REQUIRES: called
  // once, first.
  absl::Status Join();

  // As CoordinatorClient's: of the message only the body counts. The
  // coordinator has decided what follows from it when this returns, unless
  // another thread is at it; what it sends then comes on a thread of its own.
  // After the end of the session it does nothing.
  void Send(proto::ToCoordinator message);

  // From here on on_message is not called, and nothing is sent. Not from
  // on_message.
  void Close();

  // FrameSink, for the coordinator:
  void Queue(proto::FromCoordinator frame) override;
  void End(const absl::Status& status) override;
  void Flush() override;
  bool idle() const override;
  bool ending() const override;
  bool local() const override { return true; }

 private:
  explicit LocalSession(Options options);

  // Each hands on what there is, in order, unless another thread is doing so
  // and will find the rest.
  void DeliverToShard() ABSL_LOCKS_EXCLUDED(mu_);
  void DeliverToCoordinator() ABSL_LOCKS_EXCLUDED(mu_);
  bool NotDelivering() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !to_shard_ && !to_coordinator_;
  }

  // Constant after construction.
  const Options options_;

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  ClientSession session_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::FromCoordinator> queue_ ABSL_GUARDED_BY(mu_);
  bool to_shard_ ABSL_GUARDED_BY(mu_) = false;  // Some thread is delivering.
  bool to_coordinator_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LOCAL_SESSION_H_

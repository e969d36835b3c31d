#ifndef SLUICE_CLI_RUN_OBSERVER_H_
#define SLUICE_CLI_RUN_OBSERVER_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/chaos/schedule.h"
#include "cli/supervision.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// One look at a run on this machine.
struct RunLook {
  absl::Time now;
  // Null: the coordinator does not answer.
  const proto::JobStatus* status = nullptr;
  // The children that there are, stopped or not: "worker-2".
  std::vector<std::string> running;
};

// What is to be done to a run, in this order.
struct Disturbance {
  struct Signal {
    std::string name;
    int number = 0;  // SIGKILL
  };
  struct Storage {
    int server = 0;
    StorageFault fault = StorageFault::kNone;  // kNone: it is healed.
  };

  std::vector<std::string> say;  // Lines for the user.
  std::vector<std::string> heal;
  std::vector<std::string> cut;  // Off the network, until healed.
  std::vector<Signal> signals;
  std::vector<Storage> storage;
  std::string failure;  // Not empty: the run is given up.
};

// Looks on while RunTraining trains, and says how to disturb it.
// Not thread-safe: called from RunTraining's thread.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // A child that ended since the last look.
  virtual void OnEnd(const PartEnd& end, absl::Time now) = 0;
  // Several times a second.
  virtual Disturbance OnLook(const RunLook& look) = 0;
};

}  // namespace sluice

#endif  // SLUICE_CLI_RUN_OBSERVER_H_

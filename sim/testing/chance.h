#ifndef SLUICE_SIM_TESTING_CHANCE_H_
#define SLUICE_SIM_TESTING_CHANCE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/random.h"
#include "common/testing/faulty_files.h"
#include "common/testing/faulty_reads.h"
#include "sim/event_queue.h"
#include "sim/testing/faults.h"

namespace sluice {

// The random draws of one seed: which faults strike, and how long things take.
// Counts the faults of messages and disks. Faults of processes are counted by
// the caller.
//
// Not thread-safe.
class Chance {
 public:
  Chance(const Faults& faults, uint64_t seed)
      : faults(faults), random_(seed, "faulty cluster") {}

  uint64_t Draw(uint64_t below);  // Uniform in [0, below).
  VirtualTime DrawTime(absl::Duration least, absl::Duration most);
  // Always false after Heal.
  bool Strikes(int per_thousand);
  void Heal() { healed_ = true; }
  bool healed() const { return healed_; }

  VirtualTime DrawLatency();  // Latency of one message.
  // A disk for one file, and how a process dies that is writing to one.
  FaultyFiles DrawDisk();
  FaultyFiles::Fault DrawDeath();
  // A disk for a process that resumes from a checkpoint.
  FaultyReads DrawReads();
  // How long writing takes: up to `most`, and `hang` longer if the disk hangs.
  VirtualTime DrawWriting(absl::Duration most, absl::Duration hang);

  const Faults faults;
  FaultCounts counts;

 private:
  const Random random_;
  uint64_t draws_ = 0;
  bool healed_ = false;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_CHANCE_H_

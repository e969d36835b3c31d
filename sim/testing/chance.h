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

// What one seed draws: what strikes, and how long things take. Counts what has
// struck a message or a disk; whoever else is struck is its caller's to count.
//
// Not thread-safe.
class Chance {
 public:
  Chance(const Faults& faults, uint64_t seed)
      : faults(faults), random_(seed, "faulty cluster") {}

  uint64_t Draw(uint64_t below);  // From 0 to below `below`.
  VirtualTime DrawTime(absl::Duration least, absl::Duration most);
  // Never again after Heal.
  bool Strikes(int per_thousand);
  void Heal() { healed_ = true; }
  bool healed() const { return healed_; }

  VirtualTime DrawLatency();  // Of a message.
  // A disk for one file, and how somebody dies who is writing to one.
  FaultyFiles DrawDisk();
  FaultyFiles::Fault DrawDeath();
  // A disk for whoever goes on from a checkpoint.
  FaultyReads DrawReads();
  // How long writing takes: `most`, or, where the disk hangs, `hang` more.
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

#ifndef SLUICE_SIM_TESTING_FAULTS_H_
#define SLUICE_SIM_TESTING_FAULTS_H_

#include <cstdint>

namespace sluice {

// What goes wrong until the faults heal.
struct Faults {
  // Chances per thousand messages. Pulls and pushes overtake each other. The
  // frames of a session are a stream: when one is lost, so is all behind it
  // and, somewhat later, the connection; they come again on the next one.
  int lose = 0;
  int duplicate = 0;  // Pulls and pushes.
  int delay = 0;      // Up to 300 ms.
  // Chances per thousand of each process in each tenth of a second.
  int kill = 0;       // A worker dies without a word, and comes back.
  int pause = 0;      // Any process stands still: a worker for long.
  int partition = 0;  // One link passes nothing for a while.
};

// How often each fault struck.
struct FaultCounts {
  int64_t lost = 0, duplicated = 0, delayed = 0;
  int64_t kills = 0, pauses = 0, partitions = 0;
  int64_t reconnects = 0, new_lives = 0;

  bool operator==(const FaultCounts&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTS_H_

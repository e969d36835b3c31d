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
  int straggle = 0;   // Pulls and pushes: up to 10 s.
  // Chances per thousand of each process in each tenth of a second.
  int kill = 0;       // A worker dies without a word, and comes back.
  int leave = 0;      // A worker says good-bye, and comes back.
  int pause = 0;      // Any process stands still: a worker for long.
  int partition = 0;  // One link passes nothing for a while.
  // The same of a shard or a coordinator: it dies; or another one takes its
  // place while it lives on for a while, not knowing.
  int kill_server = 0;
  int double_server = 0;
  // Of such deaths, out of a thousand: the machine's, so that only what was
  // synced is left.
  int power = 0;
  // Chances per thousand of what is to be written for a checkpoint: it cannot
  // be, or it takes longer than anybody waits.
  int disk_refuses = 0;
  int disk_hangs = 0;
  // Of what is read to go on from a checkpoint: it cannot be, once or for a
  // while, or is told to be missing by a stale cache.
  int disk_unreadable = 0;
};

// How often each fault struck, and what followed.
struct FaultCounts {
  int64_t lost = 0, duplicated = 0, delayed = 0, straggled = 0;
  int64_t kills = 0, leaves = 0, pauses = 0, partitions = 0;
  int64_t reconnects = 0, new_lives = 0;
  // Servers that began the next generation in place; leads that found it taken;
  // workers that left because a shard was lost to them.
  int64_t shards_in_place = 0, leads_in_place = 0, superseded = 0;
  int64_t given_up = 0;
  int64_t shard_kills = 0, lead_kills = 0, doubles = 0, power_losses = 0;
  // What died in the middle of writing; what could not be written, or not in
  // time.
  int64_t torn_writes = 0, refused_writes = 0, hung_writes = 0;
  // Looks for where to go on, and loads of a checkpoint, in which reads failed
  // or were stale; and those that were given up.
  int64_t failed_reads = 0, stale_reads = 0, reads_given_up = 0;
  // Generations that went on from a checkpoint, or from version 0.
  int64_t resumed = 0, begun_again = 0;
  // Who tried to take a generation that another process had just taken.
  int64_t races = 0;
  // Checkpoints that were found damaged and passed over.
  int64_t passed_over = 0;
  // Messages of a generation that was over, refused.
  int64_t stale = 0;
  // Reads that updates ended, because too many were held.
  int64_t ended_reads = 0;

  bool operator==(const FaultCounts&) const = default;

  // Calls `see` with the name and the value of each.
  template <typename See>
  void ForEach(const See& see) const {
    see("lost", lost);
    see("duplicated", duplicated);
    see("delayed", delayed);
    see("straggled", straggled);
    see("kills", kills);
    see("leaves", leaves);
    see("pauses", pauses);
    see("partitions", partitions);
    see("reconnects", reconnects);
    see("new lives", new_lives);
    see("shards in place", shards_in_place);
    see("leads in place", leads_in_place);
    see("superseded", superseded);
    see("given up", given_up);
    see("shard kills", shard_kills);
    see("lead kills", lead_kills);
    see("doubles", doubles);
    see("power losses", power_losses);
    see("torn writes", torn_writes);
    see("refused writes", refused_writes);
    see("hung writes", hung_writes);
    see("failed reads", failed_reads);
    see("stale reads", stale_reads);
    see("reads given up", reads_given_up);
    see("resumed", resumed);
    see("begun again", begun_again);
    see("races", races);
    see("passed over", passed_over);
    see("stale", stale);
    see("ended reads", ended_reads);
  }
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTS_H_

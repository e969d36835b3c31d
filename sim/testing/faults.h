#ifndef SLUICE_SIM_TESTING_FAULTS_H_
#define SLUICE_SIM_TESTING_FAULTS_H_

#include <cstdint>

namespace sluice {

// Which faults strike before Heal, and how often.
struct Faults {
  // Chances per thousand messages. Pulls and pushes overtake each other. The
  // frames of a session are a stream: when one is lost, all frames behind it
  // are lost as well, and a little later the connection. They are sent again on
  // the next connection.
  int lose = 0;
  int duplicate = 0;  // Pulls and pushes only.
  int delay = 0;      // Up to 300 ms.
  int straggle = 0;   // Pulls and pushes only: up to 10 s.
  // Chances per thousand of each process in each tenth of a second.
  int kill = 0;       // A worker dies without a word, and is started again.
  int leave = 0;      // A worker says good-bye, and is started again.
  int pause = 0;      // A process stands still, a worker for a long time.
  int partition = 0;  // One link passes nothing for a while.
  // Share per thousand of the workers that die which never come back, as long
  // as enough are left for an update.
  int stay_away = 0;
  // Chance per thousand of each gradient that it is bad; its mini-batch's next
  // one is good, since two would end the run.
  int spoil = 0;
  // The same for a shard or a coordinator. It dies; or another process takes
  // its place while it lives on for a while without knowing.
  int kill_server = 0;
  int double_server = 0;
  // Share per thousand of these deaths that are losses of power, after which
  // only synced data is left.
  int power = 0;
  // Chances per thousand writes of a checkpoint: the write fails, or takes
  // longer than any timeout.
  int disk_refuses = 0;
  int disk_hangs = 0;
  // Chance per thousand reads when resuming from a checkpoint: reads fail once
  // or for a while, or a stale cache says that a file is missing.
  int disk_unreadable = 0;
};

// How often each fault struck, and what followed from the faults.
struct FaultCounts {
  int64_t lost = 0, duplicated = 0, delayed = 0, straggled = 0;
  int64_t kills = 0, leaves = 0, pauses = 0, partitions = 0;
  int64_t stayed_away = 0, spoiled = 0;
  int64_t reconnects = 0, new_lives = 0;
  // Servers that began the next generation in place; leads that found it taken;
  // workers that left because they had lost a shard.
  int64_t shards_in_place = 0, leads_in_place = 0, superseded = 0;
  int64_t given_up = 0;
  int64_t shard_kills = 0, lead_kills = 0, doubles = 0, power_losses = 0;
  // Deaths in the middle of a write; writes that failed; writes that took too
  // long.
  int64_t torn_writes = 0, refused_writes = 0, hung_writes = 0;
  // Searches for a checkpoint, and loads of one, in which reads failed or were
  // stale; and those that were given up.
  int64_t failed_reads = 0, stale_reads = 0, reads_given_up = 0;
  // Generations that resumed from a checkpoint, and from version 0.
  int64_t resumed = 0, begun_again = 0;
  // Attempts to take a generation that another process had just taken.
  int64_t races = 0;
  // Checkpoints that were found damaged and were skipped.
  int64_t passed_over = 0;
  // Messages that were refused because their generation was over.
  int64_t stale = 0;
  // Reads that an update ended because too many versions were held.
  int64_t ended_reads = 0;

  bool operator==(const FaultCounts&) const = default;

  // Calls `see` with the name and the value of each counter.
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
    see("stayed away", stayed_away);
    see("spoiled", spoiled);
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

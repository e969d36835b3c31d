#include "sim/testing/chance.h"

namespace sluice {

uint64_t Chance::Draw(uint64_t below) {
  return random_.Uint64(draws_++) % below;
}

VirtualTime Chance::DrawTime(absl::Duration least, absl::Duration most) {
  return absl::ToInt64Nanoseconds(least) +
         Draw(absl::ToInt64Nanoseconds(most - least));
}

bool Chance::Strikes(int per_thousand) {
  return !healed_ && Draw(1000) < static_cast<uint64_t>(per_thousand);
}

VirtualTime Chance::DrawLatency() {
  const VirtualTime least =
      DrawTime(absl::Microseconds(100), absl::Milliseconds(2));
  if (!Strikes(faults.delay)) return least;
  ++counts.delayed;
  return least + DrawTime(absl::ZeroDuration(), absl::Milliseconds(300));
}

FaultyFiles Chance::DrawDisk() {
  const bool refused = Strikes(faults.disk_refuses);
  counts.refused_writes += refused;
  return FaultyFiles(
      refused ? FaultyFiles::Fault::kRefused : FaultyFiles::Fault::kNone,
      static_cast<int>(Draw(8)));
}

FaultyFiles::Fault Chance::DrawDeath() {
  if (Draw(1000) >= static_cast<uint64_t>(faults.power)) {
    return FaultyFiles::Fault::kKilled;
  }
  ++counts.power_losses;
  return Draw(2) == 0 ? FaultyFiles::Fault::kPowerLost
                      : FaultyFiles::Fault::kPowerLostAfterNames;
}

FaultyReads Chance::DrawReads() {
  if (!Strikes(faults.disk_unreadable)) return FaultyReads();
  const bool stale = Draw(2) == 0;
  ++(stale ? counts.stale_reads : counts.failed_reads);
  // Once, for some tries, and for more tries than any process makes.
  constexpr int kCounts[] = {1, 40, 1'000'000};
  return FaultyReads(
      stale ? FaultyReads::Fault::kStale : FaultyReads::Fault::kFails,
      static_cast<int>(Draw(12)), kCounts[Draw(3)]);
}

VirtualTime Chance::DrawWriting(absl::Duration most, absl::Duration hang) {
  const VirtualTime takes = DrawTime(absl::Milliseconds(1), most);
  if (!Strikes(faults.disk_hangs)) return takes;
  ++counts.hung_writes;
  return takes + absl::ToInt64Nanoseconds(hang);
}

}  // namespace sluice

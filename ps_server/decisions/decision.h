#ifndef SLUICE_PS_SERVER_DECISIONS_DECISION_H_
#define SLUICE_PS_SERVER_DECISIONS_DECISION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/ids.h"

// What the coordinator decides and every shard executes, as plain values.
namespace sluice {

// Begin `generation` with `version` (0: the initial weights; else that of the
// checkpoint made in `checkpoint`); `grant_secret` keys its grants.
struct Restore {
  Generation generation;
  Version version;
  std::string grant_secret;
  Generation checkpoint{0};
  // As the messages of this name say (proto/coordinator.proto).
  std::string run_id = {};
  std::string manifest = {};

  bool operator==(const Restore&) const = default;
};
struct CommitEntry {
  GradientKey key;
  float weight = 0;  // Its factor in the sum.

  bool operator==(const CommitEntry&) const = default;
};
struct Commit {
  Version version;  // The version this makes.
  double learning_rate = 0;
  std::vector<CommitEntry> entries;  // In summation order.
  bool pin = false;                  // Retain it until its Release.
  int folded = 0;  // So many of the entries, the first, were in a Fold.

  bool operator==(const Commit&) const = default;
};
// These gradients will be in the update that makes `version`: add them, which
// follow on those that were folded before, to its sum, so that their room is
// free. At least one.
struct Fold {
  Version version;
  // Of all that the update is made of, in double, in summation order.
  double total_weight = 0;
  std::vector<CommitEntry> entries;

  bool operator==(const Fold&) const = default;
};
// The tasks have ended: drop what is staged of them. At least one.
struct Discard {
  std::vector<GradientKey> keys;

  bool operator==(const Discard&) const = default;
};
// Retain the version, which is the newest, until its Release.
struct Pin {
  Version version;

  bool operator==(const Pin&) const = default;
};
struct Release {
  Version version;

  bool operator==(const Release&) const = default;
};
// Hold the version, which is the newest, and write it as part of a checkpoint
// while training goes on. Of checkpoints before `oldest`, which is kept, a
// shard removes what it has on a disk of its own; generation 0: none is kept.
struct Store {
  Version version;
  std::pair<Generation, Version> oldest = {};

  bool operator==(const Store&) const = default;
};

using AnyDecision =
    std::variant<Restore, Commit, Fold, Discard, Pin, Release, Store>;

// One element of the stream every shard executes strictly in order.
struct Decision {
  int64_t number = 0;  // From 1.
  AnyDecision what;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_DECISIONS_DECISION_H_

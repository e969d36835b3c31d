#ifndef SLUICE_COMMON_IDS_H_
#define SLUICE_COMMON_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {

// An integer with a meaning. Ids with different tags do not convert into each
// other, and no id converts implicitly to or from a plain integer.
// Thread-compatible.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(int64_t value) : value_(value) {}

  constexpr int64_t value() const { return value_; }

  // The id that is `n` further on.
  constexpr Id operator+(int64_t n) const { return Id(value_ + n); }
  constexpr Id operator-(int64_t n) const { return Id(value_ - n); }
  // The distance from `other` to this one.
  constexpr int64_t operator-(Id other) const { return value_ - other.value_; }
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

  constexpr auto operator<=>(const Id&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, Id id) {
    return out << id.value_;
  }

 private:
  int64_t value_ = 0;
};

// A process that computes gradients; 0 to P-1, and higher for joiners.
using WorkerId = Id<struct WorkerTag>;
// One ps_server process; 0 is the lead, which hosts the coordinator.
using ShardId = Id<struct ShardTag>;
// Number of updates applied. 0 is the initial weights.
using Version = Id<struct VersionTag>;
// A mini-batch, numbered from 0 and running on across epochs.
using BatchId = Id<struct BatchTag>;
// Counts recoveries of the job, from 1. 0 means "not joined yet".
using Generation = Id<struct GenerationTag>;
// Counts the lives of one worker id, from 1; given by the coordinator.
using Incarnation = Id<struct IncarnationTag>;
// Counts the tasks given to one incarnation of a worker, from 1.
using Sequence = Id<struct SequenceTag>;

// Names a task and the gradient that answers it. Every message about either
// carries it, so repeating such a message is harmless.
struct GradientKey {
  Generation generation;
  WorkerId worker;
  Incarnation incarnation;
  Sequence sequence;

  constexpr auto operator<=>(const GradientKey&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const GradientKey& k) {
    return H::combine(std::move(h), k.generation, k.worker, k.incarnation,
                      k.sequence);
  }
  friend std::ostream& operator<<(std::ostream& out, const GradientKey& k) {
    return out << k.ToString();
  }
  // "g1/w3/i1/s17", for logs and messages.
  std::string ToString() const {
    return absl::StrCat("g", generation.value(), "/w", worker.value(), "/i",
                        incarnation.value(), "/s", sequence.value());
  }
};

}  // namespace sluice

#endif  // SLUICE_COMMON_IDS_H_

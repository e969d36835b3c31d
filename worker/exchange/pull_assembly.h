#ifndef SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_
#define SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/ids.h"

namespace sluice {

// Follows the chunks of one shard's slice as they arrive, over as many calls as
// it takes: they must come in order, without gaps, all of one version, the one
// that was asked for, and end where the slice ends. So a slice is never a
// mixture of versions.
//
// A call that breaks is repeated where it broke off, for the version of the
// chunks that are here. Where the shard no longer holds that version, and the
// caller takes a newer one, the slice begins anew.
//
// Thread-compatible: a call's thread has it from the call's begin to its end.
class PullAssembly {
 public:
  // Expects `floats` of exactly `version`, or of it or newer.
  PullAssembly(int64_t floats, Version version, bool exact)
      : floats_(floats), wanted_(version), exact_(exact) {}

  // What the next call is to ask for.
  struct Question {
    Version version;
    bool exact = false;
    int64_t offset = 0;  // Floats from the start of the range.
  };
  Question Ask();

  // Whether a chunk of `version` with `floats` at `offset` comes next.
  // kDataLoss says what was expected and what came.
  absl::Status Accept(Version version, int64_t offset, int64_t floats);

  // The call has ended with `status`: how the slice stands. OK: all of it is
  // here, and nothing that a shard says behind its last chunk changes that.
  // kDataLoss when the call ended well without them. kResourceExhausted: the
  // shard no longer holds the version; repeat.
  absl::Status End(const absl::Status& status);
  // The chunks so far are of a version that is gone; the slice begins anew.
  // From here on nothing is here. False, and nothing changed: it goes on.
  bool BeginAnew();

  // Of the chunks so far. REQUIRES: one was accepted.
  Version version() const { return version_; }
  // Where the next chunk goes, in floats from the start of the range.
  int64_t received() const { return received_; }

 private:
  // Constant after construction.
  int64_t floats_;
  Version wanted_;
  bool exact_;

  int64_t received_ = 0;
  Version version_;
  int64_t asked_at_ = 0;  // Where the present call began.
  bool gone_ = false;     // The version of the chunks that are here.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_

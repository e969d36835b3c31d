#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_

#include <optional>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// How much a process may say of itself in words. The lead keeps that, logs it
// and tells whoever asks for the status.
inline constexpr int kMostNameBytes = 1024;  // An address, a process, a member.
inline constexpr int kMostInputs = 32;
inline constexpr int kMostInputBytes = 4096;
inline constexpr int kMostReasonBytes = 4096;

// Whether what others are told of who joins is within the limits and has no
// control characters. kInvalidArgument names the process and the field.
absl::Status CheckNames(const proto::Join& join);

// Leaves its first kMostReasonBytes bytes, without a part of a character of
// UTF-8.
void CutReason(std::string* reason);

// `frame` with its reason cut to kMostReasonBytes; nullopt: it has no such
// reason.
std::optional<proto::ToCoordinator> WithReasonCut(
    const proto::ToCoordinator& frame);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_

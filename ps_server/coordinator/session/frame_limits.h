#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_

#include <optional>
#include <string>

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

// `text` as people may be told it: UTF-8, without control characters, which a
// terminal would obey (a line's end and a tab become a space, any other '?'),
// and at most kMostReasonBytes bytes.
std::string Readable(const std::string& text);

// `frame` with its reason made readable; nullopt: it has none.
std::optional<proto::ToCoordinator> WithReadableReason(
    const proto::ToCoordinator& frame);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_LIMITS_H_

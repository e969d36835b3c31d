#ifndef SLUICE_COMMON_SESSION_REASON_H_
#define SLUICE_COMMON_SESSION_REASON_H_

#include <string>

#include "proto/coordinator.pb.h"

namespace sluice {

// What `frame` says for people, of why it comes; null: frames of its kind say
// nothing. It may hold any bytes, as paths do, until somebody has made it fit
// for others: protobuf parses no message with a string that is no UTF-8.
std::string* ReasonIn(proto::ToCoordinator* frame);

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_REASON_H_

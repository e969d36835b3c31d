#include "common/session/reason.h"

namespace sluice {

std::string* ReasonIn(proto::ToCoordinator* frame) {
  switch (frame->body_case()) {
    case proto::ToCoordinator::kHeartbeat:
      return frame->mutable_heartbeat()->mutable_waits_for();
    case proto::ToCoordinator::kRejected:
      return frame->mutable_rejected()->mutable_reason();
    case proto::ToCoordinator::kEvaluated:
      return frame->mutable_evaluated()->mutable_error();
    case proto::ToCoordinator::kStored:
      return frame->mutable_stored()->mutable_error();
    case proto::ToCoordinator::kExecuted:
      return frame->mutable_executed()->mutable_fault();
    case proto::ToCoordinator::kLeave:
      return frame->mutable_leave()->mutable_reason();
    default:
      return nullptr;
  }
}

}  // namespace sluice

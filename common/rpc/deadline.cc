// By the monotonic clock throughout: a call must not end, or last, because
// somebody has set the time of day.
#include "common/rpc/deadline.h"

namespace sluice {

gpr_timespec FromNow(absl::Duration duration) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(duration), GPR_TIMESPAN));
}

void SetTimeout(absl::Duration timeout, grpc::ClientContext* context) {
  context->set_deadline(FromNow(timeout));
}

absl::Duration TimeLeft(const grpc::ServerContext& call) {
  const gpr_timespec deadline =
      gpr_convert_clock_type(call.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) {
    return absl::InfiniteDuration();
  }
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace sluice

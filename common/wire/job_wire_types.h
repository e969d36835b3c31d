#ifndef SLUICE_COMMON_WIRE_JOB_WIRE_TYPES_H_
#define SLUICE_COMMON_WIRE_JOB_WIRE_TYPES_H_

#include "common/wire/float_type.h"
#include "proto/job.pb.h"

namespace sluice {

// REQUIRES: the job's defaults are filled in.
inline WireTypes JobWireTypes(const proto::Job& job) {
  return {.pull = static_cast<FloatType>(job.wire().pull()),
          .push = static_cast<FloatType>(job.wire().push())};
}

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_JOB_WIRE_TYPES_H_

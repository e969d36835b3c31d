#ifndef SLUICE_COMMON_KEY_PROTO_H_
#define SLUICE_COMMON_KEY_PROTO_H_

#include "common/ids.h"
#include "proto/key.pb.h"

namespace sluice {

// Converts a gradient's key between its struct and its message.

inline GradientKey KeyFromProto(const proto::Key& key) {
  return {Generation(key.generation()), WorkerId(key.worker()),
          Incarnation(key.incarnation()), Sequence(key.sequence())};
}

inline proto::Key KeyToProto(const GradientKey& key) {
  proto::Key out;
  out.set_generation(key.generation.value());
  out.set_worker(key.worker.value());
  out.set_incarnation(key.incarnation.value());
  out.set_sequence(key.sequence.value());
  return out;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_KEY_PROTO_H_

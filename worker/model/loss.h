#ifndef SLUICE_WORKER_MODEL_LOSS_H_
#define SLUICE_WORKER_MODEL_LOSS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// What training minimises, on one device.
//
// Not thread-safe: call from the thread that computes.
class Loss {
 public:
  virtual ~Loss() = default;

  // The loss of the model's `outputs` (samples, places, outputs), the mean over
  // samples and mean_places(), against the batch's labels (samples, places) or
  // targets, and the gradient at `outputs`, times `scale`, a power of two,
  // unless `doutputs` is nullptr; both are activations in device memory and may
  // be the same.
  // Waits for the result.
  // kInvalidArgument where the batch does not fit: says which sample or how
  // many numbers, and what was expected.
  virtual absl::StatusOr<kernels::LossResult> Run(const Batch& batch,
                                                  const void* outputs,
                                                  float scale,
                                                  void* doutputs) = 0;
  // A sample's places over which that is a mean; 1 where it is a sum over them.
  virtual int64_t mean_places() const = 0;
};

// Prepares `kind` over `outputs` numbers at each of a sample's `places`, for up
// to `max_samples`.
// kInvalidArgument where it does not fit data that has labels
// (`classification`) or real targets.
absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(proto::Model::Loss kind,
                                               bool classification,
                                               int64_t places, int64_t outputs,
                                               int64_t max_samples,
                                               kernels::Device* device);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LOSS_H_

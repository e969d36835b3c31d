#ifndef SLUICE_KERNELS_CPU_LINEAR_OP_H_
#define SLUICE_KERNELS_CPU_LINEAR_OP_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/onednn.h"

namespace sluice::kernels {

// Dense or conv2d by oneDNN: what the two have in common around their
// primitives. `Prepared` has those for one number of samples, at least 1, and
// may throw what oneDNN does:
//
//   Prepared(const OneDnnContext&, const Shape&, int64_t samples)
//   void Forward(const OneDnnContext&, x, w, b, y)
//   void Backward(const OneDnnContext&, x, w, dy, dx, dw, db)
//
// Not thread-safe: call from the compute thread.
template <typename Shape, typename Prepared>
class OneDnnLinearOp final : public LinearOp {
 public:
  // Prepares for `max_samples`. kInvalidArgument, beginning with `name`, where
  // oneDNN cannot do the shape. `context` must outlive the operation.
  static absl::StatusOr<std::unique_ptr<LinearOp>> Create(
      std::string name, const OneDnnContext* context, const Shape& shape,
      int64_t max_samples) {
    auto op = std::unique_ptr<OneDnnLinearOp>(
        new OneDnnLinearOp(std::move(name), context, shape));
    const absl::Status prepared = op->Run(absl::StatusCode::kInvalidArgument,
                                          max_samples, [](Prepared&) {});
    if (!prepared.ok()) return prepared;
    return op;
  }

  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) override {
    if (samples == 0) return absl::OkStatus();
    return Run(absl::StatusCode::kInternal, samples, [&](Prepared& p) {
      p.Forward(context_, x, w, b, y);
      // By itself: the relu that oneDNN appends makes 0 of NaN.
      if (!shape_.relu) return;
      CpuReluForward(context_, samples * shape_.output_size(), AsFloats(y),
                     AsFloats(y));
    });
  }

  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      std::fill_n(dw, shape_.weight_size(), 0.0f);
      if (db != nullptr) std::fill_n(db, shape_.bias_size(), 0.0f);
      return absl::OkStatus();
    }
    return Run(absl::StatusCode::kInternal, samples, [&](Prepared& p) {
      p.Backward(context_, x, w, dy, dx, dw, db);
    });
  }

 private:
  OneDnnLinearOp(std::string name, const OneDnnContext* context,
                 const Shape& shape)
      : name_(std::move(name)), context_(*context), shape_(shape) {}

  template <typename F>
  absl::Status Run(absl::StatusCode code, int64_t samples, F f) {
    return CatchOneDnn(code, name_,
                       [&] { f(prepared_.For(samples, context_, shape_)); });
  }

  const std::string name_;
  const OneDnnContext& context_;
  const Shape shape_;
  PerSize<Prepared> prepared_;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_LINEAR_OP_H_

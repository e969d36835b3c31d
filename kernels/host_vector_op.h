#ifndef SLUICE_KERNELS_HOST_VECTOR_OP_H_
#define SLUICE_KERNELS_HOST_VECTOR_OP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/vector_op.h"

namespace sluice::kernels {

// A VectorOp of a device with host memory, which says what becomes of one range
// of `n` floats.
class HostVectorOp : public VectorOp {
 public:
  explicit HostVectorOp(absl::Span<const ParameterRange> ranges)
      : ranges_(ranges.begin(), ranges.end()) {}

  absl::Status Scale(ParameterRange within, float a, const float* x,
                     float* y) final {
    ForEach(within, [&](int64_t begin, int64_t n) {
      ScaleRange(n, a, x + begin, y + begin);
    });
    return absl::OkStatus();
  }
  absl::Status Add(ParameterRange within, float a, const float* x,
                   float* y) final {
    ForEach(within, [&](int64_t begin, int64_t n) {
      AddRange(n, a, x + begin, y + begin);
    });
    return absl::OkStatus();
  }
  absl::StatusOr<double> SumOfSquares(const float* x) final {
    double sum = 0;
    for (const ParameterRange& range : ranges_) {
      sum += SquaresOfRange(range.size(), x + range.begin);
    }
    return sum;
  }

 private:
  virtual void ScaleRange(int64_t n, float a, const float* x, float* y) = 0;
  virtual void AddRange(int64_t n, float a, const float* x, float* y) = 0;
  virtual double SquaresOfRange(int64_t n, const float* x) = 0;

  template <typename F>
  void ForEach(ParameterRange within, const F& f) const {
    for (const ParameterRange& range : ranges_) {
      const int64_t begin = std::max(range.begin, within.begin);
      const int64_t end = std::min(range.end, within.end);
      if (begin < end) f(begin, end - begin);
    }
  }

  const std::vector<ParameterRange> ranges_;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_HOST_VECTOR_OP_H_

// The ranges of weights are cut once, at PiecesOf, and the list of pieces lies
// on the device. The ranges [0, 10000) and [10010, 20000), ten statistics
// between them, become
//
//   [0, 8192) [8192, 10000) [10010, 16384) [16384, 20000)
//
// and Scale within [9000, 17000) launches blocks for the last three, of which
// each touches only what is within.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

std::vector<ParameterRange> PiecesOf(absl::Span<const ParameterRange> ranges) {
  std::vector<ParameterRange> pieces;
  for (const ParameterRange& range : ranges) {
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t next = (begin / kPieceFloats + 1) * kPieceFloats;
      pieces.push_back({begin, std::min(next, range.end)});
      begin = next;
    }
  }
  return pieces;
}

class VectorOnGpu : public VectorOp {
 public:
  VectorOnGpu(GpuDevice* gpu, std::string name,
              std::vector<ParameterRange> pieces)
      : gpu_(*gpu), name_(std::move(name)), pieces_(std::move(pieces)) {}

  // To be called once.
  absl::Status Prepare() {
    if (pieces_.empty()) return absl::OkStatus();
    const int64_t bytes = pieces_.size() * sizeof(ParameterRange);
    auto on_device = gpu_.Allocate(bytes);
    if (!on_device.ok()) return Named(name_, on_device.status());
    on_device_ = *std::move(on_device);
    return Named(name_,
                 gpu_.CopyToDevice(pieces_.data(), on_device_->data(), bytes));
  }

  absl::Status Scale(ParameterRange within, float a, const float* x,
                     float* y) override {
    return Run(ScaleVector, within, a, x, y);
  }

  absl::Status Add(ParameterRange within, float a, const float* x,
                   float* y) override {
    return Run(AddVector, within, a, x, y);
  }

  absl::StatusOr<double> SumOfSquares(const float* x) override {
    if (pieces_.empty()) return 0.0;
    const auto count = static_cast<int64_t>(pieces_.size());
    SLUICE_ASSIGN_OR_RETURN(
        const Pair total,
        gpu_.WaitForTotal(name_, count, [&](Pair* parts, Pair* into) {
          return SquaresOfVector(gpu_.stream(), count, Pieces(), x, parts,
                                 into);
        }));
    return total.first;
  }

 private:
  // Launches blocks for the pieces that reach into `within`.
  absl::Status Run(decltype(&ScaleVector) kernel, const ParameterRange& within,
                   float a, const float* x, float* y) {
    if (within.size() <= 0) return absl::OkStatus();
    const auto first = std::partition_point(
        pieces_.begin(), pieces_.end(),
        [&](const ParameterRange& piece) { return piece.end <= within.begin; });
    const auto last = std::partition_point(
        first, pieces_.end(),
        [&](const ParameterRange& piece) { return piece.begin < within.end; });
    if (first == last) return absl::OkStatus();
    return gpu_.Launched(
        name_, kernel(gpu_.stream(), last - first,
                      Pieces() + (first - pieces_.begin()), within, a, x, y));
  }

  const ParameterRange* Pieces() const {
    return static_cast<const ParameterRange*>(on_device_->data());
  }

  GpuDevice& gpu_;
  const std::string name_;
  const std::vector<ParameterRange> pieces_;
  std::unique_ptr<Buffer> on_device_;  // The same; nullptr without any.
};

}  // namespace

absl::StatusOr<std::unique_ptr<VectorOp>> MakeVectorOp(
    GpuDevice* gpu, absl::Span<const ParameterRange> ranges) {
  int64_t floats = 0;
  for (const ParameterRange& range : ranges) floats += range.size();
  auto op = std::make_unique<VectorOnGpu>(
      gpu,
      absl::StrCat("vector of ", ranges.size(), " ranges, ", floats, " floats"),
      PiecesOf(ranges));
  SLUICE_RETURN_IF_ERROR(op->Prepare());
  return op;
}

}  // namespace sluice::kernels::cuda

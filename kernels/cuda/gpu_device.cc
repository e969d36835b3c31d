// Scratch belongs to one call at a time, which needs no lock: the stream runs
// the calls in order. While operations are recorded nothing can be allocated,
// so what is recorded must have run before, and a recording keeps the scratch
// that its kernels were given:
//
//   Scratch(1 MiB)                     allocated
//   Scratch(4 MiB)                     the first is freed, once nothing uses it
//   Record: Scratch(2 MiB)             the 4 MiB, which the recording keeps
//   Scratch(8 MiB)                     new ones; the recording has its 4 MiB
//   Record: Scratch(9 MiB)             kFailedPrecondition: not recorded
#include "kernels/cuda/gpu_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

// With the scratch memory that it uses.
class KeptRecording : public Recording {
 public:
  KeptRecording(std::shared_ptr<Buffer> scratch,
                std::unique_ptr<Recording> recording)
      : scratch_(std::move(scratch)), recording_(std::move(recording)) {}
  absl::Status Run() override { return recording_->Run(); }

 private:
  const std::shared_ptr<Buffer> scratch_;
  const std::unique_ptr<Recording> recording_;
};

}  // namespace

std::string GpuDevice::Description() const {
  return absl::StrCat("cuda (", DescribeGpu(), ", ", NameOf(precision_), ")");
}

absl::StatusOr<std::unique_ptr<Recording>> GpuDevice::Record(
    absl::FunctionRef<absl::Status()> calls) {
  recording_ = true;
  auto recorded = RecordStream(calls);
  recording_ = false;
  if (!recorded.ok()) return recorded.status();
  return std::make_unique<KeptRecording>(scratch_, *std::move(recorded));
}

absl::StatusOr<std::unique_ptr<VectorOp>> GpuDevice::PrepareVector(
    absl::Span<const ParameterRange> ranges) {
  return MakeVectorOp(this, ranges);
}

absl::StatusOr<AnyOp> GpuDevice::PrepareAny(const OpSpec& spec,
                                            int64_t max_samples) {
  return PrepareEach(spec, [&](const auto& shape) {
    return MakeOp(this, shape, max_samples);
  });
}

absl::StatusOr<char*> GpuDevice::Scratch(int64_t bytes) {
  if (bytes > scratch_bytes_ || scratch_ == nullptr) {
    if (recording_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "scratch memory of ", bytes, " bytes cannot be had while recording"));
    }
    scratch_.reset();  // Waits until nothing uses it.
    scratch_bytes_ = 0;
    SLUICE_ASSIGN_OR_RETURN(scratch_, Allocate(bytes));
    scratch_bytes_ = bytes;
  }
  return static_cast<char*>(scratch_->data());
}

absl::StatusOr<Pair> GpuDevice::WaitForTotal(
    const std::string& name, int64_t count,
    absl::FunctionRef<int(Pair* parts, Pair* total)> launch) {
  const int64_t bytes = (count + 1) * static_cast<int64_t>(sizeof(Pair));
  auto memory = Scratch(bytes);
  if (!memory.ok()) return Named(name, memory.status());
  auto* parts = reinterpret_cast<Pair*>(*memory);
  Pair* const total = parts + count;
  SLUICE_RETURN_IF_ERROR(Launched(name, launch(parts, total)));
  Pair sums;
  SLUICE_RETURN_IF_ERROR(Named(name, CopyToHost(total, &sums, sizeof(sums))));
  return sums;
}

absl::Status GpuDevice::Launched(const std::string& name, int error) const {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, ": CUDA: ", ErrorText(error)));
}

void GpuDevice::FellBack(const std::string& name, const std::string& instead,
                         const absl::Status& why) {
  const std::string what =
      absl::StrCat(name, ": ", instead, ": ", why.message());
  if (told_.insert(what).second) on_fallback_(what);
}

absl::Status Named(const std::string& name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

}  // namespace sluice::kernels::cuda

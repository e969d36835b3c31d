// EnterThread has no way to say that it failed, so what it found is kept in
// entered_, and the calls that follow say it: none works on another thread's
// GPU.
#include "kernels/cuda/device_on_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/op_context.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class DeviceOnBackend : public Device {
 public:
  DeviceOnBackend(std::unique_ptr<Backend> backend, Precision precision)
      : context_(std::move(backend), precision) {}

  std::string Description() const override {
    return absl::StrCat("cuda (", context_.backend().Description(), ", ",
                        NameOf(context_.precision()), ")");
  }
  void EnterThread() override { entered_ = context_.backend().EnterThread(); }
  int64_t activation_bytes() const override {
    return BytesOf(context_.precision());
  }
  bool uses_host_memory() const override { return false; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().Allocate(bytes);
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().CopyToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().CopyToHost(device, host, bytes);
  }
  absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() override {
    return context_.backend().PrepareUpload();
  }
  absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().PrepareDownload(bytes);
  }
  absl::Status Synchronize() override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().Synchronize();
  }
  absl::Status Pace(int ahead) override {
    return context_.backend().Pace(ahead);
  }
  bool can_record() const override { return true; }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.Record(calls);
  }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return MakeVectorOp(&context_, ranges);
  }
  absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec,
                                   int64_t max_samples) override {
    return PrepareEach(spec, [&](const auto& shape) {
      return MakeOp(&context_, shape, max_samples);
    });
  }

 private:
  OpContext context_;
  absl::Status entered_;  // Of the thread that entered last.
};

}  // namespace

std::unique_ptr<Device> MakeDeviceOn(std::unique_ptr<Backend> backend,
                                     Precision precision) {
  return std::make_unique<DeviceOnBackend>(std::move(backend), precision);
}

}  // namespace sluice::kernels::cuda

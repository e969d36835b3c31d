// A gradient becomes final from its end to its beginning. What lies from
// sent_from_ on has been given to the copies, and under_way_ is the part of it
// that is not yet in host memory, in order; the host hears of a part when it is
// there. Small parts wait for each other, large ones are cut, so that the push
// can begin with the first.
//
// A vector of 5 MiB, copies of 1 MiB:
//
//   FinalFrom(3.5)   Send [3.5, 5)
//   FinalFrom(3.2)   0.3 MiB is not worth a copy
//   FinalFrom(0)     Send [2.5, 3.5), [1.5, 2.5), [0, 1.5)
//   Finish           nothing is left to send; waits for the last
#include "worker/model/accelerator/gradient_array.h"

#include "common/status_macros.h"

namespace sluice {
namespace {

// Floats that are worth a copy of their own: 1 MiB, about 40 us over PCIe 4,
// beside 10 us to begin it; and as much as a push sends at once.
constexpr int64_t kWorthACopy = 1 << 18;

}  // namespace

absl::StatusOr<GradientArray> GradientArray::Create(kernels::Device* device,
                                                    int64_t floats) {
  GradientArray made;
  made.accelerator_ = device->accelerator();
  if (made.accelerator_ == nullptr) return made;
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  SLUICE_ASSIGN_OR_RETURN(made.buffer_, device->Allocate(bytes));
  SLUICE_ASSIGN_OR_RETURN(made.download_,
                          made.accelerator_->PrepareDownload(bytes));
  return made;
}

absl::Status GradientArray::Begin(GradientSink* host, TaskProgress* progress) {
  host_ = host;
  progress_ = progress;
  final_from_ = sent_from_ = static_cast<int64_t>(host->values().size());
  under_way_.clear();
  return download_ == nullptr ? absl::OkStatus() : download_->Drop();
}

absl::Span<float> GradientArray::values() {
  const absl::Span<float> host = host_->values();
  return buffer_ == nullptr ? host
                            : absl::MakeSpan(buffer_->floats(), host.size());
}

absl::Status GradientArray::FinalFrom(int64_t from) {
  final_from_ = from;
  if (download_ == nullptr) return host_->FinalFrom(from);
  // What became final at once goes in several, to be pushed as they come.
  while (sent_from_ - final_from_ >= 2 * kWorthACopy) {
    SLUICE_RETURN_IF_ERROR(Send(sent_from_ - kWorthACopy));
  }
  if (sent_from_ - final_from_ >= kWorthACopy) {
    SLUICE_RETURN_IF_ERROR(Send(final_from_));
  }
  return Take(/*wait=*/false);
}

absl::Status GradientArray::Finish() {
  SLUICE_CHECK(final_from_ == 0);
  if (download_ == nullptr) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(Send(final_from_));
  SLUICE_RETURN_IF_ERROR(Take(/*wait=*/true));
  return accelerator_->Synchronize();
}

absl::Status GradientArray::Send(int64_t from) {
  const ParameterRange part = {from, sent_from_};
  if (part.size() == 0) return absl::OkStatus();
  sent_from_ = from;
  if (under_way_.empty()) progress_->BeginCopy(Transfer::kToHost);
  under_way_.push_back(part);
  return download_->Begin(buffer_->floats() + part.begin,
                          host_->values().data() + part.begin,
                          part.size() * static_cast<int64_t>(sizeof(float)));
}

absl::Status GradientArray::Take(bool wait) {
  while (!under_way_.empty()) {
    const ParameterRange part = under_way_.front();
    SLUICE_ASSIGN_OR_RETURN(const bool taken, download_->Take(wait));
    if (!taken) break;
    under_way_.pop_front();
    if (under_way_.empty()) progress_->EndCopy(Transfer::kToHost);
    SLUICE_RETURN_IF_ERROR(host_->FinalFrom(part.begin));
  }
  return absl::OkStatus();
}

}  // namespace sluice

// A sample may have several places: a text of 128 bytes has 128, with 256
// outputs and one label at each; an image has one. Softmax cross-entropy is the
// mean over samples and places, mean squared error the mean over samples of the
// sum over all outputs.
//
// Labels are checked here, on the host: an operation on a device cannot refuse
// one, nor say which.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/model/accelerator/host_array.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

using kernels::LossResult;

class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(std::unique_ptr<kernels::SoftmaxCrossEntropyOp> op,
                      int64_t places, int64_t classes, HostArray labels)
      : op_(std::move(op)),
        places_(places),
        classes_(classes),
        labels_(std::move(labels)) {}

  absl::StatusOr<LossResult> Run(const Batch& batch, const void* outputs,
                                 float scale, void* doutputs) override {
    const int64_t expected = batch.samples * places_;
    if (static_cast<int64_t>(batch.labels.size()) != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", batch.samples, " samples has ",
                       batch.labels.size(), " labels, expected ", expected));
    }
    for (int64_t n = 0; n < expected; ++n) {
      if (batch.labels[n] < 0 || batch.labels[n] >= classes_) {
        return absl::InvalidArgumentError(absl::StrCat(
            "sample ", n / places_, " of the batch has label ", batch.labels[n],
            ", expected 0 to ", classes_ - 1, " (the model's outputs)"));
      }
    }
    SLUICE_ASSIGN_OR_RETURN(const int32_t* labels,
                            labels_.ToDevice<int32_t>(batch.labels));
    return op_->Run(expected, outputs, labels, scale, doutputs);
  }
  int64_t mean_places() const override { return places_; }

 private:
  const std::unique_ptr<kernels::SoftmaxCrossEntropyOp> op_;
  const int64_t places_;  // Of a sample.
  const int64_t classes_;
  HostArray labels_;
};

class MeanSquaredError : public Loss {
 public:
  MeanSquaredError(std::unique_ptr<kernels::MeanSquaredErrorOp> op,
                   int64_t outputs, HostArray targets)
      : op_(std::move(op)), outputs_(outputs), targets_(std::move(targets)) {}

  absl::StatusOr<LossResult> Run(const Batch& batch, const void* outputs,
                                 float scale, void* doutputs) override {
    const int64_t expected = batch.samples * outputs_;
    if (static_cast<int64_t>(batch.targets.size()) != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", batch.samples, " samples has ",
                       batch.targets.size(), " targets, expected ", expected,
                       " (the model has ", outputs_, " outputs)"));
    }
    SLUICE_ASSIGN_OR_RETURN(const float* targets,
                            targets_.ToDevice<float>(batch.targets));
    return op_->Run(batch.samples, outputs, targets, scale, doutputs);
  }
  int64_t mean_places() const override { return 1; }

 private:
  const std::unique_ptr<kernels::MeanSquaredErrorOp> op_;
  const int64_t outputs_;
  HostArray targets_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(proto::Model::Loss kind,
                                               bool classification,
                                               int64_t places, int64_t outputs,
                                               int64_t max_samples,
                                               kernels::Device* device) {
  if (kind == proto::Model::MEAN_SQUARED_ERROR) {
    if (classification) {
      return absl::InvalidArgumentError(
          "model.loss: MEAN_SQUARED_ERROR needs real targets, the data has "
          "labels");
    }
    outputs *= places;  // A sum over both.
    SLUICE_ASSIGN_OR_RETURN(
        auto op,
        device->Prepare(kernels::MeanSquaredErrorShape{outputs}, max_samples));
    SLUICE_ASSIGN_OR_RETURN(
        HostArray targets,
        HostArray::Create(device, max_samples * outputs * sizeof(float)));
    return std::make_unique<MeanSquaredError>(std::move(op), outputs,
                                              std::move(targets));
  }
  if (!classification) {
    return absl::InvalidArgumentError(
        "model.loss: SOFTMAX_CROSS_ENTROPY needs labels, the data has real "
        "targets");
  }
  SLUICE_ASSIGN_OR_RETURN(
      auto op, device->Prepare(kernels::SoftmaxCrossEntropyShape{outputs},
                               max_samples * places));
  SLUICE_ASSIGN_OR_RETURN(
      HostArray labels,
      HostArray::Create(device, max_samples * places * sizeof(int32_t)));
  return std::make_unique<SoftmaxCrossEntropy>(std::move(op), places, outputs,
                                               std::move(labels));
}

}  // namespace sluice

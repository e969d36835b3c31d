// Models on a device that orders activations in its own way.
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// (samples, rows, columns) to (samples, columns, rows).
void Transpose(int64_t samples, int64_t rows, int64_t columns, const void* x,
               void* y) {
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<float*>(y);
  const int64_t size = rows * columns;
  for (int64_t i = 0; i < samples * size; ++i) {
    const int64_t row = i % size / columns, column = i % columns;
    to[i / size * size + column * rows + row] = from[i];
  }
}

class ToChannelsLast : public kernels::InputOp {
 public:
  ToChannelsLast(int64_t channels, int64_t pixels)
      : channels_(channels), pixels_(pixels) {}
  absl::Status Run(int64_t samples, const float* x, void* y) override {
    Transpose(samples, channels_, pixels_, x, y);
    return absl::OkStatus();
  }

 private:
  const int64_t channels_, pixels_;
};

class ToChannelsFirst : public kernels::MapOp {
 public:
  ToChannelsFirst(int64_t channels, int64_t pixels)
      : channels_(channels), pixels_(pixels) {}
  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    Transpose(samples, pixels_, channels_, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    Transpose(samples, channels_, pixels_, dy, dx);
    return absl::OkStatus();
  }

 private:
  const int64_t channels_, pixels_;
};

// Images with channels last are to the reference samples of one pixel.
class BatchNormOfRows : public kernels::BatchNormOp {
 public:
  BatchNormOfRows(std::unique_ptr<kernels::BatchNormOp> op, int64_t pixels)
      : op_(std::move(op)), pixels_(pixels) {}
  absl::Status Normalize(int64_t samples, const void* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    return op_->Normalize(samples * pixels_, x, gamma, beta, mean, variance, y);
  }
  absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y) override {
    return op_->Apply(samples * pixels_, x, gamma, beta, mean, variance, y);
  }
  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    return op_->Backward(samples * pixels_, x, gamma, mean, variance, dy, dx,
                         dgamma, dbeta);
  }

 private:
  const std::unique_ptr<kernels::BatchNormOp> op_;
  const int64_t pixels_;
};

// The reference's floats with channels last, in inputs, flatten, batch norm and
// what is elementwise; with notes of what it is asked for.
class ChannelsLastDevice : public SeparateMemoryDevice {
 public:
  int64_t activation_bytes() const override { return bytes_of_number; }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Allocate(
      int64_t bytes) override {
    allocated += bytes;
    return SeparateMemoryDevice::Allocate(bytes);
  }
  absl::StatusOr<kernels::AnyOp> PrepareAny(const kernels::OpSpec& spec,
                                            int64_t max_samples) override {
    if (const auto* input = std::get_if<kernels::InputShape>(&spec)) {
      inputs.emplace_back(input->channels, input->pixels);
      return std::make_unique<ToChannelsLast>(input->channels, input->pixels);
    }
    if (const auto* flatten = std::get_if<kernels::FlattenShape>(&spec)) {
      const int64_t channels = flatten->channels, pixels = flatten->pixels;
      if (channels == 1 || pixels == 1) {
        return std::unique_ptr<kernels::MapOp>();
      }
      return std::make_unique<ToChannelsFirst>(channels, pixels);
    }
    if (const auto* norm = std::get_if<kernels::BatchNormShape>(&spec)) {
      kernels::BatchNormShape rows = *norm;
      rows.pixels = 1;
      return std::make_unique<BatchNormOfRows>(
          *device().Prepare(rows, max_samples * norm->pixels), norm->pixels);
    }
    if (const auto* dropout = std::get_if<kernels::DropoutShape>(&spec)) {
      dropouts.emplace_back(dropout->channels, dropout->pixels);
    }
    if (const auto* conv2d = std::get_if<kernels::Conv2dShape>(&spec)) {
      relu.push_back(conv2d->relu);
    }
    return SeparateMemoryDevice::PrepareAny(spec, max_samples);
  }

  int64_t bytes_of_number = sizeof(float);
  int64_t allocated = 0;
  // Channels and pixels.
  std::vector<std::pair<int64_t, int64_t>> inputs, dropouts;
  std::vector<bool> relu;  // Of convolutions.
};

void ExpectTheReferencesBits(const ResolvedJob& job) {
  const auto reference = kernels::MakeReferenceDevice();
  ChannelsLastDevice device;
  const auto model = Create(job, 4, &device);
  const auto plain = Create(job, 4, reference.get());
  const auto weights = InitialWeights(job);
  for (const int64_t samples : {4, 3}) {
    const Batch batch = MakeBatch(job, samples, 5);
    EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights),
                         Gradient(plain.get(), batch, weights)));
    EXPECT_EQ(model->Evaluate(batch, weights)->loss,
              plain->Evaluate(batch, weights)->loss);
  }
}

TEST(ChannelsLastTest, InputsAndFlattensBringImagesToTheOrderOfTheirReaders) {
  ExpectTheReferencesBits(MakeJob(R"(
    layer { batch_norm {} }
    layer { tanh {} }
    layer { residual { layer { batch_norm {} } layer { tanh {} } } }
    layer { flatten {} }
    layer { relu {} }
    layer { dense { units: 4 } }
    layer { flatten {} }
    layer { relu {} }
    layer { dense { units: 3 } }
  )",
                                  {3, 2, 5}));
  // Of which nothing is left to its first reader but the flatten.
  ExpectTheReferencesBits(
      MakeJob("layer { flatten {} } layer { dense { units: 4 } }", {3, 2, 5}));
}

TEST(ChannelsLastTest, InputsOfNoImagesAreAllChannels) {
  ChannelsLastDevice device;
  Create(MakeJob("layer { batch_norm {} } layer { flatten {} }", {3, 2, 5}), 2,
         &device);
  Create(MakeJob("layer { dense { units: 4 } }", {6}), 2, &device);
  EXPECT_THAT(device.inputs, ElementsAre(Pair(3, 10), Pair(6, 1)));
}

TEST(ChannelsLastTest, AnEmbeddingReadsTheInputsAsTheyAre) {
  const ResolvedJob job = MakeJob(
      "layer { embedding { vocabulary: 7 features: 6 } }"
      "layer { dense { units: 7 } }",
      {5});
  ExpectTheReferencesBits(job);
  ChannelsLastDevice device;
  Create(job, 2, &device);
  EXPECT_THAT(device.inputs, IsEmpty());
}

TEST(ChannelsLastTest, DropoutIsToldTheChannelsOfImages) {
  ChannelsLastDevice device;
  Create(MakeJob("layer { dropout {} } layer { flatten {} }"
                 "layer { dropout {} } layer { dense { units: 2 } }",
                 {3, 2, 5}),
         2, &device);
  EXPECT_THAT(device.dropouts, ElementsAre(Pair(3, 10), Pair(30, 1)));
}

TEST(ChannelsLastTest, AFlattenThatMovesNumbersKeepsReluOutOfAConvolution) {
  ChannelsLastDevice device;
  Create(MakeJob("layer { conv2d { channels: 2 kernel: 1 } }"
                 "layer { relu {} }"
                 "layer { conv2d { channels: 2 kernel: 1 } }"
                 "layer { flatten {} } layer { relu {} }",
                 {1, 3, 3}),
         1, &device);
  EXPECT_THAT(device.relu, ElementsAre(true, false));
}

TEST(ChannelsLastTest, WhatLiesBetweenLayersTakesTheDevicesBytes) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 6 } } layer { tanh {} }"
      "layer { dense { units: 3 } }",
      {5});
  const auto allocated = [&](int64_t bytes_of_number) {
    ChannelsLastDevice device;
    device.bytes_of_number = bytes_of_number;
    Create(job, 7, &device);
    return device.allocated;
  };
  // Inputs, two outputs, as the tanh works in place, and twice the largest.
  EXPECT_EQ(allocated(4) - allocated(2), 2 * 7 * (5 + 6 + 3 + 2 * 6));
}

}  // namespace
}  // namespace sluice

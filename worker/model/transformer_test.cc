// A small decoder-only transformer: what it computes, what it may not see, and
// that it learns.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/layer_stack.h"
#include "worker/model/testing/gradient_checks.h"
#include "worker/model/testing/model_testing.h"

namespace sluice {
namespace {

// Blocks that norm what comes into them (Radford et al. 2019, 2.3).
std::string Transformer(int vocabulary, int features, int heads, int blocks) {
  const auto n = [](int number) { return std::to_string(number); };
  return "layer { embedding { vocabulary: " + n(vocabulary) +
         " features: " + n(features) +
         " } } layer { repeat { times: " + n(blocks) +
         " layer { residual { layer { layer_norm {} } layer { dense { units: " +
         n(3 * features) + " } } layer { attention { heads: " + n(heads) +
         " } } layer { dense { units: " + n(features) +
         " } } } } layer { residual { layer { layer_norm {} } "
         "layer { dense { units: " +
         n(4 * features) +
         " } } layer { gelu {} } layer { dense { units: " + n(features) +
         " } } } } } } layer { layer_norm {} } layer { tied_output {} }";
}

// As it starts, logits hardly depend on anything, and behind a norm of numbers
// around 0.02 a small step is a large one. With these every gradient is far
// from 0 and the loss is smooth.
std::vector<float> LargeWeights(const ResolvedJob& job) {
  std::vector<float> weights = InitialWeights(job);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (job.layout.TensorAt(i).name.find("embedding") == 0) weights[i] *= 30;
    weights[i] += 0.03f * static_cast<float>(i % 7);
  }
  return weights;
}

TEST(TransformerTest, GradientsAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(Transformer(5, 4, 2, 1), {6});
  const auto device = kernels::MakeReferenceDevice();
  const Batch batch = MakeBatch(job, 3, 5);
  const auto model = Create(job, 3, device.get());
  const std::vector<float> weights = LargeWeights(job);
  const auto gradient = Gradient(model.get(), batch, weights);
  // A difference is off by h^2 / 6 times the third derivative and by the
  // rounding of two losses of about 2 that come from about 16 layers; as
  // CheckTrainingGradient.
  constexpr float kStep = 1.0 / 256;
  const double tolerance =
      20 * kStep * kStep / 6 + 2 * 16 * 4 * kUnit * 2 / (2 * kStep);
  std::vector<double> largest(job.layout.tensors().size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double above = LossAt(model.get(), batch, weights, i, kStep);
    const double below = LossAt(model.get(), batch, weights, i, -kStep);
    const TensorSpec& tensor = job.layout.TensorAt(i);
    ASSERT_NEAR((above - below) / (2 * kStep), gradient[i], tolerance)
        << tensor.name << " at " << i;
    double& most = largest[&tensor - job.layout.tensors().data()];
    most = std::max(most, static_cast<double>(std::abs(gradient[i])));
  }
  for (size_t t = 0; t < largest.size(); ++t) {
    EXPECT_GT(largest[t], 10 * tolerance) << job.layout.tensors()[t].name;
  }
}

TEST(TransformerTest, GradientsWithoutTiedOutputAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(
      "layer { embedding { vocabulary: 4 features: 3 } } layer { tanh {} }"
      "layer { dense { units: 4 } }",
      {5});
  CheckTrainingGradient(job, MakeBatch(job, 4, 5));
}

TEST(TransformerTest, TheCpuComputesAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(Transformer(17, 24, 3, 2), {19});
  const auto weights = LargeWeights(job);
  const Batch batch = MakeBatch(job, 5, 5);
  const auto reference = kernels::MakeReferenceDevice();
  const auto plain = Create(job, 5, reference.get());
  const auto want = Gradient(plain.get(), batch, weights);
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    const auto fast = Create(job, 7, cpu.get());
    const auto got = Gradient(fast.get(), batch, weights);
    // Each of about 20 layers twice, with sums of at most 5 x 19, and 96
    // terms, and norms and scores that stretch what came before a few times.
    const double terms = 4 * 2 * 20 * (5 * 19 + 96);
    for (const TensorSpec& tensor : job.layout.tensors()) {
      float largest = 0;
      for (int64_t i = 0; i < tensor.size; ++i) {
        largest = std::max(largest, std::abs(want[tensor.offset + i]));
      }
      EXPECT_GT(largest, 0) << tensor.name;
      for (int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        ASSERT_NEAR(got[i], want[i], terms * kUnit * largest) << tensor.name;
      }
    }
    EXPECT_EQ(fast->Evaluate(batch, weights)->correct,
              plain->Evaluate(batch, weights)->correct);
  }
}

TEST(TransformerTest, AGradientIsAFunctionOfBatchAndWeightsAlone) {
  const ResolvedJob job = MakeJob(Transformer(17, 24, 3, 2), {19});
  const auto weights = InitialWeights(job);
  const Batch full = MakeBatch(job, 6, 5), last = MakeBatch(job, 2, 6);
  const auto device = Cpu(), other = Cpu();
  const auto model = Create(job, 6, device.get());
  const auto of_full = Gradient(model.get(), full, weights);
  const auto of_last = Gradient(model.get(), last, weights);
  EXPECT_TRUE(SameBits(Gradient(model.get(), full, weights), of_full));
  const auto exact = Create(job, 2, other.get());
  EXPECT_TRUE(SameBits(Gradient(exact.get(), last, weights), of_last));
}

TEST(TransformerTest, TheTiedGradientIsFinalWhenTheEmbeddingAnnouncesIt) {
  // The embedding, two norms and two dense layers in the block, the last norm.
  CheckAnnouncements(MakeJob(Transformer(5, 4, 2, 1), {6}),
                     kernels::MakeReferenceDevice().get(), 8);
}

// The outputs of the job's layers, (samples, length, outputs).
std::vector<float> Outputs(const ResolvedJob& job, kernels::Device* device,
                           const Batch& batch,
                           const std::vector<float>& weights) {
  device->EnterThread();
  auto stack = LayerStack::Create(
      {.plan = job.model, .max_samples = batch.samples, .device = device},
      job.model.layers);
  EXPECT_TRUE(stack.ok()) << stack.status();
  const CancelToken never;
  const Pass pass = {
      .samples = batch.samples, .weights = weights.data(), .cancel = never};
  EXPECT_TRUE((*stack)->Forward(pass, batch.inputs.data()).ok());
  const auto* y =
      static_cast<const float*>((*stack)->Output(batch.inputs.data()));
  const auto& shape = job.model.layers.back().output_shape;
  return std::vector<float>(y, y + batch.samples * shape[0] * shape[1]);
}

TEST(TransformerTest, ALaterByteChangesNoBitOfAnEarlierPlacesOutputs) {
  const int length = 19, vocabulary = 17;
  const ResolvedJob job = MakeJob(Transformer(vocabulary, 24, 3, 2), {length});
  const auto weights = LargeWeights(job);
  const auto cpu = Cpu(), reference = kernels::MakeReferenceDevice();
  for (kernels::Device* device : {cpu.get(), reference.get()}) {
    Batch batch = MakeBatch(job, 2, 5);
    const auto before = Outputs(job, device, batch, weights);
    for (int place = 0; place < length; ++place) {
      float& byte = batch.inputs[place];  // Of the first sample.
      const float kept = byte;
      byte = static_cast<float>((static_cast<int>(kept) + 1) % vocabulary);
      const auto after = Outputs(job, device, batch, weights);
      byte = kept;
      for (int t = 0; t < length; ++t) {
        const bool same = std::memcmp(before.data() + t * vocabulary,
                                      after.data() + t * vocabulary,
                                      vocabulary * sizeof(float)) == 0;
        EXPECT_EQ(same, t < place) << "byte " << place << ", place " << t;
      }
      // The other sample sees nothing of it.
      EXPECT_EQ(std::memcmp(before.data() + length * vocabulary,
                            after.data() + length * vocabulary,
                            length * vocabulary * sizeof(float)),
                0);
    }
  }
}

// Bits times log 2: nats a byte if only the bytes' frequencies were known.
double Entropy(const std::string& text) {
  std::array<double, 256> counts = {};
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  double entropy = 0;
  for (const double count : counts) {
    const double share = count / static_cast<double>(text.size());
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

// Words in an order that the seed draws.
std::string Words(int64_t size, uint64_t seed) {
  const std::array<std::string, 8> words = {
      "the ", "shard ", "pulls ", "worker ", "pushes ", "a ", "weight ", "to "};
  const Random random(seed, uint64_t{0});
  std::string text;
  for (uint64_t i = 0; static_cast<int64_t>(text.size()) < size; ++i) {
    text += words[random.Uint64(i) % words.size()];
  }
  return text;
}

TEST(TransformerTest, TrainingGoesBelowTheEntropyOfTheBytesFrequencies) {
  constexpr uint64_t kSeed = 5;
  RecordProperty("seed", static_cast<int>(kSeed));
  const int64_t length = 32, samples = 16;
  const ResolvedJob job = MakeJob(Transformer(256, 32, 4, 1), {length});
  const auto device = Cpu();
  const auto model = Create(job, samples, device.get());
  const std::string text = Words(20000, kSeed);
  std::vector<float> weights = InitialWeights(job);
  const Random random(kSeed, uint64_t{1});
  // The mini-batch's loss, after a step of SGD with momentum on it.
  std::vector<float> gradient(weights.size()), velocity(weights.size());
  const auto step = [&](uint64_t number) {
    Batch batch;
    batch.samples = samples;
    for (int64_t n = 0; n < samples; ++n) {
      const auto at = static_cast<int64_t>(random.Uint64(number * samples + n) %
                                           (text.size() - length - 1));
      for (int64_t t = at; t < at + length; ++t) {
        batch.inputs.push_back(static_cast<float>(text[t]));
        batch.labels.push_back(text[t + 1]);
      }
    }
    const auto result = model->ComputeGradient(
        batch, weights, absl::MakeSpan(gradient), CancelToken());
    EXPECT_TRUE(result.ok()) << result.status();
    for (size_t i = 0; i < weights.size(); ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      weights[i] -= 0.05f * velocity[i];
    }
    return result->loss;
  };
  const double first = step(0);
  // Nothing is known yet of 256 values.
  EXPECT_NEAR(first, std::log(256), 0.1);
  double last = 0;
  for (uint64_t i = 1; i < 150; ++i) last = step(i);
  // Within a word a byte follows from those before it.
  EXPECT_LT(last, Entropy(text) / 2)
      << "seed " << kSeed << ": the entropy is " << Entropy(text)
      << ", the first loss was " << first;
}

}  // namespace
}  // namespace sluice

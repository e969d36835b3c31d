#include "worker/pipeline/stage_model.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/job/stage_plan.h"
#include "common/process/named_thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/emulated_gpu.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

// What travels one way between two stages, in this process.
class Way {
 public:
  void Put(int64_t pass, absl::Span<const uint8_t> bytes) {
    absl::MutexLock lock(&mu_);
    sent_.push_back({pass, {bytes.begin(), bytes.end()}});
  }
  absl::Status Take(int64_t pass, absl::Span<uint8_t> into) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](std::deque<Sent>* sent) { return !sent->empty(); }, &sent_));
    const Sent sent = std::move(sent_.front());
    sent_.pop_front();
    EXPECT_EQ(sent.pass, pass);
    EXPECT_EQ(sent.bytes.size(), into.size());
    if (sent.bytes.size() != into.size()) return absl::DataLossError("size");
    std::memcpy(into.data(), sent.bytes.data(), into.size());
    return absl::OkStatus();
  }

 private:
  struct Sent {
    int64_t pass;
    std::vector<uint8_t> bytes;
  };
  absl::Mutex mu_;
  std::deque<Sent> sent_ ABSL_GUARDED_BY(mu_);
};

// Waits without `turn`, which whoever calls it holds.
class FakeNeighbour final : public Neighbour {
 public:
  FakeNeighbour(Way* out, Way* in, absl::Mutex* turn)
      : out_(*out), in_(*in), turn_(*turn) {}
  void Begin(const GradientKey&) override {}
  void Send(int64_t pass, absl::Span<const uint8_t> bytes) override {
    out_.Put(pass, bytes);
  }
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken&) override
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    turn_.Unlock();
    const absl::Status taken = in_.Take(pass, into);
    turn_.Lock();
    return taken;
  }

 private:
  Way& out_;
  Way& in_;
  absl::Mutex& turn_;
};

struct Computed {
  std::vector<float> gradient;
  double loss = 0;
  int64_t samples = 0;
};

using MakeDevice = std::function<std::unique_ptr<kernels::Device>()>;

std::unique_ptr<kernels::Device> OneCpu() { return Cpu(); }

Computed Unsplit(const ResolvedJob& job, const Work& work, float rate,
                 double clip_norm = 0, const MakeDevice& make = OneCpu) {
  const auto device = make();
  const auto model = Create(job, 8, device.get());
  Computed computed{std::vector<float>(job.layout.size(), std::nanf(""))};
  const auto result =
      Watched(model.get(), StepsOf(work, rate, clip_norm), InitialWeights(job),
              absl::MakeSpan(computed.gradient));
  EXPECT_TRUE(result.ok()) << result.status();
  computed.loss = result->loss;
  computed.samples = result->samples;
  return computed;
}

// The same by stages that begin with the layers `cuts`, a thread each. One at a
// time computes, as the emulated GPU wants it.
Computed Split(ResolvedJob job, const std::vector<std::string>& cuts,
               const Work& work, float rate, double clip_norm = 0,
               const MakeDevice& make = OneCpu) {
  proto::Group* group = job.job.mutable_worker()->mutable_group();
  const int stages = static_cast<int>(cuts.size()) + 1;
  group->set_pipeline_stages(stages);
  for (const std::string& cut : cuts) group->add_cuts(cut);
  std::vector<std::string> violations;
  ResolveCuts(job.model, group, &violations);
  EXPECT_THAT(violations, ::testing::IsEmpty());

  const std::vector<float> weights = InitialWeights(job);
  Computed computed{std::vector<float>(weights.size(), std::nanf(""))};
  std::vector<Way> down(stages), up(stages);  // Behind stage s.
  absl::Mutex turn;
  std::vector<std::thread> threads;
  for (int s = 0; s < stages; ++s) {
    threads.push_back(StartThread("stage", [&, s] {
      absl::MutexLock lock(&turn);
      std::optional<FakeNeighbour> before, behind;
      if (s > 0) before.emplace(&up[s - 1], &down[s - 1], &turn);
      if (s + 1 < stages) behind.emplace(&down[s], &up[s], &turn);
      const ResolvedJob own = JobOfStage(job, s);
      const auto device = make();
      auto stage = StageModel::Create(own,
                                      {.stage = s,
                                       .stages = stages,
                                       .before = before ? &*before : nullptr,
                                       .behind = behind ? &*behind : nullptr},
                                      8, device.get());
      ASSERT_TRUE(stage.ok()) << stage.status();
      const auto model = Model::On(device.get(), own.layout, *std::move(stage));
      ASSERT_TRUE(model.ok()) << model.status();
      const ParameterRange range = StagesOf(job)[s].parameters;
      const std::vector<float> part(weights.begin() + range.begin,
                                    weights.begin() + range.end);
      const auto result = Watched(
          model->get(), StepsOf(work, rate, clip_norm), part,
          absl::MakeSpan(computed.gradient).subspan(range.begin, range.size()));
      ASSERT_TRUE(result.ok()) << result.status();
      if (s + 1 < stages) return;
      computed.loss = result->loss;
      computed.samples = result->samples;
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return computed;
}

void ExpectSameBits(const Computed& split, const Computed& whole) {
  EXPECT_EQ(split.loss, whole.loss);
  EXPECT_EQ(split.samples, whole.samples);
  ASSERT_EQ(split.gradient.size(), whole.gradient.size());
  for (size_t i = 0; i < whole.gradient.size(); ++i) {
    ASSERT_EQ(split.gradient[i], whole.gradient[i]) << "at " << i;
  }
}

TEST(StageModelTest, StagesHaveTheBitsOfTheWholeModel) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const Work work = MakeWork(job, {{4, 4, 4, 4, 3}});
  const Computed whole = Unsplit(job, work, 0);
  for (const std::vector<std::string>& cuts :
       std::vector<std::vector<std::string>>{{"conv2d3"},
                                             {"max_pool2", "dense7"},
                                             {"relu1", "flatten6", "dense11"},
                                             {}}) {
    SCOPED_TRACE(cuts.size());
    ExpectSameBits(Split(job, cuts, work, 0), whole);
  }
}

TEST(StageModelTest, AMiniBatchMayHaveFewerMicroBatchesThanThereAreStages) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  for (const std::vector<int64_t>& parts :
       std::vector<std::vector<int64_t>>{{4}, {4, 1}}) {
    const Work work = MakeWork(job, {parts});
    ExpectSameBits(Split(job, {"conv2d3", "dense7", "dense9"}, work, 0),
                   Unsplit(job, work, 0));
  }
}

TEST(StageModelTest, RunningStatisticsAreThoseOfEachMicroBatch) {
  const ResolvedJob job = MakeJob(kSmallResNet, {3, 8, 8});
  const Work work = MakeWork(job, {{4, 4, 4, 2}});
  const Computed whole = Unsplit(job, work, 0);
  ExpectSameBits(Split(job, {"residual5"}, work, 0), whole);
  ExpectSameBits(Split(job, {"residual5", "residual7"}, work, 0), whole);
}

TEST(StageModelTest, LocalStepsMoveEachStagesOwnWeights) {
  const ResolvedJob job = MakeJob(R"(
    layer { dense { units: 7 } }
    layer { batch_norm {} }
    layer { tanh {} }
    layer { dropout { rate: 0.25 } }
    layer { dense { units: 5 } }
    layer { relu {} }
    layer { dense { units: 3 } }
  )",
                                  {4});
  const Work work = MakeWork(job, {{3, 3}, {4, 4, 4, 1}, {2}});
  const Computed whole = Unsplit(job, work, 0.5f);
  ExpectSameBits(Split(job, {"dense4"}, work, 0.5f), whole);
  ExpectSameBits(Split(job, {"dropout3", "dense6"}, work, 0.5f), whole);
}

TEST(StageModelTest, AGradientIsClippedByTheNormOfAllStages) {
  const ResolvedJob job = MakeJob(kSmallResNet, {3, 8, 8});
  const Work work = MakeWork(job, {{4, 4}, {4, 2}});
  const Computed whole = Unsplit(job, work, 0.1f, 0.01);
  EXPECT_NE(whole.gradient, Unsplit(job, work, 0.1f).gradient);
  ExpectSameBits(Split(job, {"residual5"}, work, 0.1f, 0.01), whole);
  ExpectSameBits(Split(job, {"batch_norm3", "residual7"}, work, 0.1f, 0.01),
                 whole);
}

// The tokens' gradient is the sum of both uses, in both local steps.
TEST(StageModelTest, ATiedOutputUsesTheFirstStagesTokens) {
  const ResolvedJob job = MakeJob(R"(
    layer { embedding { vocabulary: 11 features: 6 } }
    layer { dense { units: 6 } }
    layer { tanh {} }
    layer { dense { units: 6 } }
    layer { layer_norm {} }
    layer { tied_output {} }
  )",
                                  {5});
  const Work work = MakeWork(job, {{4, 4, 2}, {3, 3}});
  const Computed whole = Unsplit(job, work, 0.5f, 0.3);
  for (const std::vector<std::string>& cuts :
       std::vector<std::vector<std::string>>{
           {"dense1"}, {"dense3"}, {"dense1", "dense3", "layer_norm4"}}) {
    ExpectSameBits(Split(job, cuts, work, 0.5f, 0.3), whole);
  }
}

// Stages behind that of the tied output know nothing of the tokens. It may lie
// in a residual where there are as many tokens as features.
TEST(StageModelTest, ATiedOutputMayBeInAnyStage) {
  for (const char* tied : {"layer { tied_output {} }",
                           "layer { residual { layer { tied_output {} } } }"}) {
    const ResolvedJob job = MakeJob(absl::StrCat(R"(
          layer { embedding { vocabulary: 6 features: 6 } }
          layer { name: "a" dense { units: 6 } })",
                                                 tied, R"(
          layer { name: "norm" layer_norm {} }
          layer { name: "b" dense { units: 6 } })"),
                                    {5});
    const Work work = MakeWork(job, {{4, 4, 2}, {3, 3}});
    const Computed whole = Unsplit(job, work, 0.5f, 0.3);
    for (const std::vector<std::string>& cuts :
         std::vector<std::vector<std::string>>{
             {"norm"}, {"norm", "b"}, {"a", "norm"}, {"a", "norm", "b"}}) {
      ExpectSameBits(Split(job, cuts, work, 0.5f, 0.3), whole);
    }
  }
}

TEST(StageModelTest, ATransformersStagesHaveItsBits) {
  const ResolvedJob job = MakeJob(R"(
    layer { embedding { vocabulary: 11 features: 6 } }
    layer { repeat { times: 3
      layer { residual {
        layer { layer_norm {} }
        layer { dense { units: 18 } }
        layer { attention { heads: 2 } }
        layer { dense { units: 6 } }
      } }
    } }
    layer { layer_norm {} }
    layer { dense { units: 11 } }
  )",
                                  {5});
  const Work work = MakeWork(job, {{4, 4, 2}});
  const Computed whole = Unsplit(job, work, 0);
  ExpectSameBits(Split(job, {"repeat1.1.residual0"}, work, 0), whole);
  ExpectSameBits(
      Split(job, {"repeat1.0.residual0", "repeat1.2.residual0"}, work, 0),
      whole);
}

// What lies between stages passes through the host's memory.
TEST(StageModelTest, OnADeviceWithMemoryOfItsOwnStagesHaveTheModelsBits) {
  const MakeDevice devices[] = {
      [] { return std::make_unique<SeparateMemoryDevice>(); },
      [] {
        return kernels::cuda::MakeEmulatedGpu(true, kernels::Precision::kFp32);
      },
      [] {
        return kernels::cuda::MakeEmulatedGpu(true, kernels::Precision::kBf16);
      }};
  const ResolvedJob images = MakeJob(kSmallResNet, {3, 6, 6});
  const Work pictures = MakeWork(images, {{2, 2, 2, 1}, {2}});
  const ResolvedJob text = MakeJob(R"(
    layer { embedding { vocabulary: 11 features: 6 } }
    layer { dense { units: 6 } }
    layer { tanh {} }
    layer { layer_norm {} }
    layer { tied_output {} }
  )",
                                   {5});
  const Work sentences = MakeWork(text, {{2, 2, 1}});
  for (const MakeDevice& make : devices) {
    SCOPED_TRACE(make()->Description());
    ExpectSameBits(
        Split(images, {"residual5", "residual7"}, pictures, 0.5f, 0.3, make),
        Unsplit(images, pictures, 0.5f, 0.3, make));
    ExpectSameBits(
        Split(text, {"dense1", "layer_norm3"}, sentences, 0, 0, make),
        Unsplit(text, sentences, 0, 0, make));
  }
}

}  // namespace
}  // namespace sluice

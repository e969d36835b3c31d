// How many samples a second does one compute thread train?
//
// Expected: at least what PyTorch 1.13 reaches for forward and backward with
// one thread on the reference machine; the models and its rates are below.
#include "worker/model/model.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/resolved_job.h"
#include "google/protobuf/text_format.h"
#include "kernels/cpu/cpu_device.h"

namespace sluice {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> input_shape;
  const char* model;
  double pytorch;  // Samples/s with mini-batches of 64.
};

const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>{
      {"softmax", {784}, "layer { dense { units: 10 } }", 590e3},
      {"mlp",
       {784},
       "layer { dense { units: 256 } } layer { relu {} }"
       "layer { dense { units: 128 } } layer { relu {} }"
       "layer { dense { units: 10 } }",
       85e3},
      {"lenet",
       {1, 28, 28},
       "layer { conv2d { channels: 6 kernel: 5 padding: 2 } }"
       "layer { relu {} } layer { max_pool { kernel: 2 } }"
       "layer { conv2d { channels: 16 kernel: 5 } }"
       "layer { relu {} } layer { max_pool { kernel: 2 } }"
       "layer { flatten {} }"
       "layer { dense { units: 120 } } layer { relu {} }"
       "layer { dense { units: 84 } } layer { relu {} }"
       "layer { dense { units: 10 } }",
       19e3},
  };
  return *cases;
}

constexpr int kSamples = 64;

ResolvedJob MakeJob(const Case& c) {
  proto::Job job;
  google::protobuf::TextFormat::ParseFromString(c.model, job.mutable_model());
  DataShape data;
  data.input_shape = c.input_shape;
  auto plan = PlanModel(job.model(), c.input_shape);
  return ResolvedJob{job, data, *plan, ParameterLayout(plan->tensors, 1), ""};
}

void Gradients(benchmark::State& state, const Case& c,
               kernels::Device* device) {
  const ResolvedJob job = MakeJob(c);
  auto model = Model::Create(job, kSamples, device);
  const auto weights = job.layout.InitialWeights(1, {0, job.layout.size()});
  std::vector<float> gradient(weights.size());
  const Random random(1, "bench");
  Batch batch;
  batch.samples = kSamples;
  for (int i = 0; i < kSamples * 784; ++i) {
    batch.inputs.push_back(random.UniformFloat(i));
  }
  for (int n = 0; n < kSamples; ++n) batch.labels.push_back(n % 10);
  const CancelToken cancel;
  const std::clock_t start = std::clock();
  for (auto _ : state) {
    const auto result = (*model)->ComputeGradient(
        batch, weights, absl::MakeSpan(gradient), cancel, [](int64_t) {});
    if (!result.ok()) state.SkipWithError("failed");
  }
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const double rate = kSamples * state.iterations() / seconds;
  state.counters["samples/s"] = rate;
  state.counters["of_pytorch"] = rate / c.pytorch;
}

}  // namespace
}  // namespace sluice

// Usage: model [--avx512] [Google Benchmark's flags]
int main(int argc, char** argv) {
  using sluice::kernels::CpuOptions;
  CpuOptions options;
  benchmark::Initialize(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--avx512") {
    options.instruction_set = CpuOptions::InstructionSet::kAvx512;
  }
  auto device = sluice::kernels::MakeCpuDevice(options);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 1;
  }
  for (const sluice::Case& c : sluice::Cases()) {
    benchmark::RegisterBenchmark(c.name, [&](benchmark::State& state) {
      sluice::Gradients(state, c, device->get());
    });
  }
  std::printf("%s\n", (*device)->Description().c_str());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

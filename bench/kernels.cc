// How much of the machine does each operation use?
//
// Arithmetic says: products and convolutions are bound by multiply-adds, so
// they should reach the rate of a large matrix product (`peak`, measured
// first); activations and pooling only move memory and should reach the rate
// of a copy from cache. `share` is achieved / expected.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>

#include "kernels/cpu/cpu_device.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Seconds of one call of `f` in the fastest of some rounds of `calls`, which
// are enough for the clock's steps of 1 us not to matter.
template <typename F>
double Fastest(int calls, F f) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 10; ++round) {
    const double start = CpuSeconds();
    for (int i = 0; i < calls; ++i) f();
    best = std::min(best, (CpuSeconds() - start) / calls);
  }
  return best;
}

double PeakOperationsPerSecond(Device* device) {
  LinearCase c;
  c.shape = DenseShape{512, 512, false};
  c.samples = 512;
  auto op = *Prepare(device, c);
  std::vector<float> x(512 * 512, 1), w(512 * 512, 1), y(512 * 512);
  return c.operations() / Fastest(1, [&] {
           (void)op->Forward(c.samples, x.data(), w.data(), nullptr, y.data());
         });
}

// Read and written, from the second-level cache.
double CopyBytesPerSecond() {
  std::vector<char> from(1 << 18, 1), to(1 << 18);
  return 2.0 * from.size() / Fastest(100, [&] {
           std::memcpy(to.data(), from.data(), from.size());
           benchmark::DoNotOptimize(to.data());
         });
}

// Runs `step` as often as the benchmark asks; `amount` is what one call does,
// in operations or bytes, `expected` the rate of them per second.
template <typename F>
void Measure(benchmark::State& state, const char* unit, double amount,
             double expected, F step) {
  const double start = CpuSeconds();
  for (auto _ : state) {
    if (!step().ok()) state.SkipWithError("failed");
  }
  const double rate = amount * state.iterations() / (CpuSeconds() - start);
  state.counters[unit] = rate / 1e9;
  state.counters["share"] = rate / expected;
}

void LinearForward(benchmark::State& state, Device* device, const LinearCase& c,
                   double peak) {
  auto op = *Prepare(device, c);
  const auto x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  const auto w = ToFloats(UniformValues(c.weight_size(), 2));
  const auto b = ToFloats(UniformValues(c.bias_size(), 3));
  std::vector<float> y(c.samples * c.output_size());
  Measure(state, "GFLOP/s", c.operations(), peak, [&] {
    return op->Forward(c.samples, x.data(), w.data(), b.data(), y.data());
  });
}

void LinearBackward(benchmark::State& state, Device* device,
                    const LinearCase& c, double peak) {
  auto op = *Prepare(device, c);
  const auto x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  const auto w = ToFloats(UniformValues(c.weight_size(), 2));
  const auto dy = ToFloats(UniformValues(c.samples * c.output_size(), 4));
  std::vector<float> dx(x.size()), dw(w.size()), db(c.bias_size());
  Measure(state, "GFLOP/s", 2.0 * c.operations(), peak, [&] {
    return op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                        dw.data(), db.data());
  });
}

// Bytes: x and y once each; backward x, y, dy and dx once each.
void MapBoth(benchmark::State& state, Device* device, const MapCase& c,
             bool backward, double copy) {
  auto op = *Prepare(device, c);
  const auto x = ToFloats(SpreadValues(c.samples * c.input_size(), 5));
  std::vector<float> y(c.samples * c.output_size());
  const auto dy = ToFloats(UniformValues(y.size(), 6));
  std::vector<float> dx(x.size());
  (void)op->Forward(c.samples, x.data(), y.data());
  const double bytes = sizeof(float) * (x.size() + y.size());
  Measure(state, "GB/s", backward ? 2 * bytes : bytes, copy, [&] {
    return backward ? op->Backward(c.samples, x.data(), y.data(), dy.data(),
                                   dx.data())
                    : op->Forward(c.samples, x.data(), y.data());
  });
}

// Bytes: x twice and y once, from a cache that holds one channel at a time;
// backward x and dy twice and dx once.
void BatchNormBoth(benchmark::State& state, Device* device,
                   const BatchNormCase& c, bool backward, double copy) {
  auto op = *device->PrepareBatchNorm(c.shape, c.samples);
  const auto x = ToFloats(SpreadValues(c.size(), 1));
  const auto dy = ToFloats(UniformValues(c.size(), 2));
  const std::vector<float> gamma(c.shape.channels, 1), beta(c.shape.channels);
  std::vector<float> mean(gamma), variance(gamma), dgamma(gamma), dbeta(gamma);
  std::vector<float> y(x.size()), dx(x.size());
  const auto normalize = [&] {
    return op->Normalize(c.samples, x.data(), gamma.data(), beta.data(),
                         mean.data(), variance.data(), y.data());
  };
  (void)normalize();
  const double bytes = sizeof(float) * x.size() * (backward ? 5.0 : 3.0);
  Measure(state, "GB/s", bytes, copy, [&] {
    return backward ? op->Backward(c.samples, x.data(), gamma.data(),
                                   mean.data(), variance.data(), dy.data(),
                                   dx.data(), dgamma.data(), dbeta.data())
                    : normalize();
  });
}

void RegisterAll(Device* device) {
  const double peak = PeakOperationsPerSecond(device);
  const double copy = CopyBytesPerSecond();
  std::printf("%s\npeak %.1f GFLOP/s, copy %.1f GB/s\n",
              device->Description().c_str(), peak / 1e9, copy / 1e9);
  for (const LinearCase& c : LinearCases()) {
    if (!c.benchmark) continue;
    benchmark::RegisterBenchmark((c.name + " forward").c_str(),
                                 [=](benchmark::State& state) {
                                   LinearForward(state, device, c, peak);
                                 });
    benchmark::RegisterBenchmark((c.name + " backward").c_str(),
                                 [=](benchmark::State& state) {
                                   LinearBackward(state, device, c, peak);
                                 });
  }
  for (const BatchNormCase& c : BatchNormCases()) {
    if (!c.benchmark) continue;
    for (bool backward : {false, true}) {
      benchmark::RegisterBenchmark(
          (c.name + (backward ? " backward" : " forward")).c_str(),
          [=](benchmark::State& state) {
            BatchNormBoth(state, device, c, backward, copy);
          });
    }
  }
  for (const MapCase& c : MapCases()) {
    if (!c.benchmark) continue;
    for (bool backward : {false, true}) {
      benchmark::RegisterBenchmark(
          (c.name + (backward ? " backward" : " forward")).c_str(),
          [=](benchmark::State& state) {
            MapBoth(state, device, c, backward, copy);
          });
    }
  }
}

}  // namespace
}  // namespace sluice::kernels

// Usage: kernels [--avx512] [Google Benchmark's flags]
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
  (*device)->EnterThread();
  sluice::kernels::RegisterAll(device->get());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

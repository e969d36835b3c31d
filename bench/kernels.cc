// How much of the machine does each operation use?
//
// Arithmetic says: products, convolutions and attention are bound by
// multiply-adds, so they should reach the rate of a large matrix product
// (`peak`, measured first); activations, pooling, norms and embeddings only
// move memory and should reach the rate of a copy in cache.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/report.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/testing/op_cases.h"
#include "kernels/testing/sequence_cases.h"

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
           // Keeps the compiler from dropping the copy.
           asm volatile("" : : "r"(to.data()) : "memory");
         });
}

// Measures operations and adds what it saw to the report.
struct Bench {
  Device* device;
  double peak;  // Operations per second.
  double copy;  // Bytes per second.
  int calls;    // In each round.
  bench::Report* report;

  // `amount`: what one call of `step` does, in operations or in bytes.
  template <typename F>
  void Operations(const std::string& what, double amount, F step) const {
    Add(what, "GFLOP/s", "a large product", amount, peak, step);
  }
  template <typename F>
  void Bytes(const std::string& what, double amount, F step) const {
    Add(what, "GB/s", "a copy in cache", amount, copy, step);
  }

 private:
  template <typename F>
  void Add(const std::string& what, const char* unit, const char* from,
           double amount, double expected, F step) const {
    const double seconds = Fastest(calls, [&] { SLUICE_CHECK(step().ok()); });
    report->Add({what, unit, from, expected / 1e9, amount / seconds / 1e9, {}});
  }
};

const char* Direction(bool backward) {
  return backward ? " backward" : " forward";
}

void LinearForward(const Bench& bench, const LinearCase& c) {
  auto op = *Prepare(bench.device, c);
  const auto x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  const auto w = ToFloats(UniformValues(c.weight_size(), 2));
  const auto b = ToFloats(UniformValues(c.bias_size(), 3));
  std::vector<float> y(c.samples * c.output_size());
  bench.Operations(c.name + Direction(false), c.operations(), [&] {
    return op->Forward(c.samples, x.data(), w.data(), b.data(), y.data());
  });
}

void LinearBackward(const Bench& bench, const LinearCase& c) {
  auto op = *Prepare(bench.device, c);
  const auto x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  const auto w = ToFloats(UniformValues(c.weight_size(), 2));
  const auto dy = ToFloats(UniformValues(c.samples * c.output_size(), 4));
  std::vector<float> dx(x.size()), dw(w.size()), db(c.bias_size());
  bench.Operations(c.name + Direction(true), 2.0 * c.operations(), [&] {
    return op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                        dw.data(), db.data());
  });
}

// Bytes: x and y once each; backward x, y, dy and dx once each.
void MapBoth(const Bench& bench, const MapCase& c, bool backward) {
  auto op = *Prepare(bench.device, c);
  const auto x = ToFloats(SpreadValues(c.samples * c.input_size(), 5));
  std::vector<float> y(c.samples * c.output_size());
  const auto dy = ToFloats(UniformValues(y.size(), 6));
  std::vector<float> dx(x.size());
  (void)op->Forward(c.samples, x.data(), y.data());
  const double bytes = sizeof(float) * (x.size() + y.size());
  bench.Bytes(c.name + Direction(backward), backward ? 2 * bytes : bytes, [&] {
    return backward ? op->Backward(c.samples, x.data(), y.data(), dy.data(),
                                   dx.data())
                    : op->Forward(c.samples, x.data(), y.data());
  });
}

// Bytes: x twice and y once, from a cache that holds one channel at a time;
// backward x and dy twice and dx once.
void BatchNormBoth(const Bench& bench, const BatchNormCase& c, bool backward) {
  auto op = *bench.device->PrepareBatchNorm(c.shape, c.samples);
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
  bench.Bytes(c.name + Direction(backward), bytes, [&] {
    return backward ? op->Backward(c.samples, x.data(), gamma.data(),
                                   mean.data(), variance.data(), dy.data(),
                                   dx.data(), dgamma.data(), dbeta.data())
                    : normalize();
  });
}

// Bytes: y written, and as much read of the token's rows; backward dy read, and
// a token's row read and written for each of its places.
void EmbeddingBoth(const Bench& bench, const EmbeddingCase& c, bool backward) {
  auto op = *bench.device->PrepareEmbedding(c.shape, c.samples);
  const auto x = ToFloats(Tokens(c));
  const auto dy = ToFloats(UniformValues(c.size(), 1));
  std::vector<float> token(c.shape.token_size()), y(c.size());
  std::vector<float> position(c.shape.position_size());
  const double bytes = sizeof(float) * c.size() * (backward ? 3.0 : 2.0);
  bench.Bytes(c.name + Direction(backward), bytes, [&] {
    return backward ? op->Backward(c.samples, x.data(), dy.data(), false,
                                   token.data(), position.data())
                    : op->Forward(c.samples, x.data(), token.data(),
                                  position.data(), y.data());
  });
}

// Bytes: x and y once each, a row stays in cache; backward x and dy twice and
// dx once.
void LayerNormBoth(const Bench& bench, const LayerNormCase& c, bool backward) {
  auto op = *bench.device->PrepareLayerNorm(c.shape, c.samples);
  const auto x = ToFloats(SpreadValues(c.size(), 1));
  const auto dy = ToFloats(UniformValues(c.size(), 2));
  const std::vector<float> gamma(c.shape.features, 1), beta(c.shape.features);
  std::vector<float> dgamma(gamma), dbeta(gamma), y(x.size()), dx(x.size());
  const double bytes = sizeof(float) * x.size() * (backward ? 5.0 : 2.0);
  bench.Bytes(c.name + Direction(backward), bytes, [&] {
    return backward ? op->Backward(c.samples, x.data(), gamma.data(), dy.data(),
                                   dx.data(), dgamma.data(), dbeta.data())
                    : op->Forward(c.samples, x.data(), gamma.data(),
                                  beta.data(), y.data());
  });
}

void AttentionBoth(const Bench& bench, const AttentionCase& c, bool backward) {
  auto op = *bench.device->PrepareAttention(c.shape, c.samples);
  const auto x = ToFloats(UniformValues(c.input_size(), 1));
  const auto dy = ToFloats(UniformValues(c.output_size(), 2));
  std::vector<float> y(dy.size()), dx(x.size());
  const double operations = static_cast<double>(c.operations());
  bench.Operations(
      c.name + Direction(backward), (backward ? 2.5 : 1) * operations, [&] {
        return backward ? op->Backward(c.samples, x.data(), y.data(), dy.data(),
                                       dx.data())
                        : op->Forward(c.samples, x.data(), y.data());
      });
}

void MeasureAll(const Bench& bench) {
  for (const LinearCase& c : LinearCases()) {
    if (!c.benchmark) continue;
    LinearForward(bench, c);
    LinearBackward(bench, c);
  }
  for (const bool backward : {false, true}) {
    for (const BatchNormCase& c : BatchNormCases()) {
      if (c.benchmark) BatchNormBoth(bench, c, backward);
    }
    for (const MapCase& c : MapCases()) {
      if (c.benchmark) MapBoth(bench, c, backward);
    }
    for (const AttentionCase& c : AttentionCases()) {
      if (c.benchmark) AttentionBoth(bench, c, backward);
    }
    for (const LayerNormCase& c : LayerNormCases()) {
      if (c.benchmark) LayerNormBoth(bench, c, backward);
    }
    for (const EmbeddingCase& c : EmbeddingCases()) {
      if (c.benchmark) EmbeddingBoth(bench, c, backward);
    }
  }
}

int Run(bool avx512, bool tiny, bool json) {
  CpuOptions options;
  if (avx512) options.instruction_set = CpuOptions::InstructionSet::kAvx512;
  const auto device = MakeCpuDevice(options);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 1;
  }
  (*device)->EnterThread();
  bench::Report report("kernels",
                       "How much of the machine does each operation use?");
  report.Note((*device)->Description());
  MeasureAll({device->get(), PeakOperationsPerSecond(device->get()),
              CopyBytesPerSecond(), tiny ? 1 : 20, &report});
  report.Print(json);
  return 0;
}

}  // namespace
}  // namespace sluice::kernels

int main(int argc, char** argv) {
  CLI::App app("Operations of the CPU device, on one thread");
  bool avx512 = false, json = false, tiny = false;
  app.add_flag("--avx512", avx512, "Allow AVX-512 instructions");
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Few calls, to see that it works");
  CLI11_PARSE(app, argc, argv);
  return sluice::kernels::Run(avx512, tiny, json);
}

// How fast does a shard apply an update, and what holds it back?
//
// Expected from arithmetic: memory. An update of K gradients reads K + 1
// floats per weight and writes one (with momentum one more each way), does
// K + 1 fused multiply-adds on them, and any core does those faster than its
// memory delivers. So the time is the bytes moved divided by the bandwidth
// that memcpy reaches in the same run (read and written bytes both counted),
// whatever K is: achieved / expected near 1.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/clock.h"
#include "kernels/optimizer_kernels.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

// Floats per call: the default chunk, as the shard works.
constexpr int64_t kChunk = 1 << 18;

struct Arrays {
  Arrays(int64_t n, int k) : weights(n, 1.0f), velocity(n, 0.5f), gradients(k) {
    for (int i = 0; i < k; ++i) gradients[i].assign(n, 0.25f * (i + 1));
  }
  std::vector<float> weights;
  std::vector<float> velocity;
  std::vector<std::vector<float>> gradients;
};

using Update = decltype(kernels::SgdUpdate);

// One update of all weights, chunk by chunk.
void Apply(Update* update, float momentum, Arrays* arrays) {
  const kernels::SgdOptions options{0.01f, momentum, false, 0};
  const size_t k = arrays->gradients.size();
  const std::vector<float> factors(k, 1.0f / k);
  std::vector<const float*> gradients(k);
  const int64_t n = arrays->weights.size();
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    for (size_t i = 0; i < k; ++i) {
      gradients[i] = arrays->gradients[i].data() + begin;
    }
    float* weights = arrays->weights.data() + begin;
    update(options, {gradients, factors}, std::min(kChunk, n - begin), weights,
           arrays->velocity.data() + begin, weights);
  }
}

// Median seconds of `runs` runs, after one to warm up.
double Measure(int runs, const std::function<void()>& body) {
  body();
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const absl::Time start = Clock::Real()->Now();
    body();
    seconds.push_back(absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[runs / 2];
}

// Bytes per second, read and written.
double MemcpyBandwidth(int64_t n, int runs) {
  std::vector<float> from(n, 1.0f), to(n);
  const double seconds = Measure(runs, [&] {
    std::memcpy(to.data(), from.data(), n * sizeof(float));
    // Keeps the compiler from dropping the copy.
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  return 2.0 * n * sizeof(float) / seconds;
}

bool Verify(int k, float momentum) {
  constexpr int64_t kFloats = 2 * kChunk + 7;
  Arrays fast(kFloats, k), plain(kFloats, k);
  for (int step = 0; step < 2; ++step) {
    Apply(kernels::SgdUpdate, momentum, &fast);
    Apply(kernels::SgdUpdateReference, momentum, &plain);
  }
  return fast.weights == plain.weights && fast.velocity == plain.velocity;
}

int Run(int64_t n, int runs, bool as_json) {
  nlohmann::json results = nlohmann::json::array();
  for (const int k : {1, 4, 8}) {
    for (const float momentum : {0.0f, 0.9f}) {
      if (!Verify(k, momentum)) {
        std::fprintf(stderr, "apply: k=%d differs from the reference\n", k);
        return 1;
      }
      const double bandwidth = MemcpyBandwidth(n, runs);
      Arrays arrays(n, k);
      const double seconds =
          Measure(runs, [&] { Apply(kernels::SgdUpdate, momentum, &arrays); });
      const double bytes = (k + (momentum == 0 ? 2.0 : 4.0)) * n * 4;
      results.push_back(
          {{"k", k},
           {"momentum", momentum != 0},
           {"weights", n},
           {"seconds", seconds},
           {"gb_per_second", bytes / seconds / 1e9},
           {"memcpy_gb_per_second", bandwidth / 1e9},
           {"achieved_of_expected", bytes / seconds / bandwidth}});
    }
  }
  if (as_json) {
    std::printf("%s\n", results.dump(2).c_str());
    return 0;
  }
  for (const auto& r : results) {
    std::printf(
        "k=%d momentum=%d  %.2f ms  %.1f GB/s, memcpy %.1f: %.2f of expected\n",
        r["k"].get<int>(), r["momentum"].get<bool>(),
        r["seconds"].get<double>() * 1e3, r["gb_per_second"].get<double>(),
        r["memcpy_gb_per_second"].get<double>(),
        r["achieved_of_expected"].get<double>());
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app("Speed of applying an update, against memcpy's");
  // 64 MiB of weights: far more than any cache holds.
  int64_t weights = 16 << 20;
  int runs = 9;
  bool json = false;
  app.add_option("--weights", weights, "Weights to update")
      ->check(CLI::PositiveNumber);
  app.add_option("--runs", runs, "Runs; the median is reported")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "Print the results as JSON");
  CLI11_PARSE(app, argc, argv);
  return sluice::Run(weights, runs, json);
}

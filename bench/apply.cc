// How fast does a shard apply an update, and what limits it?
//
// Expected from arithmetic: memory limits it. An update of K gradients reads K
// + 1 floats per weight and writes one. Momentum adds one float each way, Adam
// two. The update does at most a dozen operations on them, which any core does
// faster than its memory delivers. So the time is the bytes moved divided by
// the bandwidth of memcpy in the same run (with bytes read and bytes written
// both counted), for any K. At least 0.7 of that is expected, because writing
// in place is slower than the stream of a copy, and Adam divides and takes a
// root.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "common/clock.h"
#include "kernels/optimizer_kernels.h"

namespace sluice::bench {
namespace {

// Floats per call: the default chunk, as in the shard.
constexpr int64_t kChunk = 1 << 18;

struct Arrays {
  Arrays(int64_t n, int k)
      : weights(n, 1.0f), state{Floats(n, 0.5f), Floats(n, 0.5f)} {
    for (int i = 0; i < k; ++i) gradients.emplace_back(n, 0.25f * (i + 1));
  }

  using Floats = std::vector<float>;
  Floats weights;
  Floats state[2];
  std::vector<Floats> gradients;
};

// An optimizer's update in place, and its reference.
struct Optimizer {
  using Update =
      std::function<void(const kernels::WeightedGradients& sum, int64_t n,
                         float* weights, float* const state[2])>;
  std::string name;
  int state_arrays;
  Update update;
  Update reference;
};

Optimizer Sgd(const std::string& name, float momentum) {
  const kernels::SgdOptions o{0.01f, momentum, false, 0};
  return {name, momentum == 0 ? 0 : 1,
          [o](const auto& sum, int64_t n, float* w, float* const s[2]) {
            kernels::SgdUpdate(o, sum, n, w, s[0], w);
          },
          [o](const auto& sum, int64_t n, float* w, float* const s[2]) {
            kernels::SgdUpdateReference(o, sum, n, w, s[0], w);
          }};
}

Optimizer Adam() {
  const kernels::AdamOptions o{.learning_rate = 0.01, .update = 1000};
  return {"adam", 2,
          [o](const auto& sum, int64_t n, float* w, float* const s[2]) {
            kernels::AdamUpdate(o, sum, n, w, s[0], s[1], w);
          },
          [o](const auto& sum, int64_t n, float* w, float* const s[2]) {
            kernels::AdamUpdateReference(o, sum, n, w, s[0], s[1], w);
          }};
}

// One update of all weights, chunk by chunk.
void Apply(const Optimizer::Update& update, Arrays* arrays) {
  const size_t k = arrays->gradients.size();
  const std::vector<float> factors(k, 1.0f / k);
  std::vector<const float*> gradients(k);
  const int64_t n = arrays->weights.size();
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    for (size_t i = 0; i < k; ++i) {
      gradients[i] = arrays->gradients[i].data() + begin;
    }
    float* const state[] = {arrays->state[0].data() + begin,
                            arrays->state[1].data() + begin};
    update({gradients, factors}, std::min(kChunk, n - begin),
           arrays->weights.data() + begin, state);
  }
}

bool Verify(const Optimizer& optimizer, int k) {
  constexpr int64_t kFloats = 2 * kChunk + 7;
  Arrays fast(kFloats, k), plain(kFloats, k);
  for (int step = 0; step < 2; ++step) {
    Apply(optimizer.update, &fast);
    Apply(optimizer.reference, &plain);
  }
  return fast.weights == plain.weights && fast.state[0] == plain.state[0] &&
         fast.state[1] == plain.state[1];
}

double SecondsOf(const std::function<void()>& body) {
  const absl::Time start = Clock::Real()->Now();
  body();
  return absl::ToDoubleSeconds(Clock::Real()->Now() - start);
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median rates in bytes per second, memcpy's and the update's in turn.
Row Measure(const Optimizer& optimizer, int64_t n, int k, int runs) {
  Arrays arrays(n, k);
  std::vector<float> from(n, 1.0f), to(n);
  std::vector<double> copies, updates;
  // The first run is a warm-up.
  for (int i = 0; i <= runs; ++i) {
    const double copy = SecondsOf([&] {
      std::memcpy(to.data(), from.data(), n * sizeof(float));
      // Keeps the compiler from dropping the copy.
      asm volatile("" : : "r"(to.data()) : "memory");
    });
    const double update = SecondsOf([&] { Apply(optimizer.update, &arrays); });
    if (i == 0) continue;
    copies.push_back(copy);
    updates.push_back(update);
  }
  const double arrays_moved = k + 2.0 + 2.0 * optimizer.state_arrays;
  const double gb = static_cast<double>(n) * sizeof(float) / 1e9;
  return {.what = absl::StrCat(optimizer.name, " K=", k),
          .unit = "GB/s",
          .expected_from = "memcpy",
          .expected = 2 * gb / MedianOf(copies),
          .measured = arrays_moved * gb / MedianOf(updates),
          .more = {{"ms", MedianOf(updates) * 1e3}}};
}

int Run(int64_t n, int runs, bool json) {
  Report report("apply", "How fast does a shard apply an update?");
  for (const Optimizer& optimizer :
       {Sgd("sgd", 0), Sgd("momentum", 0.9f), Adam()}) {
    for (const int k : {1, 4, 8}) {
      if (!Verify(optimizer, k)) {
        std::fprintf(stderr, "apply: %s, k=%d differs from the reference\n",
                     optimizer.name.c_str(), k);
        return 1;
      }
      report.Add(Measure(optimizer, n, k, runs));
    }
  }
  report.Note(absl::StrCat("one thread, ", n, " weights; bytes read and ",
                           "written counted, of memcpy as of the update"));
  report.Print(json);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Speed of applying an update, against memcpy's");
  // 64 MiB of weights: far more than any cache holds.
  int64_t weights = 16 << 20;
  int runs = 9;
  bool json = false, tiny = false;
  app.add_option("--weights", weights, "Weights to update")
      ->check(CLI::PositiveNumber);
  app.add_option("--runs", runs, "Runs; the median is reported")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Small and once, for tests");
  CLI11_PARSE(app, argc, argv);
  if (tiny) weights = 1 << 16, runs = 1;
  return sluice::bench::Run(weights, runs, json);
}

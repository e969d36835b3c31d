#ifndef SLUICE_PS_SERVER_LIVE_METRICS_HISTORY_H_
#define SLUICE_PS_SERVER_LIVE_METRICS_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace sluice {

// The curves of a run: the points of its metrics.jsonl, read as it grows.
//
// At most `most` points are held. When there are more, every second one that is
// no evaluation is left out, so what is held covers the whole run, thinner
// where it is old. Points that a recovery has rolled back are left out.
//
// Thread-compatible.
class MetricsHistory {
 public:
  // `path`: metrics.jsonl; it need not exist yet. Empty: there is none.
  explicit MetricsHistory(std::string path, size_t most = 2000)
      : path_(std::move(path)), most_(most) {}

  // Reads what has been appended since, 4 MiB at most. What is no line yet, or
  // no line of metrics, is left for later or out. A file that has become
  // shorter is read from its begin, and alone.
  void Follow();

  // Those with a number above `since`, in order: objects with "n", which counts
  // all points from 1, "seconds", "version", "epoch", "loss",
  // "samples_per_second", "updates_per_second", "mean_staleness", and where the
  // line had them "test_loss", "test_accuracy", "logged" and "test_logged".
  nlohmann::ordered_json Since(int64_t since) const;

 private:
  void Add(const std::string& line);
  void Thin();

  const std::string path_;
  const size_t most_;
  int64_t offset_ = 0;  // In the file, of the first line not read.
  int64_t last_ = 0;    // Number of the newest point.
  std::vector<nlohmann::ordered_json> points_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LIVE_METRICS_HISTORY_H_

#include "ps_server/live/metrics_history.h"

#include <fstream>
#include <utility>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRead = 4 << 20;

constexpr const char* kMembers[] = {"seconds",
                                    "version",
                                    "epoch",
                                    "loss",
                                    "test_loss",
                                    "test_accuracy",
                                    "mean_staleness",
                                    "logged",
                                    "samples_per_second",
                                    "updates_per_second",
                                    "test_logged"};

bool IsEvaluation(const Json& point) { return point.contains("test_loss"); }

}  // namespace

void MetricsHistory::Follow() {
  std::ifstream in(path_, std::ios::binary | std::ios::ate);
  if (in && in.tellg() < offset_) {  // Another run's file has its place.
    offset_ = 0;
    points_.clear();
  }
  if (!in.seekg(offset_)) return;
  std::string read(kMostRead, '\0');
  in.read(read.data(), static_cast<std::streamsize>(read.size()));
  read.resize(static_cast<size_t>(in.gcount()));
  size_t begin = 0;
  for (size_t end; (end = read.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    Add(read.substr(begin, end - begin));
  }
  if (begin == 0 && read.size() == kMostRead) begin = kMostRead;  // No line.
  offset_ += static_cast<int64_t>(begin);
}

void MetricsHistory::Add(const std::string& line) {
  const Json read = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || !read.contains("seconds") ||
      !read["seconds"].is_number()) {
    return;
  }
  while (!points_.empty() && points_.back()["seconds"] > read["seconds"]) {
    points_.pop_back();
  }
  Json point = {{"n", ++last_}};
  for (const char* member : kMembers) {
    if (read.contains(member)) point[member] = read[member];
  }
  points_.push_back(std::move(point));
  if (points_.size() > most_) Thin();
}

void MetricsHistory::Thin() {
  std::vector<Json> kept;
  for (size_t i = 0; i < points_.size(); ++i) {
    if (i % 2 == 0 || IsEvaluation(points_[i])) {
      kept.push_back(std::move(points_[i]));
    }
  }
  // Evaluations alone are too many.
  if (kept.size() > most_) kept.erase(kept.begin());
  points_ = std::move(kept);
}

Json MetricsHistory::Since(int64_t since) const {
  Json points = Json::array();
  for (const Json& point : points_) {
    if (point["n"] > since) points.push_back(point);
  }
  return points;
}

}  // namespace sluice

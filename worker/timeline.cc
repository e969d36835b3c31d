#include "worker/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

double Microseconds(absl::Duration time) {
  return static_cast<double>(absl::ToInt64Nanoseconds(time)) / 1e3;
}

// A line of the array. Its reader takes a comma after the last.
std::string Line(const nlohmann::json& event) { return event.dump() + ",\n"; }

}  // namespace

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Open(
    const std::string& path, WorkerId worker) {
  constexpr int kMode = 0644;
  bool is_new = true;
  int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL, kMode);
  if (file < 0 && errno == EEXIST) {
    is_new = false;
    file = open(path.c_str(), O_WRONLY | O_APPEND);
  }
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  auto timeline = std::unique_ptr<Timeline>(new Timeline(path, file, worker));
  timeline->Write(
      (is_new ? "[\n" : "") +
      Line({{"name", "process_name"},
            {"ph", "M"},
            {"pid", worker.value()},
            {"args", {{"name", absl::StrCat("worker ", worker.value())}}}}));
  return timeline;
}

Timeline::Timeline(std::string path, int file, WorkerId worker)
    : path_(std::move(path)), worker_(worker), file_(file) {}

Timeline::~Timeline() {
  if (file_ >= 0) close(file_);
}

void Timeline::Add(const proto::Task& task, const TaskProgress& progress,
                   absl::string_view outcome) {
  if (file_ < 0) return;
  const auto event = [this](absl::string_view name, absl::Time begin,
                            absl::Time end) {
    return nlohmann::json{{"name", std::string(name)},
                          {"ph", "X"},
                          {"pid", worker_.value()},
                          {"tid", 0},
                          {"ts", Microseconds(begin - absl::UnixEpoch())},
                          {"dur", Microseconds(end - begin)}};
  };
  const auto& spans = progress.spans();
  nlohmann::json whole = event("task", spans.front().begin, spans.back().end);
  whole["args"] = {{"key", KeyFromProto(task.key()).ToString()},
                   {"first_batch", task.first_batch()},
                   {"batches", task.batches()},
                   {"version", task.version()},
                   {"outcome", std::string(outcome)}};
  std::string lines = Line(whole);
  for (const TaskProgress::Span& span : spans) {
    lines += Line(event(StageName(span.stage), span.begin, span.end));
  }
  Write(lines);
}

// In one call, so that the lines of several processes do not mix.
void Timeline::Write(const std::string& lines) {
  const ssize_t written = write(file_, lines.data(), lines.size());
  if (written == static_cast<ssize_t>(lines.size())) return;
  spdlog::warn("event=timeline_ended path={} reason=\"{}\"", path_,
               written < 0 ? std::strerror(errno) : "the disk is full");
  close(file_);
  file_ = -1;
}

}  // namespace sluice

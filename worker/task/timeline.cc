#include "worker/task/timeline.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/key_proto.h"
#include "common/telemetry/json_text.h"
#include "common/telemetry/log_value.h"
#include "nlohmann/json.hpp"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

double Microseconds(absl::Duration time) {
  return static_cast<double>(absl::ToInt64Nanoseconds(time)) / 1e3;
}

// Tasks and their stages are on track 0.
int TrackOf(Transfer transfer) { return 1 + static_cast<int>(transfer); }

// A line of the array. Its reader takes a comma after the last.
std::string Line(const nlohmann::json& event) {
  return JsonText(event) + ",\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Open(
    const std::string& path, const Process& process) {
  constexpr int kMode = 0666;
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, kMode);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  auto timeline =
      std::unique_ptr<Timeline>(new Timeline(path, file, process.number));
  const auto name = [&](absl::string_view kind, int track,
                        absl::string_view name) {
    return Line({{"name", std::string(kind)},
                 {"ph", "M"},
                 {"pid", process.number},
                 {"tid", track},
                 {"args", {{"name", std::string(name)}}}});
  };
  // Of workers that start together the first to write begins the array. The
  // lock is held for that one write.
  flock(file, LOCK_EX);
  struct stat status;
  std::string lines =
      fstat(file, &status) == 0 && status.st_size == 0 ? "[\n" : "";
  lines += name("process_name", 0, process.name);
  lines += name("thread_name", 0, "tasks");
  for (const Transfer transfer : {Transfer::kPull, Transfer::kPush,
                                  Transfer::kToDevice, Transfer::kToHost}) {
    lines += name("thread_name", TrackOf(transfer), TransferName(transfer));
  }
  timeline->Write(lines);
  flock(file, LOCK_UN);
  return timeline;
}

Timeline::Timeline(std::string path, int file, int64_t number)
    : path_(std::move(path)), number_(number), file_(file) {}

Timeline::~Timeline() {
  if (file_ >= 0) close(file_);
}

void Timeline::Add(const proto::Task& task, const TaskProgress& progress,
                   absl::string_view outcome) {
  if (file_ < 0) return;
  const auto event = [this](absl::string_view name, int track, absl::Time begin,
                            absl::Time end) {
    return nlohmann::json{{"name", std::string(name)},
                          {"ph", "X"},
                          {"pid", number_},
                          {"tid", track},
                          {"ts", Microseconds(begin - absl::UnixEpoch())},
                          {"dur", Microseconds(end - begin)}};
  };
  const auto& spans = progress.spans();
  nlohmann::json whole =
      event("task", 0, spans.front().begin, spans.back().end);
  whole["args"] = {{"key", KeyFromProto(task.key()).ToString()},
                   {"first_batch", task.first_batch()},
                   {"batches", task.batches()},
                   {"version", task.version()},
                   {"outcome", std::string(outcome)}};
  std::string lines = Line(whole);
  for (const TaskProgress::Span& span : spans) {
    lines += Line(event(StageName(span.stage), 0, span.begin, span.end));
  }
  for (const TaskProgress::Travel& travel : progress.travels()) {
    lines += Line(event(TransferName(travel.transfer), TrackOf(travel.transfer),
                        travel.begin, travel.end));
  }
  Write(lines);
}

// In one call, so that the lines of several processes do not mix.
void Timeline::Write(const std::string& lines) {
  const ssize_t written = write(file_, lines.data(), lines.size());
  if (written == static_cast<ssize_t>(lines.size())) return;
  spdlog::warn(
      "event=timeline_ended path={} reason={}", path_,
      LogValue(written < 0 ? std::strerror(errno) : "the disk is full"));
  close(file_);
  file_ = -1;
}

}  // namespace sluice

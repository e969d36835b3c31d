#include "ps_server/coordinator/report/compute_times_writer.h"

#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Kept for so long, or so many bytes: a write costs as much as a small task.
constexpr double kSeconds = 1;
constexpr size_t kBytes = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<ComputeTimesWriter>> ComputeTimesWriter::Create(
    const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path));
  return std::unique_ptr<ComputeTimesWriter>(
      new ComputeTimesWriter(std::move(file)));
}

absl::Status ComputeTimesWriter::Record(const Actions& actions,
                                        double seconds) {
  for (const Action& action : actions) {
    const auto* time = std::get_if<RecordComputeTime>(&action);
    if (time == nullptr) continue;
    // To the nanosecond, as the simulator counts.
    absl::StrAppendFormat(&lines_, "%.6f %d\n", time->seconds * 1e3,
                          time->worker.value());
  }
  if (lines_.size() < kBytes && seconds < written_at_ + kSeconds) {
    return absl::OkStatus();
  }
  written_at_ = seconds;
  return Flush();
}

absl::Status ComputeTimesWriter::Flush() {
  if (lines_.empty()) return absl::OkStatus();
  return file_.Append(std::exchange(lines_, ""));
}

}  // namespace sluice

#include "ps_server/coordinator/log/goodput.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
WorkerSeconds Goodput::Total() const { return SumOf(workers); }

double Goodput::share() const {
  const WorkerSeconds total = Total();
  return total.Total() > 0 ? total.applied / total.Total() : 0;
}

void GoodputMeter::Begin(const proto::LogHeader& header) {
  time_.Begin(header, kept_[goodput_.generations++]);
  goodput_.version = Version(header.restored_version());
}

void GoodputMeter::Read(const proto::LogRecord& record) {
  time_.Read(record);
  if (record.has_commit()) {
    goodput_.version = Version(record.commit().version());
  }
}

void GoodputMeter::End(const std::optional<TornTail>& torn) {
  if (torn.has_value()) goodput_.torn.push_back(*torn);
}

Goodput GoodputMeter::Measured() {
  goodput_.workers = time_.Seconds();
  return std::move(goodput_);
}

absl::StatusOr<Goodput> ReadRunGoodput(const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(run_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir, ": is no folder, expected that of a run"));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> generations,
                          ListGenerations(run_dir));
  if (generations.empty()) {
    return absl::NotFoundError(absl::StrCat(
        CommitLogPath(run_dir, Generation(1)), ": cannot be read"));
  }
  std::vector<proto::LogHeader> headers;
  for (const Generation generation : generations) {
    SLUICE_ASSIGN_OR_RETURN(const auto header, ReadHeader(run_dir, generation));
    if (header.has_value()) headers.push_back(*header);
  }
  GoodputMeter meter(headers);
  for (const proto::LogHeader& header : headers) {
    meter.Begin(header);
    SLUICE_ASSIGN_OR_RETURN(
        const CommitLog log,
        ReadGeneration(
            run_dir, Generation(header.generation()),
            [&](const proto::LogRecord& record) { meter.Read(record); }));
    meter.End(log.torn);
  }
  return meter.Measured();
}

}  // namespace sluice

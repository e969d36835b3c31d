#include "cli/launch/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

// To the start of the row, then "erase to the end of the screen" (ECMA-48).
constexpr char kErase[] = "\r\x1b[J";

// What separates the parts of a line, and where it may be folded.
constexpr char kGap[] = "  ";

// `line` in rows shorter than `columns`: a full row would wrap by itself.
std::vector<std::string> Fold(const std::string& line, int columns) {
  std::vector<std::string> rows = {""};
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(line, kGap))) {
    std::string& row = rows.back();
    if (row.empty()) {
      row = part;
    } else if (row.size() + part.size() + 2 < columns) {
      absl::StrAppend(&row, kGap, part);
    } else {
      rows.push_back(part);
    }
    if (rows.back().size() >= columns) rows.back().resize(columns - 1);
  }
  return rows;
}

std::string Waiting(const proto::JobStatus& status) {
  if (status.waiting_for().empty()) return status.phase();
  return absl::StrFormat("%s: waiting for %s (%s)", status.phase(),
                         status.waiting_for(),
                         FormatSeconds(status.waiting_s()));
}

// An update of a large model may take minutes.
std::string FormatRate(double per_second) {
  const bool slow = per_second > 0 && per_second < 1;
  return slow ? absl::StrFormat("%.2g", per_second)
              : absl::StrFormat("%.1f", per_second);
}

// Whether the run has begun to move.
bool Running(const proto::JobStatus& status) {
  return !status.phase().empty() && status.phase() != "starting";
}

}  // namespace

std::string FormatSeconds(double seconds) {
  const int64_t s = std::llround(seconds);
  if (s < 60) return absl::StrFormat("%d s", s);
  if (s < 3600) return absl::StrFormat("%d min %02d s", s / 60, s % 60);
  return absl::StrFormat("%d h %02d min", s / 3600, s / 60 % 60);
}

std::string FormatLoss(double loss) {
  // printf would show the sign of a NaN, which says nothing.
  return std::isnan(loss) ? "NaN" : absl::StrFormat("%.4g", loss);
}

std::string FormatProgress(const proto::JobStatus& status) {
  if (!Running(status)) return Waiting(status);
  std::string line = absl::StrFormat("epoch %.2f", status.epoch());
  if (status.epochs_total() > 0) {
    absl::StrAppendFormat(&line, "/%g", status.epochs_total());
  }
  absl::StrAppendFormat(&line, "  version %d", status.version());
  // There is none before the first update.
  if (status.version() > 0 || std::isfinite(status.loss())) {
    absl::StrAppend(&line, "  loss ", FormatLoss(status.loss()));
  }
  if (status.has_test_accuracy()) {
    absl::StrAppendFormat(&line, "  test %.4f", status.test_accuracy());
  } else if (status.has_test_loss()) {
    absl::StrAppend(&line, "  test loss ", FormatLoss(status.test_loss()));
  }
  const RunCounters counters = CountersFrom(kRunCounters, status.counters());
  absl::StrAppendFormat(
      &line,
      "  %s updates/s  %.0f samples/s  staleness %.1f  cancelled %d  "
      "dropped %d",
      FormatRate(status.updates_per_second()), status.samples_per_second(),
      status.mean_staleness(), counters.cancelled, counters.dropped);
  if (!status.waiting_for().empty()) {
    absl::StrAppend(&line, "  ", Waiting(status));
  } else if (status.phase() != "running") {
    absl::StrAppend(&line, "  ", status.phase());
  } else if (status.progress() > 0) {
    absl::StrAppend(&line, "  ",
                    FormatSeconds(status.seconds() * (1 - status.progress()) /
                                  status.progress()),
                    " left");
  }
  return line;
}

ProgressView::ProgressView(std::ostream& out, int columns)
    : out_(out), columns_(columns) {}

void ProgressView::Show(const proto::JobStatus& status, absl::Time now) {
  ShowLosses(status, now);
  const std::string line = FormatProgress(status);
  if (columns_ > 0) {
    const std::vector<std::string> rows = Fold(line, columns_);
    Erase();
    out_ << absl::StrJoin(rows, "\n") << std::flush;
    rows_open_ = rows.size();
    return;
  }
  const int64_t test_version =
      status.has_test_loss() ? status.test_version() : -1;
  const absl::Duration wait =
      test_version == last_test_version_ ? kPlainEvery : kTestEvery;
  if (now - last_shown_ < wait && status.phase() == last_phase_) return;
  last_shown_ = now;
  last_phase_ = status.phase();
  last_test_version_ = test_version;
  out_ << line << std::endl;
}

// The launcher tells of deaths itself.
void ProgressView::ShowLosses(const proto::JobStatus& status, absl::Time now) {
  for (const proto::WorkerStatus& worker : status.worker()) {
    if (!absl::StartsWith(worker.last_loss(), "left: ")) continue;
    auto [place, first] = losses_.try_emplace(worker.id());
    auto& [shown, at] = place->second;
    if (worker.last_loss() == shown || (!first && now - at < kLossEvery)) {
      continue;
    }
    shown = worker.last_loss();
    at = now;
    Say(absl::StrCat("worker ", worker.id(), " ", shown));
  }
}

void ProgressView::Erase() {
  if (rows_open_ > 1) out_ << "\x1b[" << rows_open_ - 1 << "A";
  if (columns_ > 0) out_ << kErase;
  rows_open_ = 0;
}

void ProgressView::Say(const std::string& line) {
  Erase();
  out_ << line << std::endl;
}

void ProgressView::Finish() {
  if (rows_open_ > 0) out_ << std::endl;
  rows_open_ = 0;
}

int TerminalColumns(int descriptor) {
  winsize size{};
  if (!isatty(descriptor)) return 0;
  // A terminal that does not know its width has at least this one.
  constexpr int kUsualColumns = 80;
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualColumns;
  }
  return size.ws_col;
}

}  // namespace sluice

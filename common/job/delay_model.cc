// Draws are counter-based: worker w reads stream `stream_ + w` at `index`, so
// the delay of its 17th task is the same number in a daemon, in the simulator,
// and in whatever order the workers draw. Distributions are made from one
// uniform or normal number each, by inversion: Pareto, for example, is minimum
// * exp(E / shape) with E exponential of mean 1.
#include "common/job/delay_model.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/files/input_file.h"
#include "common/random.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr double kMs = 1e-3;

// A line of a trace: milliseconds, and optionally the worker that took them.
struct TraceLine {
  double ms = 0;
  std::optional<int64_t> worker;
};

std::optional<TraceLine> ParseTraceLine(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  TraceLine line;
  if (parts.empty() || parts.size() > 2 ||
      !absl::SimpleAtod(parts[0], &line.ms) || !(line.ms >= 0) ||
      line.ms > 1e9) {
    return std::nullopt;
  }
  if (parts.size() == 1) return line;
  line.worker = 0;
  if (!absl::SimpleAtoi(parts[1], &*line.worker) || *line.worker < 0) {
    return std::nullopt;
  }
  return line;
}

// More lines than anybody draws; catches a data file given by mistake.
constexpr int64_t kMostTraceBytes = int64_t{64} << 20;

// The whole file: a part of a trace would be another distribution.
absl::StatusOr<std::string> ReadTraceFile(const std::string& path,
                                          FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path, files));
  if (file.size() > kMostTraceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", file.size(),
                                                   " bytes, a trace at most ",
                                                   kMostTraceBytes));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  SLUICE_RETURN_IF_ERROR(file.ReadAt(0, file.size(), text.data()));
  return text;
}

double MeanOf(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
         static_cast<double>(seconds.size());
}

}  // namespace

absl::Status DelayModel::ReadTrace(FileOperations* files) {
  const std::string& path = delay_.trace().path();
  SLUICE_ASSIGN_OR_RETURN(const std::string all, ReadTraceFile(path, files));
  worker_traces_.resize(workers_);
  // The last line may end without '\n'.
  for (const absl::string_view text :
       absl::StrSplit(absl::StripSuffix(all, "\n"), '\n')) {
    const auto line = ParseTraceLine(text);
    if (!line.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", trace_.size() + 1,
          ": expected a duration in milliseconds, 0 to 1e9, and perhaps a "
          "worker's number, found \"",
          text.substr(0, 40), "\""));
    }
    trace_.push_back(line->ms * kMs);
    if (line->worker.has_value() && *line->worker < workers_) {
      worker_traces_[*line->worker].push_back(trace_.back());
    }
  }
  return absl::OkStatus();
}

const std::vector<double>& DelayModel::TraceOf(int64_t worker) const {
  const bool has_own = worker < workers_ && !worker_traces_[worker].empty();
  return has_own ? worker_traces_[worker] : trace_;
}

absl::StatusOr<DelayModel> DelayModel::Create(const proto::Delay& delay,
                                              uint64_t seed,
                                              absl::string_view stream,
                                              int workers,
                                              FileOperations* files) {
  DelayModel model;
  model.delay_ = delay;
  // Each worker gets its own stream; the streams of two purposes do not meet.
  model.seed_ = seed;
  model.stream_ = Random(seed, stream).Uint64(0);
  model.workers_ = workers;
  if (delay.has_two_speed()) {
    model.slow_workers_ =
        static_cast<int>(std::lround(delay.two_speed().slow_share() * workers));
  }
  if (delay.has_trace()) {
    SLUICE_RETURN_IF_ERROR(model.ReadTrace(files));
  }
  return model;
}

double DelayModel::Draw(int64_t worker, int64_t index) const {
  return DrawFrom(worker, worker, index);
}

double DelayModel::DrawTogether(int64_t worker, int64_t index) const {
  return DrawFrom(0, worker, index);
}

double DelayModel::DrawFrom(int64_t stream, int64_t worker,
                            int64_t index) const {
  const Random random(seed_, stream_ + static_cast<uint64_t>(stream));
  const auto exponential = [&] {
    // Uniform is below 1, so the logarithm's argument is above 0.
    return -std::log1p(-random.Uniform(index));
  };
  switch (delay_.kind_case()) {
    case proto::Delay::kConstant:
      return delay_.constant().ms() * kMs;
    case proto::Delay::kExponential:
      return delay_.exponential().mean_ms() * kMs * exponential();
    case proto::Delay::kShiftedExponential:
      return (delay_.shifted_exponential().shift_ms() +
              delay_.shifted_exponential().mean_ms() * exponential()) *
             kMs;
    case proto::Delay::kPareto:
      return delay_.pareto().minimum_ms() * kMs *
             std::exp(exponential() / delay_.pareto().shape());
    case proto::Delay::kLogNormal:
      return delay_.log_normal().median_ms() * kMs *
             std::exp(delay_.log_normal().sigma() * random.Normal(index));
    case proto::Delay::kTwoSpeed:
      return delay_.two_speed().ms() * kMs *
             (worker < slow_workers_ ? delay_.two_speed().slow_factor() : 1);
    case proto::Delay::kTrace: {
      const std::vector<double>& trace = TraceOf(worker);
      return trace[random.Uint64(index) % trace.size()];
    }
    case proto::Delay::KIND_NOT_SET:
      return 0;
  }
  return 0;
}

std::vector<double> DelayModel::Means() const {
  const auto each = [this](double ms) {
    return std::vector<double>(workers_, ms * kMs);
  };
  switch (delay_.kind_case()) {
    case proto::Delay::kConstant:
      return each(delay_.constant().ms());
    case proto::Delay::kExponential:
      return each(delay_.exponential().mean_ms());
    case proto::Delay::kShiftedExponential:
      return each(delay_.shifted_exponential().shift_ms() +
                  delay_.shifted_exponential().mean_ms());
    case proto::Delay::kPareto:
      return each(delay_.pareto().minimum_ms() * delay_.pareto().shape() /
                  (delay_.pareto().shape() - 1));
    case proto::Delay::kLogNormal:
      return each(delay_.log_normal().median_ms() *
                  std::exp(delay_.log_normal().sigma() *
                           delay_.log_normal().sigma() / 2));
    case proto::Delay::kTwoSpeed: {
      std::vector<double> means = each(delay_.two_speed().ms());
      for (int w = 0; w < slow_workers_; ++w) {
        means[w] *= delay_.two_speed().slow_factor();
      }
      return means;
    }
    case proto::Delay::kTrace: {
      std::vector<double> means(workers_, MeanOf(trace_));
      for (int w = 0; w < workers_; ++w) {
        if (!worker_traces_[w].empty()) means[w] = MeanOf(worker_traces_[w]);
      }
      return means;
    }
    case proto::Delay::KIND_NOT_SET:
      return each(0);
  }
  return each(0);
}

double DelayModel::Mean() const { return MeanOf(Means()); }

bool DelayModel::always_zero() const { return Mean() == 0; }

absl::StatusOr<ComputeDelay> ComputeDelay::Create(const proto::Job& job) {
  ComputeDelay delay;
  SLUICE_ASSIGN_OR_RETURN(
      delay.model_,
      DelayModel::Create(job.delays().compute(), job.seed(), "delays.compute",
                         job.cluster().workers()));
  delay.factors_.assign(job.delays().worker_factor().begin(),
                        job.delays().worker_factor().end());
  std::vector<double> means = delay.model_.Means();
  for (size_t w = 0; w < means.size(); ++w) means[w] *= delay.FactorOf(w);
  delay.mean_ = MeanOf(means);
  return delay;
}

double ComputeDelay::Draw(int64_t worker, int64_t sequence, int batches) const {
  double seconds = 0;
  for (int i = 0; i < batches; ++i) {
    // A task has at most 65536 mini-batches, so the indices of two tasks
    // differ.
    seconds += model_.Draw(worker, (sequence << 16) + i);
  }
  return seconds * FactorOf(worker);
}

// The list may be shorter than the cluster, or longer.
double ComputeDelay::FactorOf(int64_t worker) const {
  return worker < static_cast<int64_t>(factors_.size()) ? factors_[worker] : 1;
}

}  // namespace sluice

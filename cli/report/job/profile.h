#ifndef SLUICE_CLI_REPORT_JOB_PROFILE_H_
#define SLUICE_CLI_REPORT_JOB_PROFILE_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/job/resolved_job.h"
#include "nlohmann/json.hpp"
#include "worker/compute/layer_times.h"

namespace sluice {

// What follows from the measured times of a model's parts.
struct ProfileReport {
  // A model cut into stages.
  struct Pipeline {
    std::vector<std::string> cuts;
    std::vector<LayerTime> stages;
    double balance = 1;  // The mean stage's time, of the largest's.
    double bubble = 0;   // Share of the members' time in which they wait.
    // How many times the rate of one process with the same micro-batches they
    // reach, if nothing else takes time.
    double limit = 1;
  };

  int samples = 0;  // Of a micro-batch.
  int passes = 0;   // Micro-batches of a mini-batch.
  std::vector<LayerTime> parts;
  // Seconds that one process computes a mini-batch.
  double batch_seconds = 0;
  std::optional<Pipeline> of_job;   // Nothing where it has one stage.
  std::optional<Pipeline> by_time;  // Cut by these times; nothing as above.
};

// REQUIRES: `parts` are those of MeasureLayers(job).
ProfileReport MakeProfileReport(const ResolvedJob& job,
                                std::vector<LayerTime> parts);

void PrintProfile(const ResolvedJob& job, const ProfileReport& report,
                  std::ostream& out);
// Names stay the same from release to release.
nlohmann::ordered_json ProfileToJson(const ResolvedJob& job,
                                     const ProfileReport& report);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_PROFILE_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

#include <string>

#include "proto/coordinator.pb.h"

namespace sluice {

// A run with more workers than this has the sums of what they count, and no
// series for each of them.
inline constexpr int kMostLabelledWorkers = 100;

// How the whole cluster stands, in Prometheus's text format; counters under the
// names that common/http/prometheus_text.h gives them. docs/monitoring.md lists
// what there is besides. A counter falls where a run goes on from a checkpoint,
// and a process's where it is started again; to Prometheus that is a reset.
// Pure.
std::string PrometheusMetrics(const proto::JobStatus& status);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

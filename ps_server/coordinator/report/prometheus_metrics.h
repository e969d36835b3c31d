#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/telemetry/counter_table.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// A run with more workers than this has the sums of what they count, and no
// series for each of them.
inline constexpr int kMostLabelledWorkers = 100;

// What all workers of a run together have counted. A worker that is started
// again counts from 0; to Prometheus a sum that falls has begun anew as a
// whole, so what it had counted before stays in the sum.
//
// Thread-compatible.
class WorkerSums {
 public:
  // Of so many counters of a worker, the first that it names: no process of
  // this build has as many.
  static constexpr int kMostCounters = 128;

  // To be called whenever they are asked for.
  void Look(const proto::JobStatus& status);
  // As far as somebody has looked.
  CounterMap Sums() const;

 private:
  std::map<int64_t, CounterMap> last_;  // By worker.
  CounterMap past_;                     // Of lives that are over.
};

// How the whole cluster stands, in Prometheus's text format; counters under the
// names that common/http/prometheus_text.h gives them. docs/monitoring.md lists
// what there is besides. A counter falls where a run goes on from a checkpoint,
// and a process's where it is started again; to Prometheus that is a reset.
// `sums`: of the same run since the first call.
std::string PrometheusMetrics(const proto::JobStatus& status, WorkerSums* sums);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

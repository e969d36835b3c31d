#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

#include <string>

#include "proto/coordinator.pb.h"

namespace sluice {

// The type of the text below, for HTTP.
inline constexpr char kPrometheusType[] =
    "text/plain; version=0.0.4; charset=utf-8";

// A run with more workers than this has the sums of what they count, and no
// series for each of them.
inline constexpr int kMostLabelledWorkers = 100;

// How the whole cluster stands, in Prometheus's text format
// (https://prometheus.io/docs/instrumenting/exposition_formats). Names come
// from those of the counters by one rule:
//
//   samples                       sluice_samples_total
//   gradients.applied             sluice_gradients_total{outcome="applied"}
//   compute_microseconds_total    sluice_worker_compute_seconds_total{worker=}
//   push_bytes_total of shard 1   sluice_shard_push_bytes_total{shard="1"}
//
// docs/monitoring.md lists what there is besides. A counter falls where a run
// goes on from a checkpoint, and a process's where it is started again; to
// Prometheus that is a reset. Pure.
std::string PrometheusMetrics(const proto::JobStatus& status);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_PROMETHEUS_METRICS_H_

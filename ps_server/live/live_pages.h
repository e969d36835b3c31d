#ifndef SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_
#define SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/http_port.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// What the lead's HTTP port answers (docs/monitoring.md):
//
//   /            the live page, with page.js, page.css and chart.js
//   /api/state   JSON: "sluice", the version of it; "status" as `sluice status
//                --json`, but above 100 workers without their counters, null
//                while there is none, and "error" which says why;
//                "points" of the run's curves with numbers above ?since=N;
//                "time", what the workers do and did (task_history.h)
//   /metrics     for Prometheus
//   /healthz     200: the process answers
//   /readyz      200: the run has all shards and workers, or is over; else 503
//                and whom it lacks
//
// `status`: how the run stands; kUnavailable: nobody knows just now. `run_dir`
// has metrics.jsonl and the commit logs; empty: there are neither.
std::map<std::string, HttpPage> LivePages(
    std::function<absl::StatusOr<proto::JobStatus>()> status,
    const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_

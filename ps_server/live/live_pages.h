#ifndef SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_
#define SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
// has metrics.jsonl and the commit logs; empty: there are neither. Where it
// does not answer, /api/state has "points" and "time" as far as they had been
// read, and every page is answered all the same: an answer waits for
// `most_wait`, the first of a stall, or not at all. The default is longer than
// a disk that answers takes, and shorter than the second that Kubernetes gives
// a probe. Who destroys the pages waits for what is being read.
std::map<std::string, HttpPage> LivePages(
    std::function<absl::StatusOr<proto::JobStatus>()> status,
    const std::string& run_dir,
    absl::Duration most_wait = absl::Milliseconds(500));

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LIVE_LIVE_PAGES_H_

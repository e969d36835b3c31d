#ifndef SLUICE_COMMON_HTTP_PROCESS_PORT_H_
#define SLUICE_COMMON_HTTP_PROCESS_PORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/http/http_port.h"
#include "common/telemetry/counter_table.h"

namespace sluice {

// Opens the port that a daemon's flag --http asks for, and logs its address.
// kInvalidArgument: the flag is no "host:port". Else as HttpPort::Open.
absl::StatusOr<std::unique_ptr<HttpPort>> OpenHttpFlag(
    const std::string& flag, std::map<std::string, HttpPage> pages);

// What a process that does not lead the run shows of itself
// (docs/monitoring.md):
//
//   /metrics     what it counts, for Prometheus, named as at the lead
//   /healthz     200: the process answers
//   /readyz      200: it takes part in the run, with all its slots; else 503
//
// Thread-safe.
class ProcessPort {
 public:
  // Of number `ids` ("3", or "any") of a role: "worker"; several where the
  // process has as many slots. Empty `flag`: there is no port, and nothing is
  // shown. Errors as OpenHttpFlag's.
  static absl::StatusOr<std::unique_ptr<ProcessPort>> Open(
      const std::string& flag, const std::string& role,
      const std::vector<std::string>& ids);

  // `slot` is, throughout, a place in `ids`.
  //
  // The lead has given it this number.
  void Rename(const std::string& id, int slot = 0);
  // It takes part from here on. `counters`: what it has counted; asked on
  // another thread, until Parted has returned.
  void Joined(std::function<CounterMap()> counters, int slot = 0);
  // It takes no part any more. What it has counted stays until it joins again.
  void Parted(int slot = 0);

  const HttpPort* http() const { return port_.get(); }  // Null: there is none.

 private:
  struct Slot {
    std::string id;
    std::function<CounterMap()> counters = {};  // While joined.
    CounterMap last = {};
  };

  ProcessPort(std::string role, const std::vector<std::string>& ids);
  HttpAnswer Metrics();
  HttpAnswer Ready();

  // Constant after Open.
  const std::string role_;

  absl::Mutex mu_;  // Acquired before those of whoever counts.
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<HttpPort> port_;  // Asks for the above: ends first.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_HTTP_PROCESS_PORT_H_

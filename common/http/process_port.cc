// A slot's counters are asked for where they are while it takes part, and kept
// as they were last while it does not:
//
//   Joined     asked at each /metrics
//   Parted     asked once more, kept
//   Joined     those of the new life
//
// The lock is held while they are asked: once Parted has returned, nobody looks
// at what the slot is about to end.
#include "common/http/process_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "common/http/prometheus_text.h"
#include "common/status_macros.h"
#include "third_party/spdlog.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<HttpPort>> OpenHttpFlag(
    const std::string& flag, std::map<std::string, HttpPage> pages) {
  const absl::StatusOr<HostPort> at = ParseHostPort(flag);
  if (!at.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http: ", at.status().message()));
  }
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<HttpPort> port,
                          HttpPort::Open(flag, std::move(pages)));
  spdlog::info("event=pages address={}",
               HostPort{at->host, port->port()}.ToString());
  return port;
}

ProcessPort::ProcessPort(std::string role, const std::vector<std::string>& ids)
    : role_(std::move(role)) {
  for (const std::string& id : ids) slots_.push_back({.id = id});
}

absl::StatusOr<std::unique_ptr<ProcessPort>> ProcessPort::Open(
    const std::string& flag, const std::string& role,
    const std::vector<std::string>& ids) {
  std::unique_ptr<ProcessPort> process(new ProcessPort(role, ids));
  if (flag.empty()) return process;
  ProcessPort* shown = process.get();
  SLUICE_ASSIGN_OR_RETURN(
      process->port_,
      OpenHttpFlag(
          flag,
          {{"/metrics",
            [shown](const HttpArguments&) { return shown->Metrics(); }},
           {"/healthz",
            [](const HttpArguments&) { return HttpAnswer{.body = "ok\n"}; }},
           {"/readyz",
            [shown](const HttpArguments&) { return shown->Ready(); }}}));
  return process;
}

void ProcessPort::Rename(const std::string& id, int slot) {
  absl::MutexLock lock(&mu_);
  slots_[slot].id = id;
}

void ProcessPort::Joined(std::function<CounterMap()> counters, int slot) {
  absl::MutexLock lock(&mu_);
  slots_[slot].counters = std::move(counters);
}

void ProcessPort::Parted(int slot) {
  absl::MutexLock lock(&mu_);
  Slot& parted = slots_[slot];
  if (parted.counters == nullptr) return;
  parted.last = parted.counters();
  parted.counters = nullptr;
}

HttpAnswer ProcessPort::Metrics() {
  PrometheusText text;
  absl::MutexLock lock(&mu_);
  for (const Slot& slot : slots_) {
    const bool joined = slot.counters != nullptr;
    text.Gauge(absl::StrCat(role_, "_joined"),
               absl::StrCat("1: this ", role_, " takes part in the run"),
               joined ? 1 : 0, {{role_, slot.id}});
    text.ProcessCounters(role_, slot.id, joined ? slot.counters() : slot.last);
  }
  return {.type = kPrometheusType, .body = text.Text()};
}

HttpAnswer ProcessPort::Ready() {
  absl::MutexLock lock(&mu_);
  for (const Slot& slot : slots_) {
    if (slot.counters != nullptr) continue;
    return {
        .code = 503,
        .body = absl::StrCat(role_, " ", slot.id, " has not joined the run\n")};
  }
  return {.body = "joined\n"};
}

}  // namespace sluice

#include "common/http/process_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "common/http/prometheus_text.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

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

ProcessPort::ProcessPort(std::string role, std::string id)
    : role_(std::move(role)), id_(std::move(id)) {}

absl::StatusOr<std::unique_ptr<ProcessPort>> ProcessPort::Open(
    const std::string& flag, const std::string& role, const std::string& id) {
  std::unique_ptr<ProcessPort> process(new ProcessPort(role, id));
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

void ProcessPort::Rename(const std::string& id) {
  absl::MutexLock lock(&mu_);
  id_ = id;
}

void ProcessPort::Joined(std::function<CounterMap()> counters) {
  absl::MutexLock lock(&mu_);
  counters_ = std::move(counters);
}

void ProcessPort::Parted() {
  absl::MutexLock lock(&mu_);
  if (counters_ == nullptr) return;
  last_ = counters_();
  counters_ = nullptr;
}

HttpAnswer ProcessPort::Metrics() {
  PrometheusText text;
  absl::MutexLock lock(&mu_);
  text.Gauge(absl::StrCat(role_, "_joined"),
             absl::StrCat("1: this ", role_, " takes part in the run"),
             counters_ == nullptr ? 0 : 1, {{role_, id_}});
  text.ProcessCounters(role_, id_, counters_ == nullptr ? last_ : counters_());
  return {.type = kPrometheusType, .body = text.Text()};
}

HttpAnswer ProcessPort::Ready() {
  absl::MutexLock lock(&mu_);
  if (counters_ != nullptr) return {.body = "joined\n"};
  return {.code = 503,
          .body = absl::StrCat(role_, " ", id_, " has not joined the run\n")};
}

}  // namespace sluice

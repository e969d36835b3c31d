#ifndef SLUICE_COMMON_HTTP_PROMETHEUS_TEXT_H_
#define SLUICE_COMMON_HTTP_PROMETHEUS_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/telemetry/counter_table.h"
#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"

namespace sluice {

// The type of the text below, for HTTP.
inline constexpr char kPrometheusType[] =
    "text/plain; version=0.0.4; charset=utf-8";

// Collects metrics and writes them in Prometheus's text format
// (https://prometheus.io/docs/instrumenting/exposition_formats): families in
// the order of their names, each with its series as they come. Names begin with
// "sluice_", which is added here.
//
// Thread-compatible.
class PrometheusText {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void Gauge(const std::string& name, const std::string& help, double value,
             Labels labels = {});
  void Counter(const std::string& name, const std::string& help, double value,
               Labels labels = {});
  // To be filled in at once.
  prometheus::ClientMetric::Histogram& Histogram(const std::string& name,
                                                 const std::string& help,
                                                 Labels labels = {});

  // A counter of a table (common/telemetry/counter_table.h) under a name that
  // follows from its own:
  //
  //   samples                       sluice_samples_total
  //   gradients.applied             sluice_gradients_total{outcome="applied"}
  //   compute_microseconds_total    sluice_compute_seconds_total
  //
  // `prefix` goes before: "worker_". `help` is of the family.
  void TableCounter(const std::string& prefix, const std::string& name,
                    const std::string& help, int64_t value, Labels labels = {});
  // The same of all that a process has counted, with its role as the prefix and
  // as the label: sluice_worker_compute_seconds_total{worker="3"}. `id` empty:
  // without the label.
  void ProcessCounters(const std::string& role, const std::string& id,
                       const CounterMap& counters);

  std::string Text() const;

 private:
  prometheus::ClientMetric& Series(prometheus::MetricType type,
                                   const std::string& name,
                                   const std::string& help, Labels labels);

  std::map<std::string, prometheus::MetricFamily> families_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_HTTP_PROMETHEUS_TEXT_H_

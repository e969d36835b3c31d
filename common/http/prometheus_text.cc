#include "common/http/prometheus_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/tls/certificate_counter.h"
#include "prometheus/text_serializer.h"

namespace sluice {

void PrometheusText::Gauge(const std::string& name, const std::string& help,
                           double value, Labels labels) {
  Series(prometheus::MetricType::Gauge, name, help, std::move(labels))
      .gauge.value = value;
}

void PrometheusText::Counter(const std::string& name, const std::string& help,
                             double value, Labels labels) {
  Series(prometheus::MetricType::Counter, name, help, std::move(labels))
      .counter.value = value;
}

prometheus::ClientMetric::Histogram& PrometheusText::Histogram(
    const std::string& name, const std::string& help, Labels labels) {
  return Series(prometheus::MetricType::Histogram, name, help,
                std::move(labels))
      .histogram;
}

void PrometheusText::TableCounter(const std::string& prefix,
                                  const std::string& name,
                                  const std::string& help, int64_t value,
                                  Labels labels) {
  if (name == kCertificateSecondsLeft) {
    Gauge(absl::StrCat(prefix, "certificate_expires_seconds"),
          "Seconds until its certificate expires", static_cast<double>(value),
          std::move(labels));
    return;
  }
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(name, absl::MaxSplits('.', 1));
  if (!parts.second.empty()) labels.push_back({"outcome", parts.second});
  absl::string_view what = parts.first;
  absl::ConsumeSuffix(&what, "_total");
  const bool microseconds = absl::ConsumeSuffix(&what, "_microseconds");
  Counter(
      absl::StrCat(prefix, what, microseconds ? "_seconds_total" : "_total"),
      help, microseconds ? static_cast<double>(value) * 1e-6 : value,
      std::move(labels));
}

void PrometheusText::ProcessCounters(const std::string& role,
                                     const std::string& id,
                                     const CounterMap& counters) {
  for (const auto& [name, value] : counters) {
    TableCounter(absl::StrCat(role, "_"), name,
                 absl::StrCat("The counter ", name, " of a ", role,
                              ", as docs/protocol.md says"),
                 value, id.empty() ? Labels() : Labels{{role, id}});
  }
}

std::string PrometheusText::Text() const {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& [name, family] : families_) families.push_back(family);
  return prometheus::TextSerializer().Serialize(families);
}

prometheus::ClientMetric& PrometheusText::Series(prometheus::MetricType type,
                                                 const std::string& name,
                                                 const std::string& help,
                                                 Labels labels) {
  prometheus::MetricFamily& family = families_[name];
  if (family.metric.empty()) {
    family.name = absl::StrCat("sluice_", name);
    family.help = help;
    family.type = type;
  }
  family.metric.emplace_back().label = std::move(labels);
  return family.metric.back();
}

}  // namespace sluice

#ifndef SLUICE_COMMON_TLS_CERTIFICATE_COUNTER_H_
#define SLUICE_COMMON_TLS_CERTIFICATE_COUNTER_H_

namespace sluice {

// The counter by which each process that uses TLS says in its heartbeats how
// many seconds its certificate is still valid.
inline constexpr char kCertificateSecondsLeft[] = "certificate_seconds_left";

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_CERTIFICATE_COUNTER_H_

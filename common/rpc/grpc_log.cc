#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/clock.h"
#include "common/telemetry/log_pace.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// The beginnings of gRPC 1.51's messages (ssl_transport_security.cc).
constexpr char kFailed[] = "Handshake failed with fatal error ";
constexpr char kNoSuchName[] = "No match found for server name";

std::atomic<int64_t> failed_total = 0;

// gRPC calls this on threads that may outlive main, so the paces are never
// destroyed.
void LogOne(gpr_log_func_args* args) {
  // One for each of those who have set up something in the wrong way.
  static LogPace& failures = *new LogPace(absl::Seconds(1), /*burst=*/10);
  static LogPace& others = *new LogPace(absl::Seconds(1));
  const absl::Time now = Clock::Real()->Now();
  absl::string_view message = args->message;
  if (absl::StartsWith(message, kNoSuchName)) return;
  if (!absl::ConsumePrefix(&message, kFailed)) {
    if (!others.Due(now)) return;
    return spdlog::error("event=grpc_error error={}", LogValue(message));
  }
  const int64_t failed = ++failed_total;
  if (!failures.Due(now)) return;
  spdlog::warn("event=handshake_failed reason={} failed_total={}",
               LogValue(message), failed);
}

}  // namespace

// gRPC calls it for messages of its own least severity and above: errors.
void LogGrpcErrors() { gpr_set_log_function(LogOne); }

bool IsOfHandshake(absl::string_view message) {
  return absl::StartsWith(message, kNoSuchName) ||
         absl::StartsWith(message, kFailed);
}

int64_t HandshakesFailed() { return failed_total; }

}  // namespace sluice

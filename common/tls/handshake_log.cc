#include "common/tls/handshake_log.h"

#include <grpc/support/log.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// The beginnings of gRPC 1.51's messages (ssl_transport_security.cc).
constexpr char kFailed[] = "Handshake failed with fatal error ";
constexpr char kNoSuchName[] = "No match found for server name";

void LogOne(gpr_log_func_args* args) {
  absl::string_view message = args->message;
  if (absl::StartsWith(message, kNoSuchName)) return;
  if (absl::ConsumePrefix(&message, kFailed)) {
    spdlog::warn("event=handshake_failed reason=\"{}\"", std::string(message));
  } else {
    spdlog::error("event=grpc_error error=\"{}\"", std::string(message));
  }
}

}  // namespace

// gRPC calls it for messages of its own least severity and above: errors.
void LogHandshakes() { gpr_set_log_function(LogOne); }

}  // namespace sluice

#include "cli/launch/find_coordinator.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "cli/run_folder.h"
#include "common/status_macros.h"
#include "common/tls/transport_security.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<CoordinatorWatch>> FindCoordinator(
    const std::string& run, const TlsFlags& tls) {
  SLUICE_RETURN_IF_ERROR(CheckMayRead(run));
  LeadAddress address = {.host_port = run};
  std::error_code error;
  if (std::filesystem::is_directory(run, error)) {
    address = LeadAddressOf(run);
    if (address.host_port.empty()) {
      return absl::UnavailableError(
          "names no coordinator yet: there is no line \"coordinator "
          "host:port\" in its file addresses");
    }
  }
  if (address.host_port.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(run,
                     ": is neither the folder of a run nor host:port of a "
                     "coordinator"));
  }
  // The job is the one that the operator's certificate names.
  const auto security =
      TransportSecurity::Open(tls, /*job=*/"", TlsRole::kOperator);
  absl::Status allowed = security.status();
  if (allowed.ok()) {
    allowed = security->Allow("the coordinator", address.host_port);
  }
  if (!allowed.ok()) return absl::InvalidArgumentError(allowed.message());
  return std::make_unique<CoordinatorWatch>(address, security->ToLead());
}

}  // namespace sluice

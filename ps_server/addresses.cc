#include "ps_server/addresses.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

struct HostPort {
  std::string host;  // With its brackets.
  int port = 0;
};

absl::StatusOr<HostPort> Split(const std::string& what,
                               const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": must be host:port with a port of 0 to 65535, is \"", address,
        "\""));
  }
  result.host = address.substr(0, colon);
  return result;
}

// The host of an address that ListenAddress has checked.
std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

bool IsEveryInterface(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "[::]";
}

}  // namespace

absl::StatusOr<std::string> ListenAddress(const Flags& flags,
                                          const proto::Job& job) {
  if (!flags.listen.empty()) {
    SLUICE_RETURN_IF_ERROR(Split("--listen", flags.listen).status());
    return flags.listen;
  }
  if (flags.shard != 0 || job.cluster().coordinator().empty()) {
    return std::string("0.0.0.0:0");
  }
  SLUICE_ASSIGN_OR_RETURN(
      const HostPort lead,
      Split("cluster.coordinator", job.cluster().coordinator()));
  return absl::StrCat("0.0.0.0:", lead.port);
}

std::string AdvertisedAddress(const Flags& flags, const std::string& listen,
                              int port, const std::string& host_name) {
  if (!flags.advertise.empty()) return flags.advertise;
  const std::string host = HostOf(listen);
  return absl::StrCat(IsEveryInterface(host) ? host_name : host, ":", port);
}

std::string WithPort(const std::string& listen, int port) {
  return absl::StrCat(HostOf(listen), ":", port);
}

std::string LoopbackAddress(const std::string& listen, int port) {
  const std::string host = HostOf(listen);
  if (host == "[::]") return absl::StrCat("[::1]:", port);
  return absl::StrCat(IsEveryInterface(host) ? "127.0.0.1" : host, ":", port);
}

absl::StatusOr<std::string> CoordinatorAddress(const Flags& flags,
                                               const proto::Job& job) {
  const bool given = !flags.coordinator.empty();
  const std::string& address =
      given ? flags.coordinator : job.cluster().coordinator();
  if (address.empty()) {
    return absl::InvalidArgumentError(
        "where is the coordinator? Set --coordinator=host:port or "
        "cluster.coordinator");
  }
  SLUICE_RETURN_IF_ERROR(
      Split(given ? "--coordinator" : "cluster.coordinator", address).status());
  return address;
}

std::string FormatAddresses(const std::string& coordinator,
                            const std::vector<std::string>& shards) {
  std::string text = absl::StrCat("coordinator ", coordinator, "\n");
  for (size_t i = 0; i < shards.size(); ++i) {
    absl::StrAppend(&text, "shard ", i, " ", shards[i], "\n");
  }
  return text;
}

}  // namespace sluice

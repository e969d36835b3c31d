// Two addresses for each server: on which it listens, and what it tells others.
//
//   shard 0, cluster.coordinator "lead:7000"   [::]:7000       HOST:7000
//   shard 1                                    [::]:0          HOST:41234
//   --listen=127.0.0.1:0                       127.0.0.1:0     127.0.0.1:41234
//   --listen=[::]:7001 --advertise=gate:9001   [::]:7001       gate:9001
//
// HOST is this machine's name, and 41234 a port that the system gave.
#include "ps_server/addresses.h"

#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::StatusOr<HostPort> Parse(const std::string& what,
                               const std::string& address) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", parsed.status().message()));
}

}  // namespace

absl::StatusOr<std::string> ListenAddress(const Flags& flags,
                                          const proto::Job& job) {
  if (!flags.listen.empty()) {
    SLUICE_RETURN_IF_ERROR(Parse("--listen", flags.listen).status());
    return flags.listen;
  }
  if (flags.shard != 0 || job.cluster().coordinator().empty()) {
    return std::string("[::]:0");
  }
  SLUICE_ASSIGN_OR_RETURN(
      const HostPort lead,
      Parse("cluster.coordinator", job.cluster().coordinator()));
  return absl::StrCat("[::]:", lead.port);
}

absl::StatusOr<std::string> AdvertisedAddress(const Flags& flags,
                                              const std::string& listen,
                                              int port,
                                              const std::string& host_name) {
  if (!flags.advertise.empty()) {
    SLUICE_RETURN_IF_ERROR(Parse("--advertise", flags.advertise).status());
    return flags.advertise;
  }
  SLUICE_ASSIGN_OR_RETURN(HostPort at, Parse("--listen", listen));
  if (at.IsEveryInterface()) at.host = host_name;
  at.port = port;
  return at.ToString();
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
      Parse(given ? "--coordinator" : "cluster.coordinator", address).status());
  return address;
}

std::string RunFolderOf(const Flags& flags, const proto::Job& job) {
  return flags.run_dir.empty() ? job.output().run_dir() : flags.run_dir;
}

std::string FormatAddresses(const std::string& run_id,
                            const std::string& coordinator,
                            const std::vector<std::string>& shards) {
  std::string text = absl::StrCat("coordinator ", coordinator, "\n");
  for (size_t i = 0; i < shards.size(); ++i) {
    absl::StrAppend(&text, "shard ", i, " ", shards[i], "\n");
  }
  absl::StrAppend(&text, "run ", run_id, "\n");
  return text;
}

}  // namespace sluice

#ifndef SLUICE_PS_SERVER_ADDRESSES_H_
#define SLUICE_PS_SERVER_ADDRESSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "ps_server/flags.h"

// Where a ps_server listens, reaches others and keeps files. Pure functions; an
// address is "host:port", with brackets around an IPv6 host.
namespace sluice {

// What to listen on: --listen, else every interface ("[::]"), at the port of
// cluster.coordinator (the lead, where it is set) or a free one (port 0).
// kInvalidArgument: not an address.
absl::StatusOr<std::string> ListenAddress(const Flags& flags,
                                          const proto::Job& job);

// Where others reach a server that listens on `listen` and was given `port`:
// --advertise as it stands, else the host of `listen`, with `host_name` for
// every interface. kInvalidArgument: not an address.
absl::StatusOr<std::string> AdvertisedAddress(const Flags& flags,
                                              const std::string& listen,
                                              int port,
                                              const std::string& host_name);

// Where shard 1 and on reach the coordinator: --coordinator, else
// cluster.coordinator. kInvalidArgument: neither is set, or not an address.
absl::StatusOr<std::string> CoordinatorAddress(const Flags& flags,
                                               const proto::Job& job);

// The run folder; empty: none.
std::string RunFolderOf(const Flags& flags, const proto::Job& job);

// The run folder's file `addresses`: one "NAME host:port" a line, for the
// coordinator and, when they are known, each shard; then the run's id, as
// another run may listen there when this one is over.
std::string FormatAddresses(const std::string& run_id,
                            const std::string& coordinator,
                            const std::vector<std::string>& shards);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_ADDRESSES_H_

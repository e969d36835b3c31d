#ifndef SLUICE_COMMON_RPC_CONNECTION_TABLE_H_
#define SLUICE_COMMON_RPC_CONNECTION_TABLE_H_

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// What the connections of a port may have at most.
struct ConnectionLimits {
  int in_all = std::numeric_limits<int>::max();
  int from_one_address = std::numeric_limits<int>::max();
  // Bytes that one connection has sent and that no message explains.
  int64_t hoard = std::numeric_limits<int64_t>::max();

  // For a job of this many processes, which may all be on one host: room for
  // each to connect anew while its earlier connections have not been seen to
  // end, and for a few tools. One address can take half of all there are.
  // `chunk_bytes` is limits.chunk_bytes.
  static ConnectionLimits ForJob(int processes, int64_t chunk_bytes);
};

// The host that `peer` (IPv4 or IPv6) connects from, as text. IPv6 addresses
// count by their /64, since a host may have any of one: "2001:db8:0:7::".
std::string HostOf(const sockaddr_in6& peer);

// The connections that a port has accepted and handed to gRPC, which tells
// nobody when it closes one. So the table looks: a descriptor's number may be
// somebody else's by now, but then it has another inode.
//
// gRPC 1.51 takes as much of a message as its sender says it has, up to 4 GiB,
// before it compares that with the largest message there may be. So the table
// also compares what a connection has sent with the messages that have come of
// it: what is sent and not explained is what gRPC holds for it. Who hoards, or
// is accused of something else, is shut, and its host cannot connect again for
// a while; connections that the host has already go on.
//
// Thread-safe.
class ConnectionTable {
 public:
  explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

  // For how long a host cannot connect.
  static constexpr absl::Duration kBan = absl::Seconds(10);

  // Takes an open TCP connection from `peer` into the table; `now` never
  // decreases. kResourceExhausted: there are as many as there may be, or the
  // host may not connect now.
  absl::Status Add(int descriptor, const sockaddr_in6& peer, absl::Time now);
  // A message of `received` bytes has come from `peer` (ServerContext::peer),
  // or one of `sent` bytes goes to it, which it answers with updates of its
  // window.
  void Explain(absl::string_view peer, int64_t received, int64_t sent);
  // A call of `peer` is read from, from Begin to End. When none is any more,
  // gRPC holds nothing of it: what no message has come of was of calls that
  // have ended, cancelled ones for instance.
  void BeginReading(absl::string_view peer);
  void EndReading(absl::string_view peer);
  // The next ShutOffenders shuts the connection of `peer`, as above, which
  // `did` something, as in "has made calls that it may not make".
  void Accuse(absl::string_view peer, absl::string_view did);
  // Shuts the connections that hoard and those that are accused. OK, or who was
  // the last of them and what it did.
  absl::Status ShutOffenders(absl::Time now);

 private:
  struct Connection {
    ino_t inode = 0;
    std::string host;
    std::string peer;  // "127.0.0.1:4711"
    int64_t received = 0;
    int64_t explained = 0;  // Since ShutOffenders.
    int64_t hoard = 0;
    int reading = 0;       // Calls.
    std::string did = "";  // Empty: nothing.
  };

  // OK, or which limit stands against one more.
  absl::Status Room(const std::string& host, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the connections that have been closed.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(int descriptor, const Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ConnectionLimits limits_;  // Constant after construction.

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::flat_hash_map<int, Connection> open_
      ABSL_GUARDED_BY(mu_);  // By descriptor.
  absl::flat_hash_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, int> of_host_
      ABSL_GUARDED_BY(mu_);  // None is 0.
  absl::flat_hash_map<std::string, absl::Time> banned_until_
      ABSL_GUARDED_BY(mu_);  // By host.
  absl::Time looked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_CONNECTION_TABLE_H_

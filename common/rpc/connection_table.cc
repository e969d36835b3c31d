// For connections that are closed it looks only when a limit is reached; so
// accepting costs one fstat, and a port that is full one for each of its
// connections.
//
//   Add(7, "10.0.0.1")    inode 501
//   gRPC closes 7; the process opens a file, which is 7 now, with inode 77
//   Add(8, "10.0.0.1")    a limit is reached: 7 has another inode, so it is
//                         forgotten, and there is room
//
// What a connection hoards is never below 0, so that nobody can save up for
// later. A push of one chunk, and one that never ends, with a limit of 12 MB:
//
//   received   0.6 MB   explained 0      hoard 0.6
//   received   1.1 MB   explained 1.2    hoard 0      the chunk was complete
//   received 100.0 MB   explained 0      hoard 98.9   shut
//
// A push that is cancelled leaves what has come of its next chunk, which gRPC
// drops. So where no call is read from any more, nothing is hoarded: without
// that a slow worker under K_SYNC, whose pushes are often cancelled, would be
// shut.
#include "common/rpc/connection_table.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

// A worker has a session and a connection to each shard, each twice for a
// moment when it has lost one.
constexpr int kPerProcess = 4;
// People and scripts that ask for the status.
constexpr int kTools = 16;

// Of a worker's push eight chunks are on their way at once (VectorPush), and so
// much may be left of the push before, which was cancelled. A Join has a job's
// text.
constexpr int kChunks = 16;
constexpr int64_t kRest = 4 << 20;

// What HTTP/2 and TLS add to a message: its own headers, and 1/16 of it; its
// receiver answers with less.
constexpr int64_t kPerMessage = 1024;
constexpr int64_t kShare = 16;
// Pings, a second; after a pause of the process, for so long.
constexpr double kPerSecond = 1024;
constexpr absl::Duration kMostPassed = absl::Minutes(1);

// 0: it is not open.
ino_t InodeOf(int descriptor) {
  struct stat found = {};
  return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

// Bytes that have come on a connection, TLS included.
int64_t ReceivedOn(int descriptor) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return 0;
  }
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

// Whether it is one, or an IPv6 address that stands for one.
bool ToIpv4(const sockaddr_in6& peer, in_addr* address) {
  if (peer.sin6_family == AF_INET) {
    *address = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
    return true;
  }
  if (!IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) return false;
  std::memcpy(address, &peer.sin6_addr.s6_addr[12], sizeof(*address));
  return true;
}

template <typename Address>
std::string AsText(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, &address, text, sizeof(text));
  return text;
}

// "127.0.0.1:4711" or "[::1]:4711".
std::string PeerOf(const sockaddr_in6& peer) {
  const int port = ntohs(peer.sin6_port);  // An sockaddr_in's is there, too.
  in_addr ipv4;
  return ToIpv4(peer, &ipv4)
             ? absl::StrCat(AsText(AF_INET, ipv4), ":", port)
             : absl::StrCat("[", AsText(AF_INET6, peer.sin6_addr), "]:", port);
}

// The same of what gRPC says: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
std::string PeerOf(absl::string_view grpc_peer) {
  if (!absl::ConsumePrefix(&grpc_peer, "ipv4:")) {
    absl::ConsumePrefix(&grpc_peer, "ipv6:");
  }
  return absl::StrReplaceAll(grpc_peer, {{"%5B", "["}, {"%5D", "]"}});
}

}  // namespace

ConnectionLimits ConnectionLimits::ForJob(int processes, int64_t chunk_bytes) {
  const int job = (processes + kTools) * kPerProcess;
  return {.in_all = 2 * job,
          .from_one_address = job,
          .hoard = kChunks * chunk_bytes + kRest};
}

std::string HostOf(const sockaddr_in6& peer) {
  in_addr ipv4;
  if (ToIpv4(peer, &ipv4)) return AsText(AF_INET, ipv4);
  in6_addr net = peer.sin6_addr;
  std::memset(&net.s6_addr[8], 0, 8);
  return AsText(AF_INET6, net);
}

absl::Status ConnectionTable::Add(int descriptor, const sockaddr_in6& peer,
                                  absl::Time now) {
  const std::string host = HostOf(peer);
  absl::MutexLock lock(&mu_);
  absl::Status room = Room(host, now);
  if (!room.ok()) {
    Sweep();
    room = Room(host, now);
  }
  if (!room.ok()) return room;
  Connection& connection = open_[descriptor];
  // The number is free again, so its connection is closed.
  if (connection.inode != 0) Forget(descriptor, connection);
  connection = {
      .inode = InodeOf(descriptor), .host = host, .peer = PeerOf(peer)};
  by_peer_[connection.peer] = descriptor;
  ++of_host_[host];
  return absl::OkStatus();
}

absl::Status ConnectionTable::Room(const std::string& host,
                                   absl::Time now) const {
  const auto banned = banned_until_.find(host);
  if (banned != banned_until_.end() && now < banned->second) {
    return absl::ResourceExhaustedError(
        absl::StrCat(host, " has offended and may connect again in ",
                     absl::ToInt64Seconds(banned->second - now) + 1, " s"));
  }
  const auto of_host = of_host_.find(host);
  if (of_host != of_host_.end() &&
      of_host->second >= limits_.from_one_address) {
    return absl::ResourceExhaustedError(
        absl::StrCat(host, " has ", of_host->second, " connections already"));
  }
  if (open_.size() >= static_cast<size_t>(limits_.in_all)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", open_.size(), " connections already"));
  }
  return absl::OkStatus();
}

void ConnectionTable::Explain(absl::string_view peer, int64_t received,
                              int64_t sent) {
  const std::string key = PeerOf(peer);
  absl::MutexLock lock(&mu_);
  const auto it = by_peer_.find(key);
  if (it == by_peer_.end()) return;
  open_[it->second].explained +=
      received + (received + sent) / kShare + kPerMessage;
}

void ConnectionTable::BeginReading(absl::string_view peer) {
  const std::string key = PeerOf(peer);
  absl::MutexLock lock(&mu_);
  const auto it = by_peer_.find(key);
  if (it != by_peer_.end()) ++open_[it->second].reading;
}

void ConnectionTable::EndReading(absl::string_view peer) {
  const std::string key = PeerOf(peer);
  absl::MutexLock lock(&mu_);
  const auto it = by_peer_.find(key);
  if (it == by_peer_.end()) return;
  Connection& connection = open_[it->second];
  if (--connection.reading > 0) return;
  connection.received = ReceivedOn(it->second);
  connection.explained = connection.hoard = 0;
}

void ConnectionTable::Accuse(absl::string_view peer, absl::string_view did) {
  const std::string key = PeerOf(peer);
  absl::MutexLock lock(&mu_);
  const auto it = by_peer_.find(key);
  if (it != by_peer_.end()) open_[it->second].did = std::string(did);
}

absl::Status ConnectionTable::ShutOffenders(absl::Time now) {
  absl::Status shut;
  absl::MutexLock lock(&mu_);
  if (looked_ == absl::InfinitePast()) looked_ = now;
  const absl::Duration passed = now - std::exchange(looked_, now);
  const auto of_pings = static_cast<int64_t>(
      kPerSecond * absl::ToDoubleSeconds(std::min(passed, kMostPassed)));
  absl::erase_if(banned_until_,
                 [now](const auto& entry) { return entry.second <= now; });
  for (auto& [descriptor, connection] : open_) {
    const int64_t received = ReceivedOn(descriptor);
    const int64_t sent =
        received - std::exchange(connection.received, received);
    const int64_t explained = std::exchange(connection.explained, 0) + of_pings;
    connection.hoard =
        std::max<int64_t>(0, connection.hoard + sent - explained);
    if (connection.hoard > limits_.hoard) {
      connection.did =
          absl::StrCat("has sent ", connection.hoard,
                       " bytes that no message has come of, expected at most ",
                       limits_.hoard);
    }
    // If it is closed, its number may be somebody else's.
    if (connection.did.empty() || InodeOf(descriptor) != connection.inode) {
      continue;
    }
    shutdown(descriptor, SHUT_RDWR);
    banned_until_[connection.host] = now + kBan;
    shut = absl::ResourceExhaustedError(
        absl::StrCat(connection.peer, " ", connection.did));
    connection.did.clear();
    connection.hoard = 0;
  }
  return shut;
}

void ConnectionTable::Sweep() {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto closed = it++;
    if (InodeOf(closed->first) == closed->second.inode) continue;
    Forget(closed->first, closed->second);
    open_.erase(closed);
  }
}

void ConnectionTable::Forget(int descriptor, const Connection& connection) {
  const auto peer = by_peer_.find(connection.peer);
  // It may have come again from the same port.
  if (peer != by_peer_.end() && peer->second == descriptor)
    by_peer_.erase(peer);
  const auto host = of_host_.find(connection.host);
  if (--host->second == 0) of_host_.erase(host);
}

}  // namespace sluice

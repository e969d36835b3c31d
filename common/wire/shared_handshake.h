#ifndef SLUICE_COMMON_WIRE_SHARED_HANDSHAKE_H_
#define SLUICE_COMMON_WIRE_SHARED_HANDSHAKE_H_

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "common/status_macros.h"

// How two processes of one host come to share memory. A worker connects to the
// Unix socket (SOCK_SEQPACKET) that a shard has named in its ShareReply, and
// sends one message, SharedHello, with the descriptors of its memories. The
// shard answers with SharedWelcome and the descriptor of its own, or closes the
// socket. Nothing more is said; the link lasts as long as the socket.
// docs/protocol.md has the bytes.
namespace sluice {

inline constexpr int kSharedSecretBytes = 16;

// The boot and the network namespace of this process: names of abstract sockets
// are of these alone. So a worker that has the same connects to the shard that
// it was told of, or to nobody, and not to whoever has taken that name on its
// own host. Empty: the system does not tell.
inline std::string HostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat space = {};
  if (!std::getline(file, boot) || stat("/proc/self/ns/net", &space) != 0) {
    return "";
  }
  return boot + "/" + std::to_string(space.st_ino);
}

struct SharedHello {
  uint8_t secret[kSharedSecretBytes] = {};
};

struct SharedWelcome {
  uint64_t link = 0;
  // The shard's memory as SlotGeometry says.
  uint64_t slots = 0;
  uint64_t slot_floats = 0;
};

// The address of a socket in the abstract namespace. REQUIRES: it fits.
struct AbstractAddress {
  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    SLUICE_CHECK(name.size() + 1 <= sizeof address.sun_path);
    name.copy(address.sun_path + 1, name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                  name.size());
  }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  sockaddr_un address = {};
  socklen_t size = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_SHARED_HANDSHAKE_H_

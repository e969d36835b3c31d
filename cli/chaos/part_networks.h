#ifndef SLUICE_CLI_CHAOS_PART_NETWORKS_H_
#define SLUICE_CLI_CHAOS_PART_NETWORKS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// A network for every part of a run on this machine, as if each were a host of
// its own: a network namespace with an address and a link to one bridge, whose
// namespace is this thread's. A link that is cut drops whatever is sent, and
// nobody is told: a pulled cable. All of it ends with this process and its
// children.
//
// Not thread-safe: call from the thread that made it.
class PartNetworks {
 public:
  // Moves this thread, and with it the threads and processes it will start,
  // into a namespace of its own, where only the parts `names` can be reached;
  // for who is not root as root of a user namespace. Writes what it has done to
  // files in `folder`. REQUIRES: this thread is the process's only one.
  //
  // kUnavailable: the system does not let it, or has no ip (iproute2) or
  // nsenter; says what.
  static absl::StatusOr<std::unique_ptr<PartNetworks>> Create(
      const std::vector<std::string>& names, const std::string& folder);
  ~PartNetworks();
  PartNetworks(const PartNetworks&) = delete;
  PartNetworks& operator=(const PartNetworks&) = delete;

  // The address of a part. REQUIRES, as in the others: it was named.
  std::string AddressOf(const std::string& name) const;
  // The file of its namespace, for nsenter; as long as this lives.
  std::string PathOf(const std::string& name) const;

  // Moves this thread into the part's network, and back.
  absl::Status Enter(const std::string& name);
  absl::Status Leave();

  absl::Status Cut(const std::string& name);
  absl::Status Heal(const std::string& name);

 private:
  struct Network {
    int fd = -1;          // Of its namespace.
    std::string link;     // The bridge's end.
    std::string address;  // "10.77.0.2"
  };

  PartNetworks() = default;

  absl::Status Add(const std::string& name);

  int bridge_ = -1;  // Namespace of the bridge.
  std::map<std::string, Network> networks_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_PART_NETWORKS_H_

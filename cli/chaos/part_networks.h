#ifndef SLUICE_CLI_CHAOS_PART_NETWORKS_H_
#define SLUICE_CLI_CHAOS_PART_NETWORKS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// A network for every part of a run on this machine, as if each part were a
// host of its own. A part has a network namespace with an address, and a link
// to a bridge in this thread's namespace. Cutting a link is like pulling a
// cable: it drops whatever is sent, and nobody is told. All of it is gone when
// this process and its children have ended.
//
// Not thread-safe: call from the thread that made it.
class PartNetworks {
 public:
  // Moves this thread, and so the threads and processes that it starts later,
  // into a new namespace, from which only the parts `names` can be reached. If
  // the user is not root, it also becomes root of a new user namespace. Writes
  // what it has done to files in `folder`. REQUIRES: this thread is the
  // process's only one.
  //
  // kUnavailable: the system refuses, or has no ip (iproute2) or nsenter.
  static absl::StatusOr<std::unique_ptr<PartNetworks>> Create(
      const std::vector<std::string>& names, const std::string& folder);
  ~PartNetworks();
  PartNetworks(const PartNetworks&) = delete;
  PartNetworks& operator=(const PartNetworks&) = delete;

  // The address of a part. REQUIRES here and below: `name` is in `names`.
  std::string AddressOf(const std::string& name) const;
  // The file of its namespace, for nsenter. Valid while this object lives.
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

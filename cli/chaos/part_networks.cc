// One namespace for this thread, with a bridge, and one for each part:
//
//   this thread    parts, a bridge      10.77.0.1, with the ends part1, part2
//   worker-0       eth0 (part1's peer)  10.77.0.3
//   worker-1       eth0 (part2's peer)  10.77.0.4
//
// Cut sets the bridge's end of a link down: the part's own end stays as it is,
// so its sockets see packets vanish, not an error. Only root may do all this;
// anybody else becomes root of a user namespace first, which may hold networks
// but not touch the machine's. Nothing has to be cleaned up, since namespaces
// end with the last process and file descriptor that hold them.
#include "cli/chaos/part_networks.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/launch/child_process.h"
#include "cli/launch/signal_wait.h"
#include "cli/run_folder.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr char kIp[] = "/usr/sbin/ip";
constexpr char kNsenter[] = "/usr/bin/nsenter";  // For WrapDaemons.
// A few links take it milliseconds.
constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr char kOwnEnd[] = "eth0";
constexpr char kBridge[] = "parts";

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(
      absl::StrCat("network namespaces: ", what, ": ", strerror(errno)));
}

absl::Status WriteTo(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file ? absl::OkStatus() : SystemError(absl::StrCat("writing ", path));
}

// Moves this thread into a new namespace.
absl::Status MoveToOwn() {
  const std::string uid = absl::StrCat("0 ", geteuid(), " 1");
  const std::string gid = absl::StrCat("0 ", getegid(), " 1");
  if (unshare(CLONE_NEWNET) == 0) return absl::OkStatus();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return SystemError("unshare, also as root of a user namespace");
  }
  SLUICE_RETURN_IF_ERROR(WriteTo("/proc/self/setgroups", "deny"));
  SLUICE_RETURN_IF_ERROR(WriteTo("/proc/self/uid_map", uid));
  return WriteTo("/proc/self/gid_map", gid);
}

absl::StatusOr<int> OpenCurrent() {
  const int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("opening /proc/thread-self/ns/net");
  return fd;
}

// Sets an interface of the current namespace up or down.
absl::Status SetLink(const std::string& name, bool up) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request = {};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  if (up) request.ifr_flags = IFF_UP;
  const bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  const absl::Status status =
      done ? absl::OkStatus()
           : SystemError(absl::StrCat("setting ", name, up ? " up" : " down"));
  if (fd >= 0) close(fd);
  return status;
}

// Runs `lines` of ip, in the current namespace.
absl::Status RunIp(const std::string& lines, const std::string& folder) {
  const std::string batch = absl::StrCat(folder, "/networks.ip");
  const std::string log = absl::StrCat(folder, "/networks.log");
  SLUICE_RETURN_IF_ERROR(WriteFileAtomically(batch, {lines}));
  SignalWait signals;
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> ip,
                          ChildProcess::Start({kIp, "-batch", batch}, log));
  std::optional<ChildExit> exit;
  while (!(exit = ip->Poll()).has_value()) {
    if (signals.WaitFor(kPatience) != SIGCHLD) break;
  }
  if (exit.has_value() && exit->ok()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(kIp, " -batch ", batch, ": ",
                   exit.has_value() ? exit->ToString() : "was stopped", "\n",
                   TailOfFile(log, /*lines=*/8, "  ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartNetworks>> PartNetworks::Create(
    const std::vector<std::string>& names, const std::string& folder) {
  for (const char* program : {kIp, kNsenter}) {
    if (access(program, X_OK) != 0) return SystemError(program);
  }
  SLUICE_RETURN_IF_ERROR(MoveToOwn());
  std::unique_ptr<PartNetworks> networks(new PartNetworks());
  SLUICE_ASSIGN_OR_RETURN(networks->bridge_, OpenCurrent());
  for (const std::string& name : names) {
    SLUICE_RETURN_IF_ERROR(networks->Add(name));
  }
  std::string lines = absl::StrCat("link set lo up\nlink add ", kBridge,
                                   " type bridge\naddr add 10.77.0.1/16 dev ",
                                   kBridge, "\nlink set ", kBridge, " up\n");
  for (const auto& [name, network] : networks->networks_) {
    absl::StrAppend(&lines, "link add ", network.link, " type veth peer name ",
                    kOwnEnd, " netns /proc/", getpid(), "/fd/", network.fd,
                    "\nlink set ", network.link, " master ", kBridge, " up\n");
  }
  SLUICE_RETURN_IF_ERROR(RunIp(lines, folder));
  for (const auto& [name, network] : networks->networks_) {
    SLUICE_RETURN_IF_ERROR(networks->Enter(name));
    const absl::Status up = RunIp(
        absl::StrCat("link set lo up\naddr add ", network.address, "/16 dev ",
                     kOwnEnd, "\nlink set ", kOwnEnd, " up\n"),
        folder);
    SLUICE_RETURN_IF_ERROR(networks->Leave());
    SLUICE_RETURN_IF_ERROR(up);
  }
  return networks;
}

absl::Status PartNetworks::Add(const std::string& name) {
  constexpr int kHostsPerByte = 250;
  const int index = static_cast<int>(networks_.size()) + 1;
  Network& network = networks_[name];
  network.link = absl::StrCat("part", index);
  network.address = absl::StrCat("10.77.", index / kHostsPerByte, ".",
                                 index % kHostsPerByte + 2);
  if (unshare(CLONE_NEWNET) != 0) return SystemError("unshare");
  SLUICE_ASSIGN_OR_RETURN(network.fd, OpenCurrent());
  return Leave();
}

PartNetworks::~PartNetworks() {
  for (const auto& [name, network] : networks_) {
    if (network.fd >= 0) close(network.fd);
  }
  if (bridge_ >= 0) close(bridge_);
}

std::string PartNetworks::AddressOf(const std::string& name) const {
  return networks_.at(name).address;
}

std::string PartNetworks::PathOf(const std::string& name) const {
  return absl::StrCat("/proc/", getpid(), "/fd/", networks_.at(name).fd);
}

absl::Status PartNetworks::Enter(const std::string& name) {
  return setns(networks_.at(name).fd, CLONE_NEWNET) == 0
             ? absl::OkStatus()
             : SystemError(absl::StrCat("entering that of ", name));
}

absl::Status PartNetworks::Leave() {
  return setns(bridge_, CLONE_NEWNET) == 0 ? absl::OkStatus()
                                           : SystemError("leaving one");
}

absl::Status PartNetworks::Cut(const std::string& name) {
  return SetLink(networks_.at(name).link, /*up=*/false);
}

absl::Status PartNetworks::Heal(const std::string& name) {
  return SetLink(networks_.at(name).link, /*up=*/true);
}

}  // namespace sluice

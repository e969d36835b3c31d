#include "cli/report/job/doctor.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/files/file_operations.h"
#include "common/host_port.h"
#include "common/process/descriptor_limit.h"
#include "common/rpc/listening_sockets.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// Connections of a job: every worker has one to every shard, and the lead one
// to everybody. This many daemons in one job are a large one.
constexpr int64_t kFewDescriptors = 256;
constexpr int64_t kManyDescriptors = 4096;

Finding Descriptors() {
  const int64_t most = GetDescriptorLimit().hard;
  Finding finding{.what = "open files",
                  .found = absl::StrCat("a process may have ", most)};
  if (most >= kManyDescriptors) return finding;
  finding.level = most < kFewDescriptors ? Level::kBad : Level::kNote;
  finding.advice = absl::StrCat(
      "a shard has one for each worker's connection: raise the hard limit "
      "(ulimit -Hn, systemd's LimitNOFILE) to ",
      kManyDescriptors);
  return finding;
}

Finding Processors() {
  Finding finding{.what = "processor"};
  const unsigned threads = std::thread::hardware_concurrency();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    finding.level = Level::kBad;
    finding.found = "has no AVX2";
    finding.advice = "workers compute with AVX2 or AVX-512";
    return finding;
  }
  finding.found = absl::StrCat(
      threads, " threads, ",
      __builtin_cpu_supports("avx512f") ? "AVX2 and AVX-512" : "AVX2");
  return finding;
}

Finding SharedMemory() {
  Finding finding{.what = "shared memory"};
  const int file = memfd_create("sluice", 0);
  if (file < 0) {
    finding.level = Level::kNote;
    finding.found = absl::StrCat("memfd_create: ", std::strerror(errno));
    finding.advice = "PyTorch models get their weights through it";
    return finding;
  }
  close(file);
  finding.found = "files in memory can be made";
  return finding;
}

Finding Driver() {
  Finding finding{.what = "GPU"};
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    finding.found = "no NVIDIA driver: workers compute on the CPU";
    return finding;
  }
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  int error = init == nullptr || count == nullptr ? -1 : init(0);
  if (error == 0) error = count(&devices);
  if (error == 0 && devices > 0) {
    finding.found = absl::StrCat("a driver, and ", devices, " devices");
    return finding;
  }
  finding.level = Level::kNote;
  finding.found =
      absl::StrCat("a driver that names no device (error ", error, ")");
  finding.advice = "nvidia-smi should list them; a container needs --gpus";
  return finding;
}

Finding SystemClock() {
  Finding finding{.what = "clock"};
  timex state = {};
  const int result = adjtimex(&state);
  if (result == TIME_ERROR || result < 0) {
    finding.level = Level::kNote;
    finding.found = "nobody says that it is synchronised";
    finding.advice =
        "certificates are valid between two times: run chrony or "
        "systemd-timesyncd";
    return finding;
  }
  finding.found = "synchronised";
  return finding;
}

// The hosts' names are in the certificates, and daemons tell each other theirs.
Finding OwnName() {
  Finding finding{.what = "name"};
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name, nullptr, &hints, &found);
  if (error != 0) {
    finding.level = Level::kNote;
    finding.found = absl::StrCat(name, ": ", gai_strerror(error));
    finding.advice =
        "where other hosts are to reach this one by its name, it must be in "
        "DNS or /etc/hosts; else give --advertise an address";
    return finding;
  }
  freeaddrinfo(found);
  finding.found = absl::StrCat(name, " leads to an address");
  return finding;
}

Finding Ports() {
  Finding finding{.what = "ports"};
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    const auto sockets = OpenListeningSockets(address);
    if (!sockets.ok()) {
      finding.level = Level::kBad;
      finding.found = std::string(sockets.status().message());
      finding.advice = "every daemon listens on a port";
      return finding;
    }
    for (const int socket : *sockets) close(socket);
  }
  finding.found = "can be listened on";
  return finding;
}

// The folder or its first parent that exists.
fs::path Existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

absl::Status WriteAndSync(const std::string& path, const std::string& bytes) {
  FileOperations* files = FileOperations::Real();
  const absl::StatusOr<int> file = files->Create(path);
  if (!file.ok()) return file.status();
  // First, so that nothing stays where somebody loses patience.
  absl::Status status = files->Remove(path);
  if (status.ok()) status = files->Write(*file, path, bytes);
  if (status.ok()) status = files->Sync(*file, path);
  status.Update(files->Close(*file, path));
  return status;
}

Finding Disk(const std::string& run_dir) {
  constexpr int kMiB = 16;
  constexpr uintmax_t kLittleRoom = uintmax_t{1} << 30;
  constexpr absl::Duration kSlow = absl::Seconds(2);
  const fs::path folder = Existing(run_dir);
  Finding finding{.what = "disk"};
  const absl::Time start = Clock::Real()->Now();
  const absl::Status written =
      WriteAndSync((folder / ".sluice-doctor").string(),
                   std::string(size_t{kMiB} << 20, 'x'));
  const absl::Duration took = Clock::Real()->Now() - start;
  if (!written.ok()) {
    finding.level = Level::kBad;
    finding.found = std::string(written.message());
    finding.advice = "the lead writes the run's log and its checkpoints there";
    return finding;
  }
  std::error_code error;
  const fs::space_info room = fs::space(folder, error);
  finding.found = absl::StrFormat(
      "%s: %d MiB written and synced in %.2f s, %d MiB free", folder.string(),
      kMiB, absl::ToDoubleSeconds(took), room.available >> 20);
  if (room.available < kLittleRoom) {
    finding.level = Level::kNote;
    finding.advice = "a checkpoint has the weights and the optimizer's state";
  } else if (took > kSlow) {
    finding.level = Level::kNote;
    finding.advice = "a checkpoint waits for that: see checkpoint.every_s";
  }
  return finding;
}

Finding Programs(const std::string& bin_dir) {
  Finding finding{.what = "programs", .found = absl::StrCat("in ", bin_dir)};
  for (const char* name :
       {"ps_server/ps_server", "worker/worker", "worker/evaluator"}) {
    const std::string path = absl::StrCat(bin_dir, "/", name);
    if (access(path.c_str(), X_OK) == 0) continue;
    finding.level = Level::kBad;
    finding.found = absl::StrCat(path, ": ", std::strerror(errno));
    finding.advice = "./sluice build makes them; `train` starts them";
    break;
  }
  return finding;
}

std::string WhyNotConnected(const addrinfo& address) {
  constexpr int kPatienceMs = 5000;
  const int peer = socket(address.ai_family,
                          address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                          address.ai_protocol);
  if (peer < 0) return std::strerror(errno);
  const absl::Cleanup closes = [peer] { close(peer); };
  if (connect(peer, address.ai_addr, address.ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd writable = {.fd = peer, .events = POLLOUT, .revents = 0};
  if (poll(&writable, 1, kPatienceMs) == 0) return "no answer within 5 s";
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(peer, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

Finding Reach(const std::string& address) {
  Finding finding{.level = Level::kBad, .what = "reach"};
  const absl::StatusOr<HostPort> at = ParseHostPort(address);
  if (!at.ok()) {
    finding.found = std::string(at.status().message());
    finding.advice = "expected host:port";
    return finding;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(at->host.c_str(),
                                absl::StrCat(at->port).c_str(), &hints, &found);
  if (error != 0) {
    finding.found = absl::StrCat(address, ": ", gai_strerror(error));
    finding.advice = "the name is neither in DNS nor in /etc/hosts";
    return finding;
  }
  const absl::Cleanup frees = [found] { freeaddrinfo(found); };
  std::string why;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    why = WhyNotConnected(*one);
    if (why.empty()) {
      return {.what = "reach", .found = absl::StrCat(address, " answers")};
    }
  }
  finding.found = absl::StrCat(address, ": ", why);
  finding.advice =
      "is a daemon listening there, on more than its loopback, and does no "
      "firewall drop the connection?";
  return finding;
}

const char* LevelName(Level level) {
  switch (level) {
    case Level::kGood:
      return "good";
    case Level::kNote:
      return "note";
    case Level::kBad:
      return "bad";
  }
  return "";
}

}  // namespace

std::vector<Finding> ExamineMachine(const DoctorOptions& options) {
  std::vector<Finding> findings = {Processors(),
                                   Driver(),
                                   SharedMemory(),
                                   Descriptors(),
                                   Disk(options.run_dir),
                                   SystemClock(),
                                   OwnName(),
                                   Ports(),
                                   Programs(options.bin_dir)};
  for (const std::string& address : options.reach) {
    findings.push_back(Reach(address));
  }
  return findings;
}

std::string DescribeFindings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-5s %-14s %s\n", LevelName(finding.level),
                          finding.what, finding.found);
    if (finding.advice.empty()) continue;
    absl::StrAppendFormat(&text, "%20s %s\n", "", finding.advice);
  }
  return text;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    json.push_back({{"level", LevelName(finding.level)},
                    {"what", finding.what},
                    {"found", finding.found},
                    {"advice", finding.advice}});
  }
  return JsonText(json, 2) + "\n";
}

bool AnyBad(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.level == Level::kBad; });
}

}  // namespace sluice

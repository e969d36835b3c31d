// One thread polls an eventfd, and also the listening sockets while a server
// takes connections (Serve to Rest). The eventfd wakes it when that changes;
// ten times a second it looks for connections that offend.
//
// Running out of file descriptors must not turn the poll into a busy loop: a
// socket with a waiting connection is always ready, even if accept fails. So a
// socket from which nothing could be accepted is polled again after a pause of
// 100 ms. To refuse a connection in that state the thread closes its spare
// descriptor, accepts with the freed one, closes the connection and opens the
// spare again. The peer then sees a closed connection instead of a hang.
//
// Example with a limit of 1024 descriptors: connections whose descriptor would
// be 992 or above are closed at once, because the last 32 are reserved for the
// process's own files. If the process has used up these as well, accept fails
// with EMFILE and the spare is used.
#include "common/rpc/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/process/descriptor_limit.h"
#include "common/process/named_thread.h"
#include "common/rpc/listening_sockets.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

constexpr int kPauseMs = 100;
// One line is enough for a person; a line for each of a thousand workers would
// say nothing more.
constexpr absl::Duration kLineEvery = absl::Seconds(10);
// Left for the process's own files: a checkpoint, a log, gRPC's wake-up files.
constexpr int64_t kReserved = 32;

std::string NoDescriptor() {
  return absl::StrCat("no file descriptor is free for it, of ",
                      GetDescriptorLimit().soft,
                      " that this process may have (ulimit -n)");
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(
    const std::string& address, ConnectionLimits limits) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<int> sockets,
                          OpenListeningSockets(address));
  const int port = PortOfSocket(sockets.front());
  return std::unique_ptr<Listener>(
      new Listener(std::move(sockets), port, limits));
}

Listener::Listener(std::vector<int> sockets, int port, ConnectionLimits limits)
    : sockets_(std::move(sockets)),
      port_(port),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      spare_(OpenSpare()),
      line_(kLineEvery),
      table_(limits),
      thread_(StartThread("accept", [this] { Run(); })) {}

Listener::~Listener() {
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
  }
  Wake();
  thread_.join();
  for (const int socket : sockets_) close(socket);
  if (spare_ >= 0) close(spare_);
  close(wake_);
}

std::unique_ptr<Listener::Connections> Listener::AddTo(
    grpc::ServerBuilder* builder,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  return builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Listener::Serve(std::unique_ptr<Connections> connections,
                     NewConnections* fresh) {
  {
    absl::MutexLock lock(&mu_);
    connections_ = std::move(connections);
    fresh_ = fresh;
  }
  Wake();
}

void Listener::Rest() {
  {
    absl::MutexLock lock(&mu_);
    connections_.reset();
    fresh_ = nullptr;
  }
  Wake();
}

void Listener::Wake() {
  const uint64_t one = 1;
  // This fails only if the counter overflows, after 2^64 wake-ups.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void Listener::Run() {
  bool pauses = false;
  absl::Time looked = Clock::Real()->Now();
  while (true) {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}};
    {
      absl::MutexLock lock(&mu_);
      if (closing_) return;
      if (connections_ != nullptr && !pauses) {
        for (const int socket : sockets_) polled.push_back({socket, POLLIN, 0});
      }
    }
    poll(polled.data(), polled.size(), kPauseMs);
    pauses = false;
    const absl::Time now = Clock::Real()->Now();
    if (now - looked >= absl::Milliseconds(kPauseMs)) {
      looked = now;
      const absl::Status shut = table_.ShutOffenders(now);
      if (!shut.ok()) CountRefused(std::string(shut.message()));
    }
    uint64_t times;
    [[maybe_unused]] const ssize_t woken = read(wake_, &times, sizeof(times));
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) pauses |= !Accept(polled[i].fd);
    }
  }
}

bool Listener::Accept(int socket) {
  while (true) {
    sockaddr_in6 peer = {};
    socklen_t size = sizeof(peer);
    const int connection = accept4(socket, reinterpret_cast<sockaddr*>(&peer),
                                   &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      HandOver(socket, connection, peer);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return true;
      case EMFILE:
      case ENFILE:
        if (!AcceptAndRefuse(socket)) return false;
        break;
      case EINTR:
      case EPERM:
      case EPROTO:
      case ECONNABORTED:
        break;  // The connection is gone already.
      default:
        return false;
    }
  }
}

bool Listener::AcceptAndRefuse(int socket) {
  if (spare_ >= 0) close(spare_);
  const int connection = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) {
    close(connection);
    CountRefused(NoDescriptor());
  }
  spare_ = OpenSpare();
  return connection >= 0 && spare_ >= 0;
}

void Listener::HandOver(int socket, int connection, const sockaddr_in6& peer) {
  // The kernel gives the lowest free number, so this number tells how many are
  // used.
  const int64_t limit = GetDescriptorLimit().soft;
  if (connection >= limit - std::min(kReserved, limit / 4)) {
    close(connection);
    return CountRefused(NoDescriptor());
  }
  const absl::Status added = table_.Add(connection, peer, Clock::Real()->Now());
  if (!added.ok()) {
    close(connection);
    return CountRefused(std::string(added.message()));
  }
  absl::MutexLock lock(&mu_);
  if (connections_ == nullptr) {  // Rest was called after the poll.
    close(connection);
    return;
  }
  Connections::NewConnectionParameters parameters;
  parameters.listener_fd = socket;
  parameters.fd = connection;
  connections_->HandleNewConnection(&parameters);
  if (fresh_ != nullptr) fresh_->Came();
}

void Listener::CountRefused(const std::string& reason) {
  ++refused_;
  if (!line_.Due(Clock::Real()->Now())) return;
  spdlog::error("event=connection_refused reason={} refused_total={}",
                LogValue(reason), refused_);
}

}  // namespace sluice

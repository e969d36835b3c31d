// One thread waits for what comes on any of the sockets: a guest's hello, and
// then only its end. Whoever stages a chunk of a link has a reference to its
// memory, so a link that ends meanwhile takes nothing from under it.
#include "ps_server/shard/shared_links.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/process/named_thread.h"
#include "common/secret.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "common/wire/shared_handshake.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// Those that have not said their secret yet. They may be anybody's.
constexpr size_t kMostStrangers = 64;
constexpr int kPauseMs = 100;

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("shared memory: ", what, ": ", strerror(errno)));
}

bool Await(const Descriptor& events, const Descriptor& of) {
  epoll_event event = {.events = EPOLLIN, .data = {.fd = of.number()}};
  return epoll_ctl(events.number(), EPOLL_CTL_ADD, of.number(), &event) == 0;
}

uint64_t DrawLink() {
  const std::string bytes = DrawSecret(sizeof(uint64_t));
  uint64_t link;
  std::memcpy(&link, bytes.data(), sizeof link);
  return link | 1;  // 0 is none.
}

}  // namespace

struct SharedLinks::Guest {
  Descriptor socket;
  int64_t came = 0;   // Their order.
  uint64_t link = 0;  // 0: a stranger.
};

absl::StatusOr<absl::Span<const uint8_t>> SharedLink::Find(
    const SharedFloats& floats) const {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t memory = floats.memory;
  if (memory >= 0 && memory < static_cast<int64_t>(memories_.size())) {
    const int64_t there = memories_[memory].bytes() / kFloat;
    if (floats.at >= 0 && floats.count >= 0 && floats.at <= there &&
        floats.count <= there - floats.at) {
      return absl::MakeConstSpan(memories_[memory].data() + floats.at * kFloat,
                                 floats.count * kFloat);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "floats ", floats.at, " and the ", floats.count, " from there of memory ",
      memory, " are not among those of the ", memories_.size(),
      " memories that this link shares"));
}

absl::StatusOr<std::unique_ptr<SharedLinks>> SharedLinks::Open(
    const SharedChunks* weights, int64_t most_bytes) {
  constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const std::string name =
      absl::StrCat("sluice-", absl::BytesToHexString(DrawSecret(16)));
  const AbstractAddress address(name);
  Descriptor socket(::socket(AF_UNIX, kType, 0));
  if (!socket.valid() ||
      bind(socket.number(), address.get(), address.size) != 0 ||
      listen(socket.number(), SOMAXCONN) != 0) {
    return SystemError("socket");
  }
  Descriptor stop(eventfd(0, EFD_CLOEXEC)),
      events(epoll_create1(EPOLL_CLOEXEC));
  if (!stop.valid() || !events.valid() || !Await(events, socket) ||
      !Await(events, stop)) {
    return SystemError("epoll");
  }
  return std::unique_ptr<SharedLinks>(
      new SharedLinks(weights, most_bytes, name, std::move(socket),
                      std::move(stop), std::move(events)));
}

SharedLinks::SharedLinks(const SharedChunks* weights, int64_t most_bytes,
                         std::string name, Descriptor socket, Descriptor stop,
                         Descriptor events)
    : weights_(*weights),
      most_bytes_(most_bytes),
      name_(std::move(name)),
      socket_(std::move(socket)),
      stop_(std::move(stop)),
      events_(std::move(events)),
      thread_(StartThread("shared links", [this] { Serve(); })) {}

SharedLinks::~SharedLinks() {
  const uint64_t one = 1;
  SLUICE_CHECK(write(stop_.number(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void SharedLinks::Serve() {
  while (true) {
    epoll_event event;
    const int ready = epoll_wait(events_.number(), &event, 1, -1);
    if (ready < 0 && errno == EINTR) continue;
    SLUICE_CHECK(ready == 1);
    if (event.data.fd == stop_.number()) return;
    if (event.data.fd == socket_.number()) {
      Accept();
      continue;
    }
    const auto guest = guests_.find(event.data.fd);
    if (Hear(guest->second.get())) continue;
    if (const uint64_t link = guest->second->link; link != 0) {
      absl::MutexLock lock(&mu_);
      links_.erase(link);
    }
    guests_.erase(guest);  // Which closes its socket.
  }
}

void SharedLinks::Accept() {
  Descriptor socket(accept4(socket_.number(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // Where no descriptor is left it is still there, and found again at once.
    pollfd stop = {.fd = stop_.number(), .events = POLLIN, .revents = 0};
    poll(&stop, 1, kPauseMs);
    return;
  }
  MakeRoom();
  if (!Await(events_, socket)) return;
  const int number = socket.number();
  guests_[number] = std::make_unique<Guest>(
      Guest{.socket = std::move(socket), .came = ++came_});
}

void SharedLinks::MakeRoom() {
  size_t strangers = 0;
  auto first = guests_.end();
  for (auto guest = guests_.begin(); guest != guests_.end(); ++guest) {
    if (guest->second->link != 0) continue;
    ++strangers;
    if (first == guests_.end() || guest->second->came < first->second->came) {
      first = guest;
    }
  }
  if (strangers >= kMostStrangers) guests_.erase(first);
}

bool SharedLinks::Hear(Guest* guest) {
  if (guest->link != 0) return false;  // Nothing more is to be said.
  SharedHello hello;
  auto descriptors = ReceiveWithDescriptors(
      guest->socket.number(),
      {reinterpret_cast<uint8_t*>(&hello), sizeof hello});
  if (!descriptors.ok()) return false;
  std::string holder;
  {
    absl::MutexLock lock(&mu_);
    auto invited = invited_.extract(std::string(
        reinterpret_cast<const char*>(hello.secret), sizeof hello.secret));
    if (invited.empty() || links_.size() >= kMostLinks) return false;
    holder = std::move(invited.mapped());
  }
  std::vector<SharedView> memories;
  for (const Descriptor& descriptor : *descriptors) {
    auto memory = SharedView::Open(descriptor, most_bytes_);
    if (!memory.ok()) {
      spdlog::warn("event=shared_memory_refused reason={}",
                   LogValue(memory.status().message()));
      return false;
    }
    memories.push_back(*std::move(memory));
  }
  guest->link = DrawLink();
  {
    absl::MutexLock lock(&mu_);
    links_[guest->link] = std::make_shared<const SharedLink>(
        std::move(holder), std::move(memories));
  }
  const SharedWelcome welcome = {
      .link = guest->link,
      .slots = static_cast<uint64_t>(weights_.geometry().slots),
      .slot_floats = static_cast<uint64_t>(weights_.geometry().slot_floats)};
  const int own[] = {weights_.descriptor()};
  return SendWithDescriptors(
      guest->socket.number(),
      {reinterpret_cast<const uint8_t*>(&welcome), sizeof welcome}, own);
}

std::string SharedLinks::Invite(absl::string_view holder) {
  std::string secret = DrawSecret(kSharedSecretBytes);
  absl::MutexLock lock(&mu_);
  invited_.emplace(secret, holder);
  secrets_.push_back(secret);
  if (secrets_.size() > kMostInvited) {
    invited_.erase(secrets_.front());
    secrets_.pop_front();
  }
  return secret;
}

std::shared_ptr<const SharedLink> SharedLinks::Find(
    uint64_t link, absl::string_view holder) const {
  absl::MutexLock lock(&mu_);
  const auto found = links_.find(link);
  return found == links_.end() || found->second->holder() != holder
             ? nullptr
             : found->second;
}

int SharedLinks::count() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(links_.size());
}

}  // namespace sluice

// How worker and shard of one host come to share memory:
//
//   worker                          shard
//   Share (gRPC)          ------>
//                         <------   host, name of a socket, one-time secret
//   is this my host? connects to the socket
//   secret, its memories  ------>   is the secret one that I gave?
//                         <------   number of the link, geometry, its memory
//
// A host is a boot of a kernel and a network namespace (HostIdentity): within
// these the abstract name is the shard's. Nothing that comes over the socket is
// believed: descriptors must be of memory whose size is sealed (SharedView),
// and large enough for the geometry. From then on the socket carries nothing.
// Either end sees by its end that the other process is gone.
#include "worker/exchange/shared_shard.h"

#include <grpcpp/client_context.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/shared_handshake.h"
#include "proto/exchange.grpc.pb.h"

namespace sluice {
namespace {

// So that no sum of their bytes overflows.
constexpr uint64_t kMostSlots = 1 << 30;
constexpr uint64_t kMostSlotFloats = 1 << 26;

absl::StatusOr<proto::ShareReply> Ask(
    const std::shared_ptr<grpc::Channel>& channel, absl::Duration patience) {
  grpc::ClientContext context;
  context.set_deadline(FromNow(patience));
  proto::ShareReply reply;
  SLUICE_RETURN_IF_ERROR(FromGrpcStatus(
      proto::Exchange::NewStub(channel)->Share(&context, {}, &reply)));
  if (reply.secret().size() == kSharedSecretBytes &&
      reply.socket().size() < 100) {
    return reply;
  }
  return absl::DataLossError(
      absl::StrCat("the answer has a secret of ", reply.secret().size(),
                   " bytes, expected ", kSharedSecretBytes));
}

absl::StatusOr<Descriptor> Connect(const std::string& name,
                                   absl::Duration most) {
  Descriptor connected(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const AbstractAddress address(name);
  const timeval patience = absl::ToTimeval(most);
  if (connected.valid() &&
      setsockopt(connected.number(), SOL_SOCKET, SO_RCVTIMEO, &patience,
                 sizeof patience) == 0 &&
      setsockopt(connected.number(), SOL_SOCKET, SO_SNDTIMEO, &patience,
                 sizeof patience) == 0 &&
      connect(connected.number(), address.get(), address.size) == 0) {
    return connected;
  }
  return absl::UnavailableError(absl::StrCat("socket: ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedShard>> SharedShard::Link(
    const std::shared_ptr<grpc::Channel>& channel,
    const std::vector<const SharedMemory*>& memories, absl::Duration patience) {
  SLUICE_ASSIGN_OR_RETURN(const proto::ShareReply reply,
                          Ask(channel, patience));
  if (reply.host().empty() || reply.host() != HostIdentity()) {
    return absl::NotFoundError("the shard is on another host");
  }
  SLUICE_ASSIGN_OR_RETURN(Descriptor socket, Connect(reply.socket(), patience));
  SharedHello hello;
  reply.secret().copy(reinterpret_cast<char*>(hello.secret),
                      sizeof hello.secret);
  std::vector<int> own;
  for (const SharedMemory* memory : memories) {
    own.push_back(memory->descriptor());
  }
  if (!SendWithDescriptors(
          socket.number(),
          {reinterpret_cast<const uint8_t*>(&hello), sizeof hello}, own)) {
    return absl::UnavailableError(absl::StrCat("hello: ", strerror(errno)));
  }
  SharedWelcome welcome;
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<Descriptor> theirs,
      ReceiveWithDescriptors(
          socket.number(),
          {reinterpret_cast<uint8_t*>(&welcome), sizeof welcome}));
  if (theirs.size() != 1 || welcome.slots > kMostSlots ||
      welcome.slot_floats > kMostSlotFloats) {
    return absl::DataLossError(absl::StrCat(
        "the shard's welcome came with ", theirs.size(), " descriptors and ",
        welcome.slots, " slots of ", welcome.slot_floats, " floats"));
  }
  SLUICE_ASSIGN_OR_RETURN(SharedView weights, SharedView::Open(theirs[0]));
  const SlotGeometry geometry = {
      .slots = static_cast<int>(welcome.slots),
      .slot_floats = static_cast<int64_t>(welcome.slot_floats)};
  if (weights.bytes() < geometry.bytes()) {
    return absl::DataLossError(
        absl::StrCat("the shard's memory has ", weights.bytes(),
                     " bytes, expected ", geometry.bytes()));
  }
  return std::unique_ptr<SharedShard>(new SharedShard(
      std::move(socket), welcome.link, geometry, std::move(weights), memories));
}

bool SharedShard::alive() const {
  char byte;
  const ssize_t received =
      recv(socket_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::optional<SharedFloats> SharedShard::Find(
    absl::Span<const float> floats) const {
  for (size_t m = 0; m < memories_.size(); ++m) {
    const absl::Span<const float> memory = memories_[m]->As<const float>();
    if (floats.data() >= memory.data() &&
        floats.data() + floats.size() <= memory.data() + memory.size()) {
      return SharedFloats{.link = link_,
                          .memory = static_cast<int>(m),
                          .at = floats.data() - memory.data(),
                          .count = static_cast<int64_t>(floats.size())};
    }
  }
  return std::nullopt;
}

absl::Status SharedShard::Copy(const SlotState& slot,
                               absl::Span<float> to) const {
  if (slot.slot < 0 || slot.slot >= geometry_.slots ||
      static_cast<int64_t>(to.size()) > geometry_.slot_floats) {
    return absl::DataLossError(absl::StrCat(
        to.size(), " floats of slot ", slot.slot, " were told of, expected ",
        geometry_.slots, " slots of ", geometry_.slot_floats));
  }
  if (CopySlot(weights_.data(), geometry_, slot, to)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("slot ", slot.slot, " was written while it was read"));
}

}  // namespace sluice

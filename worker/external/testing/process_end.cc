#include "worker/external/testing/process_end.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace sluice {
namespace {

namespace protocol = model_protocol;

void Expect(bool holds) {
  if (!holds) _exit(9);
}

// The number that the environment gives the socket. The program that a user
// writes calls getenv.
int SocketNumber() {
  const size_t length = std::strlen(protocol::kSocketVariable);
  for (char** word = environ; *word != nullptr; ++word) {
    if (std::strncmp(*word, protocol::kSocketVariable, length) == 0) {
      return std::atoi(*word + length + 1);
    }
  }
  _exit(9);
}

void* Map(int descriptor, int protection, int64_t* bytes) {
  struct stat status;
  Expect(fstat(descriptor, &status) == 0);
  *bytes = status.st_size;
  void* const memory =
      mmap(nullptr, status.st_size, protection, MAP_SHARED, descriptor, 0);
  Expect(memory != MAP_FAILED);
  close(descriptor);
  return memory;
}

}  // namespace

ProcessEnd::ProcessEnd() : socket_(SocketNumber()) {
  protocol::Hello hello;
  constexpr int kMost = 253;  // Descriptors that one message can carry.
  std::vector<char> control(CMSG_SPACE(kMost * sizeof(int)));
  iovec bytes = {.iov_base = &hello, .iov_len = sizeof hello};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  Expect(recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) == sizeof hello);
  Expect(hello.kind == protocol::Kind::kHello &&
         hello.protocol == protocol::kProtocol);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  const size_t count = hello.weights + hello.gradients + 2;
  Expect(header != nullptr &&
         header->cmsg_len == CMSG_LEN(count * sizeof(int)));
  std::vector<int> descriptors(count);
  std::memcpy(descriptors.data(), CMSG_DATA(header), count * sizeof(int));

  int64_t size = 0;
  for (size_t i = 0; i + 2 < count; ++i) {
    const bool reads = i < hello.weights;
    void* const memory =
        Map(descriptors[i], reads ? PROT_READ : PROT_READ | PROT_WRITE, &size);
    if (reads) {
      weights_.push_back(static_cast<const float*>(memory));
    } else {
      gradients_.push_back(static_cast<float*>(memory));
    }
    parameters_ = size / sizeof(float);
  }
  indices_ = static_cast<const int64_t*>(
      Map(descriptors[count - 2], PROT_READ, &size));
  close(descriptors[count - 1]);  // The job, of which it needs nothing.
}

bool ProcessEnd::Receive(int flags) {
  char packet[protocol::kLongestMessage];
  const ssize_t bytes = recv(socket_, packet, sizeof packet, flags);
  if (bytes < 4) return false;
  packet_.assign(packet, bytes);
  return true;
}

template <typename Message>
Message ProcessEnd::Parse() const {
  Message message;
  const protocol::Kind kind = message.kind;
  Expect(packet_.size() == sizeof message);
  std::memcpy(&message, packet_.data(), sizeof message);
  Expect(message.kind == kind);
  return message;
}

std::optional<ProcessEnd::Asked> ProcessEnd::NextAsked() {
  while (Receive(0)) {
    protocol::Kind kind;
    std::memcpy(&kind, packet_.data(), sizeof kind);
    if (kind == protocol::Kind::kStop) return std::nullopt;
    // A CANCEL came when its task was over.
    if (kind == protocol::Kind::kCancel) continue;
    if (kind == protocol::Kind::kEvaluate) return Parse<protocol::Evaluate>();
    return Parse<protocol::Task>();
  }
  return std::nullopt;
}

bool ProcessEnd::IsCancelled(uint64_t task) {
  if (!Receive(MSG_DONTWAIT)) return false;
  protocol::Cancel cancel;
  Expect(packet_.size() == sizeof cancel);
  std::memcpy(&cancel, packet_.data(), sizeof cancel);
  return cancel.kind == protocol::Kind::kCancel && cancel.task == task;
}

void ProcessEnd::AwaitCancel(uint64_t task) {
  protocol::Cancel cancel;
  do {
    Expect(Receive(0) && packet_.size() == sizeof cancel);
    std::memcpy(&cancel, packet_.data(), sizeof cancel);
  } while (cancel.kind != protocol::Kind::kCancel || cancel.task != task);
}

void ProcessEnd::AwaitPacket() { Expect(Receive(MSG_PEEK)); }

void ProcessEnd::SayBytes(const std::string& packet) {
  if (send(socket_, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) _exit(9);
}

void ProcessEnd::Close() { close(socket_); }

}  // namespace sluice

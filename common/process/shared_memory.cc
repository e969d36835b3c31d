// Why an access raises no SIGBUS:
//
//   memory is cut off           the size is sealed, which is looked at first
//   huge pages run out          refused: the file system must be tmpfs
//   a page cannot be had        the owner takes all when it is made, or what it
//                               tells of before it does (Reserve)
//
// And why one that may only read cannot write: mappings of later comers are
// never writable (F_SEAL_FUTURE_WRITE), and F_SEAL_SEAL keeps it so.
#include "common/process/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status SystemError(const std::string& name, int64_t bytes, int error) {
  const std::string text = absl::StrCat("shared memory \"", name, "\" of ",
                                        bytes, " bytes: ", strerror(error));
  return error == ENOMEM || error == ENOSPC || error == EMFILE ||
                 error == ENFILE
             ? absl::ResourceExhaustedError(text)
             : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(const std::string& name,
                                                  int64_t bytes, Others others,
                                                  Pages pages) {
  SLUICE_CHECK(bytes >= 1);
  const int descriptor =
      memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return SystemError(name, bytes, errno);
  void* memory = MAP_FAILED;
  if (ftruncate(descriptor, bytes) == 0) {
    memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  // Mappings that there are stay writable: this process's own.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW |
                    (others == Others::kRead ? F_SEAL_FUTURE_WRITE : 0) |
                    F_SEAL_SEAL;
  // Reserved only when it is mapped, which refuses what is far too large.
  if (memory == MAP_FAILED ||
      (pages == Pages::kNow && fallocate(descriptor, 0, 0, bytes) != 0) ||
      fcntl(descriptor, F_ADD_SEALS, seals) != 0) {
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes);
    close(descriptor);
    return SystemError(name, bytes, error);
  }
  madvise(memory, bytes, MADV_DONTFORK);  // A child must not keep it.
  return SharedMemory(descriptor, memory, bytes);
}

SharedMemory::SharedMemory(SharedMemory&& other)
    : descriptor_(std::exchange(other.descriptor_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

bool SharedMemory::Reserve(int64_t at, int64_t bytes) const {
  return fallocate(descriptor_, 0, at, bytes) == 0;
}

SharedMemory::~SharedMemory() {
  if (descriptor_ < 0) return;
  munmap(memory_, bytes_);
  close(descriptor_);
}

Descriptor::~Descriptor() {
  if (valid()) close(number_);
}

absl::StatusOr<SharedView> SharedView::Open(const Descriptor& descriptor,
                                            int64_t most_bytes) {
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(descriptor.number(), F_GET_SEALS);
  struct stat status = {};
  struct statfs system = {};
  // Of huge pages there may be none left, and then an access raises SIGBUS.
  if (seals < 0 || (seals & kSize) != kSize ||
      fstat(descriptor.number(), &status) != 0 || status.st_size == 0 ||
      fstatfs(descriptor.number(), &system) != 0 ||
      system.f_type != TMPFS_MAGIC) {
    return absl::InvalidArgumentError(
        "expected shared memory whose size is sealed, got a descriptor of "
        "something else");
  }
  if (status.st_size > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", status.st_size,
                     " bytes, expected at most ", most_bytes));
  }
  void* const memory = mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED,
                            descriptor.number(), 0);
  if (memory == MAP_FAILED) {
    return SystemError("of another process", status.st_size, errno);
  }
  madvise(memory, status.st_size, MADV_DONTFORK);
  return SharedView(memory, status.st_size);
}

SharedView::~SharedView() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

bool SendWithDescriptors(int socket, absl::Span<const uint8_t> bytes,
                         absl::Span<const int> descriptors) {
  // The system only reads through this pointer.
  iovec piece = {.iov_base = const_cast<uint8_t*>(bytes.data()),
                 .iov_len = bytes.size()};
  const size_t size = descriptors.size() * sizeof(int);
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  SLUICE_CHECK(descriptors.size() <= kMostDescriptors);
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (size > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

absl::StatusOr<std::vector<Descriptor>> ReceiveWithDescriptors(
    int socket, absl::Span<uint8_t> bytes) {
  iovec piece = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (received < 0) return absl::UnavailableError(strerror(errno));
  // Also of a message of 0 bytes, which may bring some.
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
  if (received == 0) return absl::UnavailableError("the socket has ended");
  if (received == static_cast<ssize_t>(bytes.size()) &&
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
    return descriptors;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a message of ", received, " bytes, expected ", bytes.size()));
}

}  // namespace sluice

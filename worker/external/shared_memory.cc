#include "worker/external/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
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
                                                  int64_t bytes,
                                                  Others others) {
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
  if (memory == MAP_FAILED || fcntl(descriptor, F_ADD_SEALS, seals) != 0) {
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes);
    close(descriptor);
    return SystemError(name, bytes, error);
  }
  return SharedMemory(descriptor, memory, bytes);
}

SharedMemory::SharedMemory(SharedMemory&& other)
    : descriptor_(std::exchange(other.descriptor_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory::~SharedMemory() {
  if (descriptor_ < 0) return;
  munmap(memory_, bytes_);
  close(descriptor_);
}

}  // namespace sluice

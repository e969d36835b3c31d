#ifndef SLUICE_WORKER_EXTERNAL_SHARED_MEMORY_H_
#define SLUICE_WORKER_EXTERNAL_SHARED_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

// Memory that another process can map by its descriptor (memfd_create). Nobody
// can change its size, so no access to it raises SIGBUS. It begins as zeros.
//
// Thread-compatible.
class SharedMemory {
 public:
  // Whether the processes that are given the descriptor may write.
  enum class Others { kRead, kWrite };

  // `name` is what /proc/PID/maps shows. kResourceExhausted: no memory or
  // descriptor is left. kUnavailable: the system refuses otherwise.
  // REQUIRES: bytes >= 1.
  static absl::StatusOr<SharedMemory> Create(const std::string& name,
                                             int64_t bytes, Others others);
  SharedMemory(SharedMemory&& other);
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  int descriptor() const { return descriptor_; }
  int64_t bytes() const { return bytes_; }
  // All of it, aligned to a page. Whole elements only.
  template <typename T>
  absl::Span<T> As() const {
    return {static_cast<T*>(memory_), bytes_ / sizeof(T)};
  }

 private:
  SharedMemory(int descriptor, void* memory, int64_t bytes)
      : descriptor_(descriptor), memory_(memory), bytes_(bytes) {}

  int descriptor_;  // -1: moved from.
  void* memory_;
  int64_t bytes_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_SHARED_MEMORY_H_

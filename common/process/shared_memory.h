#ifndef SLUICE_COMMON_PROCESS_SHARED_MEMORY_H_
#define SLUICE_COMMON_PROCESS_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  // Whether all of it is there from the start. What is not must be reserved
  // before it is touched: without memory left, an access raises SIGBUS.
  enum class Pages { kNow, kWhenReserved };

  // `name` is what /proc/PID/maps shows. kResourceExhausted: no memory or
  // descriptor is left. kUnavailable: the system refuses otherwise.
  // REQUIRES: bytes >= 1.
  static absl::StatusOr<SharedMemory> Create(const std::string& name,
                                             int64_t bytes, Others others,
                                             Pages pages = Pages::kNow);
  SharedMemory(SharedMemory&& other);
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // Takes memory for these bytes of it; false: none is left.
  bool Reserve(int64_t at, int64_t bytes) const;

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

// A file descriptor, closed with the object.
//
// Thread-compatible.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }  // -1: none.
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

// Memory of another process, mapped to be read. Its owner may change what it
// holds at any time, but not its size, so no access to it raises SIGBUS.
//
// Thread-compatible.
class SharedView {
 public:
  // Of what SharedMemory::descriptor() of the other process is here.
  // kInvalidArgument: it is no memory whose size is sealed, or of more than
  // `most_bytes`. kResourceExhausted: there is no room to map it.
  static absl::StatusOr<SharedView> Open(const Descriptor& descriptor,
                                         int64_t most_bytes = INT64_MAX);
  SharedView(SharedView&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  SharedView& operator=(SharedView&&) = delete;
  ~SharedView();

  const uint8_t* data() const { return static_cast<const uint8_t*>(memory_); }
  int64_t bytes() const { return bytes_; }

 private:
  SharedView(void* memory, int64_t bytes) : memory_(memory), bytes_(bytes) {}

  void* memory_;
  const int64_t bytes_;
};

// Sends `bytes` over the Unix socket `socket` as one message, and with it the
// descriptors, which stay the sender's. False: errno says why not.
// REQUIRES: there are some bytes, and at most kMostDescriptors descriptors.
bool SendWithDescriptors(int socket, absl::Span<const uint8_t> bytes,
                         absl::Span<const int> descriptors);
// Receives one message of `bytes.size()` bytes, and the descriptors that came
// with it. kUnavailable: the socket has ended, or times out.
// kInvalidArgument: the message has another size.
absl::StatusOr<std::vector<Descriptor>> ReceiveWithDescriptors(
    int socket, absl::Span<uint8_t> bytes);
inline constexpr int kMostDescriptors = 8;

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_SHARED_MEMORY_H_

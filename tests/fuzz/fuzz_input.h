#ifndef SLUICE_TESTS_FUZZ_FUZZ_INPUT_H_
#define SLUICE_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::fuzz {

// A fuzzer's input, read piece by piece. Past its end it is all 0. Not
// thread-safe.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }

  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // The next `count` bytes, or as many as are left.
  std::string Bytes(size_t count) {
    count = std::min(count, size_);
    std::string bytes(reinterpret_cast<const char*>(data_), count);
    data_ += count;
    size_ -= count;
    return bytes;
  }
  std::string Rest() { return Bytes(size_); }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace sluice::fuzz

#endif  // SLUICE_TESTS_FUZZ_FUZZ_INPUT_H_

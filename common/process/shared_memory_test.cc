#include "common/process/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Others = SharedMemory::Others;

SharedMemory Make(int64_t bytes, Others others) {
  auto memory = SharedMemory::Create("test", bytes, others);
  EXPECT_TRUE(memory.ok()) << memory.status().message().data();
  return *std::move(memory);
}

// As another process maps it.
float* Map(const SharedMemory& memory, int protection) {
  void* mapped = mmap(nullptr, memory.bytes(), protection, MAP_SHARED,
                      memory.descriptor(), 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<float*>(mapped);
}

TEST(SharedMemoryTest, WhatOneMappingWritesTheOtherReads) {
  const SharedMemory memory = Make(8, Others::kWrite);
  float* const other = Map(memory, PROT_READ | PROT_WRITE);
  ASSERT_NE(other, nullptr);
  EXPECT_THAT(memory.As<float>(), testing::ElementsAre(0, 0));
  other[1] = 3;
  memory.As<float>()[0] = 4;
  EXPECT_EQ(memory.As<float>()[1], 3);
  EXPECT_EQ(other[0], 4);
  munmap(other, memory.bytes());
}

TEST(SharedMemoryTest, NobodyCanChangeItsSize) {
  const SharedMemory memory = Make(8, Others::kWrite);
  for (const int bytes : {0, 4, 4096}) {
    EXPECT_EQ(ftruncate(memory.descriptor(), bytes), -1) << bytes;
    EXPECT_EQ(errno, EPERM);
  }
}

TEST(SharedMemoryTest, WhatOthersMayOnlyReadTheyCannotWrite) {
  const SharedMemory memory = Make(8, Others::kRead);
  EXPECT_EQ(Map(memory, PROT_READ | PROT_WRITE), nullptr);
  EXPECT_EQ(pwrite(memory.descriptor(), "x", 1, 0), -1);
  float* const other = Map(memory, PROT_READ);
  ASSERT_NE(other, nullptr);
  memory.As<float>()[0] = 4;  // This process still writes.
  EXPECT_EQ(other[0], 4);
  munmap(other, memory.bytes());
}

TEST(SharedMemoryTest, MoreThanThereIsSaysSoAndHowMuch) {
  const auto memory =
      SharedMemory::Create("test", int64_t{1} << 60, Others::kWrite);
  ASSERT_FALSE(memory.ok());
  EXPECT_THAT(std::string(memory.status().message()),
              testing::HasSubstr("\"test\" of 1152921504606846976 bytes"));
}

}  // namespace
}  // namespace sluice

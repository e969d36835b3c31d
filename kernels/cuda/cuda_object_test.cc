// The shared object, on machines without a GPU as well: that it links, and what
// it says where there is none.
#include "kernels/cuda/cuda_object.h"

#include <dlfcn.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Made = absl::StatusOr<std::unique_ptr<Device>>;

Made MakeFromObject(const CudaOptions& options) {
  Made made = absl::UnknownError("not called");
  void* const object = dlopen(CudaObjectPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(object, nullptr) << dlerror();
  void* const make =
      object == nullptr ? nullptr : dlsym(object, kMakeCudaDeviceSymbol);
  EXPECT_NE(make, nullptr);
  if (make != nullptr) {
    reinterpret_cast<MakeCudaDeviceFunction*>(make)(options, &made);
  }
  return made;
}

TEST(CudaObjectTest, ItLinksAndMakesADeviceOrSaysThatThereIsNone) {
  if (CudaObjectPath().empty()) {
    GTEST_SKIP() << "SKIPPED: made without a CUDA toolkit";
  }
  const Made made = MakeFromObject({});
  if (made.ok()) {
    EXPECT_THAT((*made)->Description(), StartsWith("cuda ("));
  } else {
    EXPECT_EQ(made.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(made.status().message()),
                StartsWith("no CUDA device: "));
  }
}

TEST(CudaDeviceTest, AGpuThatIsNotThereIsRefusedWithTheReason) {
  const Made made = MakeCudaDevice({.index = 4096});
  const std::string message(made.status().message());
  if (MakeCudaDevice({}).ok()) {
    EXPECT_EQ(made.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(message, StartsWith("no GPU 4096 among "));
    return;
  }
  EXPECT_EQ(made.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message, StartsWith("no CUDA device: "));
  if (CudaObjectPath().empty()) {
    EXPECT_THAT(message, HasSubstr("this build has none"));
  }
}

TEST(CudaDeviceTest, ABufferThatDoesNotFitSaysWhatWasAskedAndWhatIsFree) {
  const auto device = MakeCudaDevice({});
  if (absl::IsNotFound(device.status())) {
    GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
  ASSERT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  const auto refused = (*device)->Allocate(int64_t{1} << 50);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              StartsWith("no memory for a buffer of 1125899906842624 bytes on "
                         "GPU 0: "));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(" bytes are free"));
  EXPECT_TRUE((*device)->Allocate(1024).ok());
}

}  // namespace
}  // namespace sluice::kernels

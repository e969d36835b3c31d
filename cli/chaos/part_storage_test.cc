#include "cli/chaos/part_storage.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class PartStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(library_) << "a library";
  }

  std::unique_ptr<PartStorage> Create() {
    auto storage = PartStorage::Create(library_, folder_, "/run");
    EXPECT_TRUE(storage.ok()) << storage.status();
    return *std::move(storage);
  }

  std::string Faults() const {
    std::ifstream file(folder_ + "/faulty_disk.so.faults");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string folder_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string library_ = folder_ + "/built.so";
};

TEST_F(PartStorageTest, EachServerHasItsOwnFaultUntilItIsHealed) {
  const auto storage = Create();
  EXPECT_EQ(Faults(), "");
  ASSERT_TRUE(storage->Break(1, StorageFault::kStalled).ok());
  ASSERT_TRUE(storage->Break(0, StorageFault::kUnreadable).ok());
  EXPECT_EQ(Faults(),
            "in --shard=0 fail EIO read /run/checkpoints\n"
            "in --shard=1 stall all /run\n");
  ASSERT_TRUE(storage->Heal(0).ok());
  ASSERT_TRUE(storage->Break(1, StorageFault::kFull).ok());
  EXPECT_EQ(Faults(), "in --shard=1 fail ENOSPC write /run\n");
}

TEST_F(PartStorageTest, ALibraryThatIsNotThereIsNamed) {
  const auto storage = PartStorage::Create("/nowhere/a.so", folder_, "/run");
  EXPECT_TRUE(absl::IsNotFound(storage.status()));
  EXPECT_THAT(std::string(storage.status().message()),
              HasSubstr("/nowhere/a.so: No such file"));
}

TEST_F(PartStorageTest, AFolderThatNoLibraryIsLoadedFromIsRefused) {
  for (const std::string name : {"/a run", "/a:run", "/a\nrun"}) {
    const std::string folder = folder_ + name;
    std::filesystem::create_directories(folder);
    const auto storage =
        PartStorage::Create(library_, folder, folder + "/disturbed");
    EXPECT_TRUE(absl::IsInvalidArgument(storage.status())) << name;
    EXPECT_THAT(std::string(storage.status().message()), HasSubstr(folder));
  }
}

}  // namespace
}  // namespace sluice

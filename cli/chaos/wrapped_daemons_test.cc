#include "cli/chaos/wrapped_daemons.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/launch/child_process.h"
#include "cli/launch/signal_wait.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

class WrappedDaemonsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    for (const char* daemon :
         {"ps_server/ps_server", "worker/worker", "worker/evaluator"}) {
      const std::filesystem::path path = bin_dir_ + "/" + daemon;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << "#!/bin/sh\n"
                             "echo \"$(basename \"$0\"): $*\"\n"
                             "echo \"preload ${LD_PRELOAD##*/}\"\nexit 7\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
  }

  // What a wrapped daemon says; all end with the status that it returns.
  std::string Run(std::vector<std::string> command) {
    std::filesystem::remove(folder_ + "/log");
    command[0] = wrapped_ + command[0];
    SignalWait signals;
    auto child = ChildProcess::Start(command, folder_ + "/log");
    EXPECT_TRUE(child.ok()) << child.status();
    while (!(*child)->Poll().has_value()) signals.WaitFor(absl::Seconds(20));
    EXPECT_EQ((*child)->Poll()->status, 7);
    std::ifstream file(folder_ + "/log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string folder_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  // A name that means something to a shell.
  const std::string bin_dir_ = folder_ + "/it's $bin";
  const std::string wrapped_ = folder_ + "/wrapped";
};

TEST_F(WrappedDaemonsTest, ADaemonGetsItsFlagsAsTheyAre) {
  ASSERT_TRUE(WrapDaemons(wrapped_, bin_dir_, {}, nullptr, nullptr).ok());
  EXPECT_EQ(Run({"/worker/evaluator", "--job=a b", "--x=$y '"}),
            "evaluator: --job=a b --x=$y '\npreload \n");
  EXPECT_EQ(Run({"/ps_server/ps_server", "--shard=1", "--listen=127.0.0.1:0"}),
            "ps_server: --shard=1 --listen=127.0.0.1:0\npreload \n");
}

TEST_F(WrappedDaemonsTest, OnlyServersAreStartedWithTheLibrary) {
  std::filesystem::create_directories(wrapped_);
  std::ofstream(folder_ + "/library") << "a library";
  const auto storage = PartStorage::Create(folder_ + "/library", wrapped_, "/");
  ASSERT_TRUE(storage.ok()) << storage.status();
  ASSERT_TRUE(
      WrapDaemons(wrapped_, bin_dir_, {}, nullptr, storage->get()).ok());
  // The loader says that it cannot use this one.
  EXPECT_NE(Run({"/ps_server/ps_server"}).find("preload faulty_disk.so\n"),
            std::string::npos);
  EXPECT_EQ(Run({"/worker/worker"}), "worker: \npreload \n");
}

TEST_F(WrappedDaemonsTest, EachPartListensInItsOwnNetwork) {
  const std::vector<std::string> parts = {"ps_server-0", "worker-12"};
  std::filesystem::create_directories(wrapped_);
  const auto networks = PartNetworks::Create(parts, wrapped_);
  if (!networks.ok()) GTEST_SKIP() << "SKIPPED: " << networks.status();
  ASSERT_TRUE(
      WrapDaemons(wrapped_, bin_dir_, parts, networks->get(), nullptr).ok());
  EXPECT_EQ(
      Run({"/ps_server/ps_server", "--shard=0", "--listen=127.0.0.1:0"}),
      "ps_server: --shard=0 --listen=" + (*networks)->AddressOf("ps_server-0") +
          ":0 --insecure\npreload \n");
  // Where a lead was before, it is again.
  EXPECT_EQ(Run({"/ps_server/ps_server", "--shard=0", "--listen=10.0.0.9:70"}),
            "ps_server: --shard=0 --listen=10.0.0.9:70 --insecure\n"
            "preload \n");
}

}  // namespace
}  // namespace sluice

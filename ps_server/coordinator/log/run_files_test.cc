#include "ps_server/coordinator/log/run_files.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Of a run of its own, which begins.
std::unique_ptr<RunFiles> FilesOf(const std::string& run_dir) {
  const auto job = ParseJob(R"pb(
                              cluster { workers: 1 shards: 1 }
                              sync { policy: SYNC }
                              optimizer {
                                learning_rate: 0.1
                                sgd {}
                              }
                              data { linear_regression { features: 1 } }
                              model { layer { dense { units: 1 } } }
                              stop { updates: 1 }
                            )pb",
                            "test.textproto", {});
  EXPECT_TRUE(job.ok()) << job.status();
  auto files = RunFiles::Create(*job, GenerationStart(),
                                absl::StrCat(testing::TempDir(), "/", run_dir));
  EXPECT_TRUE(files.ok()) << files.status();
  return *std::move(files);
}

// The manifests' thread proves the run's claim, and the one that writes the
// summary does.
TEST(RunFilesTest, ProofsOfSeveralThreadsDoNotDisproveEachOther) {
  const auto files = FilesOf("proofs");
  const auto prove = [&] {
    for (int i = 0; i < 1000; ++i) {
      const absl::Status proved = files->Prove();
      ASSERT_TRUE(proved.ok()) << proved;
    }
  };
  std::thread other(prove);
  prove();
  other.join();
}

}  // namespace
}  // namespace sluice

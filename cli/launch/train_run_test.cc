#include "cli/launch/train_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/launch/signal_wait.h"

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kJob[] = R"pb(
  name: "fake"
  cluster { workers: 2 shards: 2 }
  data { linear_regression { features: 64 } }
  model {
    layer { dense { units: 1 } }
    loss: MEAN_SQUARED_ERROR
  }
  stop { updates: 1 }
)pb";

// Where the lead says it listens, nobody does: the coordinator never answers.
constexpr char kLeadStarts[] = R"sh(
case "$*" in *--shard=0*)
  for word in "$@"; do case "$word" in --run-dir=*) dir=${word#*=};; esac; done
  echo "coordinator 127.0.0.1:1" > $dir/addresses
  # The others have been started once the last of them has a log.
  until [ -e $dir/worker-1.log ]; do sleep 0.01; done
)sh";

// The launcher with shell scripts in the place of the daemons.
class TrainRunTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Daemon("worker/worker", "exit 0");
    Daemon("worker/evaluator", "exit 0");
  }

  // Makes the daemon `path` this shell script.
  void Daemon(const std::string& path, const std::string& script) {
    const std::filesystem::path file = folder_ + "/bin/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  int Train() {
    const auto job = ParseJob(kJob, "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status().message().data();
    if (!job.ok()) return -1;
    return RunTraining(
        *job, {.run_dir = run_, .run_id = "mine", .bin_dir = folder_ + "/bin"},
        Clock::Real(), out_, err_);
  }

  std::string Read(const std::string& name) {
    std::ifstream file(run_ + "/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string folder_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string run_ = folder_ + "/run";
  std::ostringstream out_;
  std::ostringstream err_;
};

// With which every command line ends.
std::string LogFlag(const std::string& run, const std::string& name) {
  return " --log=" + run + "/" + name + ".log\n";
}

TEST_F(TrainRunTest, EverybodyIsStartedWithTheResolvedJob) {
  Daemon("ps_server/ps_server",
         std::string("echo \"$@\"\n") + kLeadStarts + ";; esac\nexit 0");
  Daemon("worker/worker", "echo \"$@\"");
  Daemon("worker/evaluator", "echo \"$@\"");
  EXPECT_EQ(Train(), 0) << err_.str();
  const std::string job = "--job=" + run_ + "/job.textproto ";
  EXPECT_EQ(Read("ps_server-0.log"),
            job + "--shard=0 --listen=127.0.0.1:0 --run-dir=" + run_ +
                " --run-id=mine" + LogFlag(run_, "ps_server-0"));
  EXPECT_EQ(Read("ps_server-1.log"),
            job + "--shard=1 --listen=127.0.0.1:0 --coordinator=127.0.0.1:1" +
                LogFlag(run_, "ps_server-1"));
  EXPECT_EQ(Read("worker-1.log"), job + "--worker=1 --coordinator=127.0.0.1:1" +
                                      LogFlag(run_, "worker-1"));
  EXPECT_EQ(Read("evaluator.log"),
            job + "--coordinator=127.0.0.1:1 --run-dir=" + run_ +
                LogFlag(run_, "evaluator"));
  const auto resolved = LoadJob(run_ + "/job.textproto", {});
  ASSERT_TRUE(resolved.ok()) << resolved.status().message().data();
  EXPECT_EQ(resolved->job.cluster().shards(), 2);
}

TEST_F(TrainRunTest, AShardThatEndsByItselfEndsTheRunAndIsNamed) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until grep -q boom $dir/ps_server-1.log; do sleep 0.01; done\n"
             "while kill -0 $(head -n1 $dir/ps_server-1.log) 2>/dev/null; do\n"
             "  sleep 0.01\n"
             "done\n"
             "exit 1;; esac\n"
             "echo $$; echo boom; exit 1");
  EXPECT_EQ(Train(), 1);
  EXPECT_THAT(err_.str(),
              HasSubstr("the run failed: ps_server-1: exit status 1"));
  EXPECT_THAT(err_.str(),
              ContainsRegex("ps_server-1.log:\n  . [0-9]+\n  . boom"));
}

TEST_F(TrainRunTest, AShardThatIsKilledIsStartedAgain) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until [ $(grep -c boom $dir/ps_server-1.log) = 2 ]; do\n"
             "  sleep 0.01\n"
             "done\n"
             "exit 0;; esac\n"
             "echo boom\n"
             // In its second life it ends well, before the lead or after.
             "mkdir " +
             folder_ + "/died 2> /dev/null || exit 0\nkill -KILL $$");
  EXPECT_EQ(Train(), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("ps_server-1: killed by signal 9 (Killed); "
                                    "starting it again\n"));
}

TEST_F(TrainRunTest, ALeadThatIsKilledGoesOnWhereItWas) {
  Daemon("ps_server/ps_server",
         "case \"$*\" in *--resume*) echo \"$@\"; exit 0;; esac\n" +
             std::string(kLeadStarts) + "kill -KILL $$;; esac\nexit 0");
  EXPECT_EQ(Train(), 0) << err_.str();
  EXPECT_EQ(Read("ps_server-0.log"),
            "--job=" + run_ + "/job.textproto --shard=0 --listen=127.0.0.1:1 " +
                "--run-dir=" + run_ + " --run-id=mine --resume" +
                LogFlag(run_, "ps_server-0"));
}

TEST_F(TrainRunTest, WhyTheRunFailedIsReadFromItsSummaryWhenNobodyAnswers) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until grep -q over $dir/ps_server-1.log; do sleep 0.01; done\n"
             "echo '{\"failure\": \"diverged: version 7\"}' > "
             "$dir/summary.json\nexit 1;; esac\n"
             "echo over; exit 1");
  EXPECT_EQ(Train(), 1);
  EXPECT_THAT(err_.str(), HasSubstr("the run failed: diverged: version 7\n"));
}

TEST_F(TrainRunTest, AWorkerThatDiesIsReportedAndTheRunGoesOn) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until grep -q boom $dir/worker-0.log; do sleep 0.01; done;;\n"
             "esac\nexit 0");
  Daemon("worker/worker",
         "case \"$*\" in *--worker=0*) echo boom; exit 7;; esac");
  EXPECT_EQ(Train(), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("worker-0: exit status 7\n"));
}

TEST_F(TrainRunTest, WhyADaemonEndedIsTakenFromItsLastLine) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until grep -q boom $dir/worker-0.log; do sleep 0.01; done;;\n"
             "esac\nexit 0");
  Daemon("worker/worker",
         "case \"$*\" in *--worker=0*) "
         R"(echo 'error event=failed error="a \"boom\""'; exit 7;; esac)");
  EXPECT_EQ(Train(), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("worker-0: exit status 7: a \"boom\"\n"));
}

TEST_F(TrainRunTest, EveryWorkerMayBeKilledAndIsStartedAgain) {
  Daemon("ps_server/ps_server",
         std::string(kLeadStarts) +
             "until grep -q again $dir/worker-0.log; do sleep 0.01; done\n"
             "until grep -q again $dir/worker-1.log; do sleep 0.01; done;;\n"
             "esac\nexit 0");
  // The second time there is something in its log.
  Daemon("worker/worker",
         "for word in \"$@\"; do\n"
         "  case \"$word\" in --worker=*) log=" +
             run_ +
             "/worker-${word#*=}.log;; esac\n"
             "done\n"
             "if [ -s $log ]; then echo again; exit 0; fi\n"
             "echo first; kill -KILL $$");
  EXPECT_EQ(Train(), 0) << err_.str();
  for (const char* worker : {"worker-0", "worker-1"}) {
    EXPECT_THAT(out_.str(), HasSubstr(std::string(worker) +
                                      ": killed by signal 9 (Killed); "
                                      "starting it again\n"));
  }
}

TEST_F(TrainRunTest, ALeadThatFailsAtOnceIsNamed) {
  Daemon("ps_server/ps_server", "echo no such port; exit 1");
  EXPECT_EQ(Train(), 1);
  EXPECT_THAT(err_.str(), HasSubstr("ps_server-0: exit status 1"));
  EXPECT_THAT(err_.str(), HasSubstr("  | no such port\n"));
}

TEST_F(TrainRunTest, ADaemonThatIsNotThereIsNamed) {
  EXPECT_EQ(Train(), 1);
  EXPECT_THAT(err_.str(), HasSubstr("bin/ps_server/ps_server: No such file"));
}

TEST_F(TrainRunTest, AUsedRunFolderIsRefused) {
  std::filesystem::create_directories(run_ + "/old");
  EXPECT_EQ(Train(), 2);
  EXPECT_THAT(err_.str(), HasSubstr(run_ + " is not empty"));
}

TEST_F(TrainRunTest, AnInterruptBeforeTheStartKillsWhatThereIs) {
  Daemon("ps_server/ps_server", "exec sleep 1000");
  signal(SIGINT, SIG_DFL);  // Who starts the tests with & has it ignored.
  const SignalWait keep_the_signal;
  pthread_kill(pthread_self(), SIGINT);
  EXPECT_EQ(Train(), 130);
}

}  // namespace
}  // namespace sluice

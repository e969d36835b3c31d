// What does a recovery cost a run with fifty million log records behind it?
//
// Expected from arithmetic: no more than after the first checkpoint. A recovery
// reads the newest file of the commit log, which begins at a checkpoint, so its
// time is that of the records since then. A run without checkpoints has one
// file. It is read record by record, so at least its memory does not grow. For
// a record of about 40 bytes a core computes the checksum and the message in
// about half a microsecond: two million records a second, in one file or in
// many.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/scratch_folder.h"
#include "common/clock.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice::bench {
namespace {

struct Options {
  int64_t records = 50'000'000;
  int64_t between_checkpoints = 100'000;  // Records.
  std::string folder = "/tmp";
  bool tiny = false;
  bool json = false;
};

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// The log of a run. Of every two records, the first issues a task and the
// second commits it.
class Run {
 public:
  Run(const std::string& folder, const std::string& name)
      : folder_(folder, name) {}

  // `cut_every` 0 means one file. Returns the seconds it took.
  double Write(int64_t records, int64_t cut_every) {
    const absl::Time begin = Clock::Real()->Now();
    proto::LogHeader header;
    header.set_generation(1);
    header.mutable_past();
    auto log = CommitLogWriter::Create(
        CommitLogPath(folder_.path(), Generation(1)), header);
    Check(log.ok(), "the log cannot be written");
    std::vector<proto::LogRecord> batch;
    for (int64_t version = 1; 2 * version <= records; ++version) {
      proto::LogTask* task = batch.emplace_back().mutable_task();
      task->set_worker(version % 64);
      task->set_sequence(version);
      task->set_first_batch(version);
      task->set_version(version - 1);
      proto::LogCommit* commit = batch.emplace_back().mutable_commit();
      commit->set_version(version);
      commit->set_learning_rate(0.1);
      proto::LogEntry* entry = commit->add_entry();
      entry->set_worker(version % 64);
      entry->set_sequence(version);
      entry->set_first_batch(version);
      entry->add_shard_base(version - 1);
      entry->set_weight(1);
      const bool cut = cut_every > 0 && 2 * version % cut_every == 0 &&
                       2 * version < records;
      if (!cut && batch.size() < 1000 && 2 * version + 2 <= records) continue;
      Check((*log)->Append(batch).ok(), "a record cannot be written");
      batch.clear();
      if (cut) Check((*log)->Cut(Version(version)).ok(), "it cannot be cut");
    }
    return absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
  }

  struct Cost {
    double seconds = 0;
    double peak_kib = 0;
  };
  // The work of a recovery, in its own process.
  Cost SumUp(int64_t tasks) const {
    Cost cost;
    const absl::Time begin = Clock::Real()->Now();
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::vector<absl::Status> problems;
      const PastGenerations past = *sluice::SumUp(folder_.path(), &problems);
      _exit(past.tasks == tasks && problems.empty() ? 0 : 1);
    }
    rusage used = {};
    int status = 1;
    wait4(child, &status, 0, &used);
    Check(status == 0, "the tasks are not counted");
    cost.seconds = absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
    cost.peak_kib = static_cast<double>(used.ru_maxrss);
    return cost;
  }

 private:
  const ScratchFolder folder_;
};

int Main(const Options& options) {
  Report report("commit_log",
                "What does a recovery cost a run that has been going on for "
                "fifty million records?");
  const int64_t many = options.tiny ? 20'000 : options.records;
  const int64_t few = std::max<int64_t>(many / 5000, 10'000) / 2 * 2;
  const int64_t cut = options.tiny ? 2'000 : options.between_checkpoints;
  for (const int64_t cut_every : {cut, int64_t{0}}) {
    Run young(options.folder, "sluice_young_log");
    young.Write(few, cut_every);
    const Run::Cost before = young.SumUp(few / 2);
    Run old(options.folder, "sluice_old_log");
    const double wrote = old.Write(many, cut_every);
    const Run::Cost after = old.SumUp(many / 2);
    const std::string how =
        cut_every > 0 ? ", a checkpoint now and then" : ", no checkpoint";
    report.Add({absl::StrCat("memory of a recovery", how),
                "1/KiB",
                absl::StrCat("after ", few, " records"),
                1 / before.peak_kib,
                1 / after.peak_kib,
                {{"peak_kib", after.peak_kib},
                 {"records", static_cast<double>(many)}}});
    const double rate = static_cast<double>(many) / after.seconds;
    report.Add(
        {absl::StrCat(cut_every > 0 ? "recoveries" : "records read", how),
         "1/s",
         cut_every > 0 ? "the records since the checkpoint" : "2 M/s",
         cut_every > 0 ? 2e6 / static_cast<double>(cut) : 2e6,
         cut_every > 0 ? 1 / after.seconds : rate,
         {{"seconds", after.seconds},
          {"written_per_s", static_cast<double>(many) / wrote}}});
  }
  report.Print(options.json);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Options options;
  CLI::App app("What does a recovery cost an old run?");
  app.add_option("--records", options.records, "Of the old run")
      ->check(CLI::PositiveNumber);
  app.add_option("--between-checkpoints", options.between_checkpoints,
                 "Records from one to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder, "With room for 40 bytes a record");
  app.add_flag("--tiny", options.tiny, "As small as it goes");
  app.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  return sluice::bench::Main(options);
}

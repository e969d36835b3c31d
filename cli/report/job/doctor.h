#ifndef SLUICE_CLI_REPORT_JOB_DOCTOR_H_
#define SLUICE_CLI_REPORT_JOB_DOCTOR_H_

#include <string>
#include <vector>

namespace sluice {

// One thing that Sluice wants of a machine, and how it is there.
struct Finding {
  enum class Level {
    kGood,
    kNote,  // Works, but not for every job, or not at full speed.
    kBad,   // Daemons would fail.
  };
  Level level = Level::kGood;
  std::string what = {};    // "disk"
  std::string found = {};   // "runs: 16 MiB written and synced in 0.02 s"
  std::string advice = {};  // What to do; empty where it is good.
};

struct DoctorOptions {
  // Where runs are to lie. It, or the first parent that exists, is written to,
  // and left as it was.
  std::string run_dir = "runs";
  // The folder that has cli/sluice, ps_server/ps_server and so on.
  std::string bin_dir;
  // Of the lead and of other daemons, host:port: whether a name leads there and
  // somebody answers.
  std::vector<std::string> reach;
};

// Looks at this machine. Blocks for as long as the disk and the names of
// `reach` take, the latter at most 5 s each.
std::vector<Finding> ExamineMachine(const DoctorOptions& options);

// For a person, a line for each; advice in a line of its own.
std::string DescribeFindings(const std::vector<Finding>& findings);
// An array of objects with "level" ("good", "note", "bad"), "what", "found" and
// "advice".
std::string FindingsJson(const std::vector<Finding>& findings);

bool AnyBad(const std::vector<Finding>& findings);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_DOCTOR_H_

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/launch/local_cluster.h"
#include "cli/report/job/doctor.h"
#include "cli/slow_work.h"

namespace sluice {
namespace {

struct DoctorFlags {
  DoctorOptions options;
  bool json = false;
};

int Examine(const DoctorFlags& flags) {
  const SlowWork slow("doctor");
  const std::vector<Finding> findings = ExamineMachine(flags.options);
  std::cout << (flags.json ? FindingsJson(findings)
                           : DescribeFindings(findings));
  return AnyBad(findings) ? 1 : 0;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what of this machine would keep Sluice from running");
  auto flags = std::make_shared<DoctorFlags>();
  flags->options.bin_dir = DefaultBinDir();
  command
      ->add_option("--run-dir", flags->options.run_dir,
                   "Where runs are to lie: whether and how fast it can be "
                   "written to")
      ->capture_default_str();
  command->add_option("--reach", flags->options.reach,
                      "host:port of daemons that this machine should reach, "
                      "such as the lead's");
  command->add_flag("--json", flags->json, "Print a JSON array");
  command->callback([flags, exit_code] { *exit_code = Examine(*flags); });
}

}  // namespace sluice

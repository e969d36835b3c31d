#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/report/checkpoint_report.h"

namespace sluice {
namespace {

struct CheckpointFlags {
  std::string checkpoint;
  std::string out;
  bool json = false;
};

absl::StatusOr<Checkpoint> Find(const std::string &path) {
  std::vector<std::string> passed_over;
  absl::StatusOr<Checkpoint> found = FindCheckpoint(path, &passed_over);
  for (const std::string &line : passed_over) {
    std::cerr << "passed over " << line << "\n";
  }
  if (!found.ok()) std::cerr << found.status().message() << "\n";
  return found;
}

int Inspect(const CheckpointFlags &flags) {
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  std::cout << (flags.json ? CheckpointJson(*found)
                           : DescribeCheckpoint(*found));
  return 0;
}

int Export(const CheckpointFlags &flags) {
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  const absl::Status status = ExportWeights(*found, flags.out);
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return 1;
}

constexpr char kWhich[] =
    "Folder of a checkpoint, or of a run: then its newest whole one";

}  // namespace

void AddCheckpointCommands(CLI::App &app, int *exit_code) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App *inspect = app.add_subcommand(
      "inspect", "Compare a checkpoint's checksums and print what is in it");
  inspect->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  inspect->add_flag("--json", flags->json, "Print one JSON object");
  inspect->callback([flags, exit_code] { *exit_code = Inspect(*flags); });

  CLI::App *command = app.add_subcommand(
      "export", "Write a checkpoint's weights as one .safetensors file");
  command->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  command->add_option("file", flags->out, "Written, or replaced")->required();
  command->callback([flags, exit_code] { *exit_code = Export(*flags); });
}

}  // namespace sluice

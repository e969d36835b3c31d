#include <grpc/support/log.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>

#include "cli/commands.h"
#include "common/process/command_line.h"
#include "common/process/exit_codes.h"
#include "common/process/process_setup.h"
#include "common/rpc/grpc_log.h"
#include "common/version.h"

namespace {

void PrintGrpcError(gpr_log_func_args* args) {
  if (sluice::IsOfHandshake(args->message)) return;
  std::cerr << "gRPC: " << args->message << std::endl;
}

// Whether stdout has what was written to it. A pipe that nobody reads any more
// (`| head`) needs no more.
bool OutputIsWritten() {
  if (std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout)) {
    return true;
  }
  pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, /*timeout=*/0) == 1 && (output.revents & POLLERR);
}

}  // namespace

int main(int argc, char** argv) {
  sluice::SetUpProcess();
  gpr_set_log_function(PrintGrpcError);
  CLI::App app{"Sluice trains one model on many machines.", "sluice"};
  app.set_version_flag("--version", std::string("sluice ") + sluice::kVersion);
  app.require_subcommand(1);
  int exit_code = 0;
  sluice::AddTrainCommand(app, &exit_code);
  sluice::AddCheckCommand(app, &exit_code);
  sluice::AddDoctorCommand(app, &exit_code);
  sluice::AddStatusCommand(app, &exit_code);
  sluice::AddStopCommand(app, &exit_code);
  sluice::AddUiCommand(app, &exit_code);
  sluice::AddEvalCommand(app, &exit_code);
  sluice::AddCheckpointCommands(app, &exit_code);
  sluice::AddSimulateCommand(app, &exit_code);
  sluice::AddAdviseCommand(app, &exit_code);
  sluice::AddPlotCommand(app, &exit_code);
  sluice::AddReplayCommand(app, &exit_code);
  sluice::AddLedgerCommand(app, &exit_code);
  sluice::AddGoodputCommand(app, &exit_code);
  sluice::AddExportTensorboardCommand(app, &exit_code);
  sluice::AddChaosCommand(app, &exit_code);
  sluice::AddCertsCommand(app, &exit_code);
  sluice::AddDeployCommand(app, &exit_code);
  const auto code = sluice::ParseCommandLine(argc, argv, &app);
  exit_code = code.value_or(exit_code);
  if (OutputIsWritten()) return exit_code;
  std::cerr << "stdout: not all of it could be written\n";
  return exit_code == 0 ? sluice::kExitFailed : exit_code;
}

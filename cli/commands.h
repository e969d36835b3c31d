#ifndef SLUICE_CLI_COMMANDS_H_
#define SLUICE_CLI_COMMANDS_H_

namespace CLI {
class App;
}  // namespace CLI

// The commands of the tool. Each function adds one (or two that belong
// together) to `app`. When the command line asks for it, parsing runs it and
// leaves the exit status in `*exit_code`, which outlives `app`. Exit statuses:
// 0 it did what it says, 1 it failed or what it looked at is not as it should
// be, 2 its input is refused, 130 the user ended it.
namespace sluice {

// As a shell has it for SIGINT.
inline constexpr int kInterrupted = 130;

// `train JOB`: trains with shards, workers and evaluator on this machine.
void AddTrainCommand(CLI::App& app, int* exit_code);

// `check JOB`: prints the resolved job and what follows from it.
void AddCheckCommand(CLI::App& app, int* exit_code);

// `doctor`: says what of this machine would keep Sluice from running. 1:
// something would.
void AddDoctorCommand(CLI::App& app, int* exit_code);

// `status RUN|ADDRESS`: asks the coordinator of a run how it stands, or prints
// the summary of a run that is over.
void AddStatusCommand(CLI::App& app, int* exit_code);

// `stop RUN|ADDRESS`: has a run end as if a stop condition had been reached,
// and waits for that. 1: it failed, or nobody answers.
void AddStopCommand(CLI::App& app, int* exit_code);

// `ui RUN`: shows a run in the browser, while it goes on and when it is over.
void AddUiCommand(CLI::App& app, int* exit_code);

// `eval RUN`: measures a run's final weights on its test split again.
void AddEvalCommand(CLI::App& app, int* exit_code);

// `checkpoint RUN|ADDRESS`: has a checkpoint written now, and waits for it.
// `inspect CHECKPOINT`: compares its checksums and prints what is in it.
// `export CHECKPOINT FILE`: writes its weights as one .safetensors file.
void AddCheckpointCommands(CLI::App& app, int* exit_code);

// `simulate JOB`: runs the job's cluster in virtual time.
void AddSimulateCommand(CLI::App& app, int* exit_code);

// `advise JOB --workers N --target-accuracy A`: finds which policy, which K and
// which rate reach the target first, in virtual time. 1: none reached it.
void AddAdviseCommand(CLI::App& app, int* exit_code);

// `plot RUN...`: draws one or several runs, real or simulated.
void AddPlotCommand(CLI::App& app, int* exit_code);

// `replay RUN`: recomputes a run from its commit log. 1: it departs from the
// record, or cannot be recomputed.
void AddReplayCommand(CLI::App& app, int* exit_code);

// `ledger RUN`: what became of every gradient of a run, over all its
// generations. 1: one was not counted exactly once, or the logs cannot be read.
void AddLedgerCommand(CLI::App& app, int* exit_code);

// `goodput RUN`: which share of the workers' time went into the weights, and
// where the rest went.
void AddGoodputCommand(CLI::App& app, int* exit_code);

// `export-tensorboard RUN`: its metrics as the event file that TensorBoard
// reads.
void AddExportTensorboardCommand(CLI::App& app, int* exit_code);

// `chaos JOB`: trains a job twice, the second time while its processes are
// killed, stopped and cut off. 1: not everything that Sluice guarantees held.
void AddChaosCommand(CLI::App& app, int* exit_code);

// `certs DIR --job NAME --hosts HOST,...`: makes a certificate authority for a
// job and a certificate for each role; renews and revokes them.
void AddCertsCommand(CLI::App& app, int* exit_code);

// `deploy kubernetes JOB --image IMAGE`: prints the objects with which
// Kubernetes trains a job.
void AddDeployCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_COMMANDS_H_

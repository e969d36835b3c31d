// `sluice chaos` is a bystander. `sluice train` trains both runs, each in a
// process of its own. Chaos sees the coordinator's status, the processes and
// the run folder. It disturbs by signals, and by the networks and the storage
// that the daemons are wrapped in. So it finds what a user of `train` would
// find.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/chaos/director.h"
#include "cli/chaos/judgement.h"
#include "cli/chaos/launched_run.h"
#include "cli/chaos/part_networks.h"
#include "cli/chaos/part_storage.h"
#include "cli/chaos/schedule.h"
#include "cli/chaos/wrapped_daemons.h"
#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/local_cluster.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_ledger.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/clock.h"
#include "common/files/atomic_file.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/job/model_command.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "common/tls/transport_security.h"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {
namespace {

constexpr int kRefused = 2;

// Acts of one kind in a run, at most.
constexpr int kMostOfAKind = 100000;

// Often enough to see most versions. It costs a hundredth of a core.
constexpr absl::Duration kLookEvery = absl::Milliseconds(50);
// A coordinator that is stopped must not delay the next look for long.
constexpr absl::Duration kStatusPatience = absl::Milliseconds(300);

struct ChaosOptions {
  uint64_t seed = 1;
  int kills = 6;
  int stops = 2;
  // Absent: as many as stops if the system allows it, else none.
  std::optional<int> cuts;
  int storage_faults = 0;  // Times that a server's run folder fails.
  bool servers = true;     // Else only workers and the evaluator are disturbed.
  double tolerance = 0.02;
  absl::Duration patience = absl::Minutes(1);  // As DirectorOptions'.
  // Holds `undisturbed` and `disturbed`, the runs' folders, and chaos.json.
  // Empty: runs/NAME-chaos-N.
  std::string run_dir;
  // Folder of an undisturbed run of the job; empty: it is made first.
  std::string undisturbed;
  std::string bin_dir;  // Of the daemons.
  std::string tls;      // Folder of certificates as `sluice certs` makes them;
                        // empty: none.
  bool json = false;    // One JSON object at the end, and nothing else.
  std::vector<std::string> command;  // Of the model processes.
};

// How many updates a run of `job` makes, from its epochs or updates. If K
// varies, the fewest. kInvalidArgument: another stop condition may end it.
absl::StatusOr<int64_t> UpdatesOf(const ResolvedJob& job) {
  const proto::Stop& stop = job.job.stop();
  if (stop.has_seconds() || stop.has_target_accuracy()) {
    return absl::InvalidArgumentError(
        "stop: must be epochs or updates alone, so that the run is as long "
        "when it is disturbed");
  }
  int64_t updates = std::numeric_limits<int64_t>::max();
  if (stop.has_updates()) updates = stop.updates();
  if (stop.has_epochs()) {
    const BatchSchedule schedule = JobSchedule(job.job, job.data.train_samples);
    const int64_t k = MostGradientsPerUpdate(job.job.sync());
    updates = std::min(updates, (schedule.total() + k - 1) / k);
  }
  return updates;
}

// How many updates between checkpoints let `acts` fit into `updates`.
int64_t CheckpointEveryFor(int64_t updates, int acts) {
  // The acts are spread over nine tenths of the run. Even if all are on
  // servers, two checkpoints lie between two of them.
  return std::max<int64_t>(1, updates / (3 * (acts + 1)));
}

// Those that have a network of their own: the members of a group share one.
std::vector<std::string> PartsOf(const proto::Job& job) {
  std::vector<std::string> names;
  for (int s = 0; s < job.cluster().shards(); ++s) {
    names.push_back(NameOfPart(Part::kShard, s));
  }
  for (int w = 0; w < GroupsOf(job); ++w) {
    names.push_back(NameOfPart(Part::kWorker, w));
  }
  if (job.evaluation().enabled()) {
    names.push_back(NameOfPart(Part::kEvaluator, 0));
  }
  return names;
}

// A run of a job, disturbed and judged.
class ChaosRun {
 public:
  ChaosRun(const ResolvedJob& job, const ChaosOptions& options)
      : job_(job),
        options_(options),
        progress_(options.json ? std::cerr : std::cout) {}

  // Draws the schedule and prints it.
  absl::Status Prepare() {
    SLUICE_ASSIGN_OR_RETURN(const int64_t updates, UpdatesOf(job_));
    if (!job_.job.evaluation().enabled()) {
      return absl::InvalidArgumentError(
          "evaluation.enabled: must be true, so that the final weights can be "
          "compared with those of the undisturbed run");
    }
    if (job_.job.checkpoint().every_updates() == 0) {
      return absl::InvalidArgumentError(
          "checkpoint.every_updates: must be above 0, so that versions say "
          "when a server can be disturbed again");
    }
    if (!options_.undisturbed.empty()) {
      SLUICE_RETURN_IF_ERROR(ReadUndisturbed(options_.undisturbed));
    }
    SLUICE_ASSIGN_OR_RETURN(
        folder_, MakeRunFolder(options_.run_dir, job_.job.name() + "-chaos"));
    SLUICE_RETURN_IF_ERROR(
        WriteFileAtomically(JobPath(), {FormatJob(job_.job)}));
    SLUICE_ASSIGN_OR_RETURN(const int cuts, Cuts());
    // After `signals_` and `networks_`: it has threads.
    SLUICE_ASSIGN_OR_RETURN(
        security_, OpenAsOperator(options_.tls, job_.job.name(), clock_));
    if (options_.storage_faults > 0) {
      SLUICE_ASSIGN_OR_RETURN(
          storage_,
          PartStorage::Create(
              absl::StrCat(options_.bin_dir, "/tests/process/faulty_disk.so"),
              folder_, DisturbedFolder()));
    }
    SLUICE_RETURN_IF_ERROR(WrapDaemons(WrappedFolder(), options_.bin_dir,
                                       PartsOf(job_.job), networks_.get(),
                                       storage_.get()));
    ChaosPlan plan{.kills = options_.kills,
                   .stops = options_.stops,
                   .cuts = cuts,
                   .storage_faults = options_.storage_faults,
                   .workers = GroupsOf(job_.job),
                   .members = MembersOf(job_.job),
                   .shards = job_.job.cluster().shards(),
                   .evaluator = job_.job.evaluation().enabled(),
                   .servers = options_.servers,
                   .updates = updates,
                   .checkpoint_every = job_.job.checkpoint().every_updates()};
    SLUICE_ASSIGN_OR_RETURN(outcome_.acts, DrawSchedule(options_.seed, plan));
    outcome_.seed = options_.seed;
    outcome_.policy = proto::Policy_Name(job_.job.sync().policy());
    outcome_.same_bits = job_.job.sync().policy() == proto::SYNC;
    outcome_.tolerance = options_.tolerance;
    progress_ << "seed " << options_.seed << ": " << outcome_.policy << ", "
              << updates << " updates, a checkpoint every "
              << plan.checkpoint_every << "\n";
    for (const Act& act : outcome_.acts) {
      progress_ << "  " << DescribeWithTime(act) << "\n";
    }
    return absl::OkStatus();
  }

  // Trains the run that nobody disturbs. Returns 0, or the exit status with
  // which chaos is to end.
  int TrainUndisturbed() {
    std::string from = options_.undisturbed;
    if (from.empty()) {
      from = absl::StrCat(folder_, "/undisturbed");
      const ChildExit exit =
          Train(from, options_.bin_dir, /*director=*/nullptr);
      if (interrupted_) return kInterrupted;
      if (!exit.ok()) {
        std::cerr << "the undisturbed run failed: " << exit.ToString()
                  << "; what it said is in " << from << ".log\n";
        return exit.status != 0 ? exit.status : 1;
      }
    }
    const absl::Status read = ReadUndisturbed(from);
    if (!read.ok()) std::cerr << read.message() << "\n";
    return read.ok() ? 0 : kRefused;
  }

  // Trains the run that is disturbed. False: the user interrupted it.
  bool TrainDisturbed() {
    Director director({.acts = outcome_.acts,
                       .lease = absl::Seconds(job_.job.limits().lease_s()),
                       .patience = options_.patience});
    const absl::Time begun = clock_->Now();
    const ChildExit exit = Train(DisturbedFolder(), WrappedFolder(), &director);
    outcome_.took = clock_->Now() - begun;
    outcome_.done = director.done();
    outcome_.unasked_ends = director.unasked_ends();
    outcome_.longest_wait = director.longest_wait();
    outcome_.rolled_back = director.rolled_back();
    if (outcome_.failure.empty()) outcome_.failure = director.hang();
    if (!exit.ok() && outcome_.failure.empty()) {
      outcome_.failure = FailureInSummary(DisturbedFolder());
    }
    if (!exit.ok() && outcome_.failure.empty()) {
      outcome_.failure =
          absl::StrCat("the run failed; its logs are in ", DisturbedFolder());
    }
    return !interrupted_;
  }

  // Reads what the disturbed run left behind.
  const ChaosOutcome& Look() {
    const absl::StatusOr<RunResult> result = ReadRunResult(DisturbedFolder());
    if (result.ok()) outcome_.disturbed = *result;
    if (!result.ok() && outcome_.failure.empty()) {
      outcome_.failure = std::string(result.status().message());
    }
    absl::StatusOr<Ledger> ledger = ReadRunLedger(DisturbedFolder());
    if (ledger.ok()) {
      outcome_.ledger = *std::move(ledger);
    } else {
      outcome_.ledger.errors = {std::string(ledger.status().message())};
    }
    return outcome_;
  }

  const std::string& folder() const { return folder_; }

 private:
  std::string JobPath() const {
    return absl::StrCat(folder_, "/job.textproto");
  }
  std::string DisturbedFolder() const {
    return absl::StrCat(folder_, "/disturbed");
  }
  std::string WrappedFolder() const {
    return absl::StrCat(folder_, "/daemons");
  }

  // Trains the job in `run_dir`. If there is a director, it disturbs the run.
  ChildExit Train(const std::string& run_dir, const std::string& bin_dir,
                  Director* director) {
    const bool disturbed = director != nullptr;
    progress_ << (disturbed ? "disturbed: " : "undisturbed: ") << std::flush;
    std::error_code error;
    const std::string self =
        std::filesystem::read_symlink("/proc/self/exe", error).string();
    std::vector<std::string> command = {
        self, "train", JobPath(), "--run-dir", run_dir, "--bin-dir", bin_dir};
    if (!options_.tls.empty()) {
      command.push_back(absl::StrCat("--tls=", options_.tls));
    }
    if (!options_.command.empty()) {
      command.push_back("--");
      command.insert(command.end(), options_.command.begin(),
                     options_.command.end());
    }
    const auto started =
        LaunchedRun::Start(command, absl::StrCat(run_dir, ".log"));
    if (!started.ok()) {
      std::cerr << started.status().message() << "\n";
      return {.status = 1};
    }
    LaunchedRun& run = **started;
    std::optional<CoordinatorWatch> coordinator;
    std::optional<ChildExit> exit;
    while (!exit.has_value()) {
      const std::optional<int> signal = signals_.WaitFor(kLookEvery);
      if (signal.has_value() && *signal != SIGCHLD) {
        interrupted_ = true;
        run.Kill();
      }
      exit = run.Poll();
      progress_ << run.TakeOutput() << std::flush;
      if (!disturbed || exit.has_value() || given_up_) continue;
      if (!coordinator.has_value()) {
        const LeadAddress address = LeadAddressOf(run_dir);
        if (address.host_port.empty()) continue;
        coordinator.emplace(address, security_.ToLead(), kStatusPatience);
      }
      if (!Disturb(*director, *coordinator, run)) {
        given_up_ = true;
        run.Kill();
      }
    }
    return *exit;
  }

  // Looks at the run and does what the director says. False: the run is given
  // up.
  bool Disturb(Director& director, CoordinatorWatch& coordinator,
               LaunchedRun& run) {
    RunLook look{.now = clock_->Now(), .running = run.Parts()};
    const absl::StatusOr<proto::JobStatus> status = coordinator.GetStatus();
    if (status.ok()) look.status = &*status;
    const Disturbance what = director.OnLook(look);
    for (const std::string& line : what.say) {
      progress_ << line << std::endl;
    }
    absl::Status done;
    for (const std::string& name : what.heal) {
      done.Update(networks_->Heal(name));
    }
    for (const std::string& name : what.cut) {
      done.Update(networks_->Cut(name));
    }
    for (const Disturbance::Storage& storage : what.storage) {
      done.Update(storage.fault == StorageFault::kNone
                      ? storage_->Heal(storage.server)
                      : storage_->Break(storage.server, storage.fault));
    }
    for (const Disturbance::Signal& signal : what.signals) {
      const auto part = look.running.find(signal.name);
      if (part != look.running.end()) kill(part->second, signal.number);
    }
    if (!done.ok()) outcome_.failure = std::string(done.message());
    return done.ok() && what.failure.empty();
  }

  // How many cuts there can be. Makes the networks that they need.
  absl::StatusOr<int> Cuts() {
    const int wanted = options_.cuts.value_or(options_.stops);
    if (wanted == 0) return 0;
    absl::StatusOr<std::unique_ptr<PartNetworks>> networks =
        PartNetworks::Create(PartsOf(job_.job), folder_);
    if (networks.ok()) {
      networks_ = *std::move(networks);
      return wanted;
    }
    if (options_.cuts.has_value()) return networks.status();
    progress_ << "nobody is cut off: " << networks.status().message() << "\n";
    return 0;
  }

  absl::Status ReadUndisturbed(const std::string& from) {
    SLUICE_ASSIGN_OR_RETURN(outcome_.undisturbed, ReadRunResult(from));
    SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job,
                            LoadJob(absl::StrCat(from, "/job.textproto"), {}));
    const std::string difference =
        DescribeDifference(FormatJob(job_.job), FormatJob(job.job));
    if (!difference.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(from, ": is a run of another job: ", difference));
    }
    if (outcome_.undisturbed.failure.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(from, ": the run failed: ", outcome_.undisturbed.failure));
  }

  // Constant after construction.
  const ResolvedJob& job_;
  const ChaosOptions& options_;
  Clock* const clock_ = Clock::Real();
  std::ostream& progress_;

  // For both runs, so that no signal between them is missed.
  SignalWait signals_;
  TransportSecurity security_;
  std::string folder_;
  std::unique_ptr<PartNetworks> networks_;
  std::unique_ptr<PartStorage> storage_;
  bool interrupted_ = false;
  bool given_up_ = false;
  ChaosOutcome outcome_;
};

// Trains `job` undisturbed and then disturbed, and judges whether every
// guarantee held. Prints progress and result to stdout, but with `json` the
// progress to stderr, and errors to stderr. Returns the exit status: 0
// everything held, 1 something did not, 2 the job cannot be disturbed like
// this, 130 the user ended it. REQUIRES: no other thread has been started.
int RunChaos(const ResolvedJob& job, const ChaosOptions& options) {
  ChaosRun run(job, options);
  const absl::Status prepared = run.Prepare();
  if (!prepared.ok()) {
    std::cerr << prepared.message() << "\n";
    return ExitCodeOfRefusal(prepared);
  }
  if (const int exit = run.TrainUndisturbed(); exit != 0) return exit;
  if (!run.TrainDisturbed()) return kInterrupted;
  const ChaosOutcome& outcome = run.Look();
  const std::string json = ChaosJson(outcome);
  const absl::Status written =
      WriteFileAtomically(absl::StrCat(run.folder(), "/chaos.json"), {json});
  if (!written.ok()) std::cerr << written.message() << "\n";
  std::cout << (options.json ? json : DescribeChaos(outcome)) << std::flush;
  return written.ok() && AllHold(Judge(outcome)) ? 0 : 1;
}

struct ChaosFlags {
  JobFlags job;
  ChaosOptions options;
  std::optional<int> stops;
  double patience_s = 60;
  bool no_servers = false;
};

// The job, with checkpoints where it has none.
absl::StatusOr<ResolvedJob> LoadWithCheckpoints(ChaosFlags& flags, int acts) {
  absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok() || job->job.has_checkpoint()) return job;
  const absl::StatusOr<int64_t> updates = UpdatesOf(*job);
  if (!updates.ok()) return updates.status();
  flags.job.set.push_back(absl::StrCat("checkpoint.every_updates=",
                                       CheckpointEveryFor(*updates, acts)));
  return flags.job.Load();
}

int Chaos(ChaosFlags& flags) {
  ChaosOptions& options = flags.options;
  // By default a third of the acts are stops, and another third cuts.
  options.stops = flags.stops.value_or((options.kills + 2) / 3);
  options.patience = absl::Seconds(flags.patience_s);
  options.servers = !flags.no_servers;
  if (flags.no_servers && options.storage_faults > 0) {
    std::cerr << "--storage-faults: only servers use the run folder, and there "
                 "is --no-servers\n";
    return 2;
  }
  if (options.bin_dir.empty()) options.bin_dir = DefaultBinDir();
  const int acts = options.kills + options.stops +
                   options.cuts.value_or(options.stops) +
                   options.storage_faults;
  const absl::StatusOr<ResolvedJob> job = LoadWithCheckpoints(flags, acts);
  const absl::Status agrees =
      job.ok() ? CheckModelCommand(job->job, options.command) : job.status();
  if (!agrees.ok()) {
    std::cerr << agrees.message() << "\n";
    return 2;
  }
  return RunChaos(*job, options);
}

}  // namespace

void AddChaosCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "chaos", "Train a job while its processes die, and check that all held");
  auto flags = std::make_shared<ChaosFlags>();
  ChaosOptions& options = flags->options;
  flags->job.AddAllButSeedTo(*command);
  command
      ->add_option("--seed", options.seed,
                   "Of what is done, to whom and when; default 1")
      ->check(WhyNoSeed);
  command->add_option("--kills", options.kills, "SIGKILLs; default 6")
      ->check(WholeFrom(0, kMostOfAKind));
  command
      ->add_option(
          "--stops", flags->stops,
          "SIGSTOPs, with SIGCONT later; default: a third of the kills")
      ->check(WholeFrom(0, kMostOfAKind));
  command
      ->add_option("--cuts", options.cuts,
                   "Times that somebody's network is cut; default: as many as "
                   "stops where the system lets it")
      ->check(WholeFrom(0, kMostOfAKind));
  command
      ->add_option("--storage-faults", options.storage_faults,
                   "Times that a server's run folder cannot be read, is full, "
                   "or stalls; default 0")
      ->check(WholeFrom(0, kMostOfAKind));
  command->add_flag("--no-servers", flags->no_servers,
                    "Leave shards and the coordinator alone");
  command
      ->add_option("--tolerance", options.tolerance,
                   "Of the final accuracy (a regression's loss); default "
                   "0.02")
      ->check(NumberFrom(0, 1e9));
  command
      ->add_option("--patience", flags->patience_s,
                   "Seconds without an update that are a hang; default 60")
      ->check(NumberFrom(1e-3, 1e9));
  command->add_option("--tls", options.tls,
                      "Folder of certificates, as `sluice certs` makes it: "
                      "the daemons talk by mutual TLS");
  command->add_option("--run-dir", options.run_dir,
                      "Folder for both runs, new or empty; default "
                      "runs/NAME-chaos-N");
  command->add_option("--undisturbed", options.undisturbed,
                      "Folder of a run of the same job that nobody disturbed");
  command->add_option("--bin-dir", options.bin_dir, "As of train");
  command->add_flag("--json", options.json, "Print one JSON object");
  AddModelCommand(command, &options.command);
  command->callback([flags, exit_code] { *exit_code = Chaos(*flags); });
}

}  // namespace sluice

#include "ps_server/flags.h"

#include <CLI/CLI.hpp>

#include "common/process/command_line.h"

namespace sluice {

std::variant<Flags, int> ParseFlags(int argc, char** argv) {
  Flags flags;
  CLI::App app("Holds one shard of the weights; shard 0 also leads the run.",
               "ps_server");
  app.add_option("--job", flags.job, "job file (textproto)")->required();
  app.add_option("--shard", flags.shard, "number of this shard; 0 leads")
      ->required();
  app.add_option("--set", flags.overrides,
                 "override a field of the job, as sync.k=3; repeatable")
      ->allow_extra_args(false);
  app.add_option("--listen", flags.listen,
                 "host:port to listen on; port 0 is a free one. Default: "
                 "cluster.coordinator's port for shard 0, else a free one, on "
                 "all interfaces");
  app.add_option("--advertise", flags.advertise,
                 "host:port where others reach it. Default: what it listens "
                 "on, with this host's name for all interfaces");
  app.add_option("--coordinator", flags.coordinator,
                 "host:port of shard 0. Default: cluster.coordinator");
  app.add_option("--run-dir", flags.run_dir,
                 "folder for shard 0's addresses, commit log, metrics and "
                 "summary, and for every shard's part of checkpoints. Default: "
                 "output.run_dir");
  app.add_option(
      "--checkpoint-dir", flags.checkpoint_dir,
      "folder on a disk of this shard's own for its part of "
      "checkpoints, beside those of other runs; for hosts that share "
      "no run folder. Whoever takes this shard's place must see the "
      "files there. Default: the run folder");
  app.add_flag("--resume", flags.resume,
               "shard 0 goes on with the run in the run folder from its newest "
               "whole checkpoint, or version 0 if there is none, and begins a "
               "run if none has been there; the others do as shard 0 tells "
               "them");
  app.add_option("--log", flags.log,
                 "file to append the log to, opened anew on SIGHUP. Default: "
                 "stderr");
  app.add_option("--run-id", flags.run_id,
                 "name of the run. With --resume shard 0 goes on with that run "
                 "alone, and begins none where its folder is empty. Default: "
                 "drawn when the run begins");
  app.add_flag("--debug", flags.debug, "log every task");
  CLI::Option* http = app.add_option(
      "--http", flags.http,
      "host:port on which shard 0 shows the run to browsers (/) and to "
      "Prometheus (/metrics), and another shard itself to the latter: in plain "
      "text, to read only, to whoever reaches it. Default: none");
  app.add_option("--http-linger", flags.http_linger_s,
                 "seconds for which shard 0 goes on showing how the run stood "
                 "in the end, so that Prometheus sees it; SIGTERM ends them")
      ->check(CLI::Range(0, 86400))
      ->needs(http)
      ->capture_default_str();
  app.add_flag(
      "--yield", flags.yield,
      "on SIGTERM end with 75, since this process is to be started "
      "again, perhaps elsewhere, and the run goes on; the lead writes "
      "a checkpoint first. Default: the lead ends the run, and another "
      "shard waits for its end");
  AddTlsFlags(&app, &flags.tls);
  if (const auto code = ParseCommandLine(argc, argv, &app)) return *code;
  return flags;
}

}  // namespace sluice

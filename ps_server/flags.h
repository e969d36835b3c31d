#ifndef SLUICE_PS_SERVER_FLAGS_H_
#define SLUICE_PS_SERVER_FLAGS_H_

#include <string>
#include <variant>
#include <vector>

#include "common/tls/tls_flags.h"

namespace sluice {

// The command line of ps_server. Flags select; the job file configures.
struct Flags {
  std::string job;                     // Path of the job file.
  int shard = 0;                       // 0 is the lead.
  std::vector<std::string> overrides;  // Each "a.b=c".
  // Each "host:port"; addresses.h says what holds where one is empty.
  std::string listen;          // Port 0: a free one.
  std::string advertise;       // Where others reach it.
  std::string coordinator;     // Where the other shards reach the lead.
  std::string run_dir;         // Empty: output.run_dir.
  std::string checkpoint_dir;  // Of this shard's own; empty: run_dir.
  bool resume = false;         // The lead goes on with a run in its folder.
  std::string log;             // Empty: stderr.
  std::string run_id;          // Of that run; empty: any.
  bool debug = false;          // Every task is logged.
  std::string http;            // Of the pages, host:port; empty: none.
  bool yield = false;          // On SIGTERM (ShardDaemon::Yield).
  int http_linger_s = 0;       // How long they stay once the run is over.
  TlsFlags tls;
};

// The flags, or the exit code of a process that has nothing more to do: 0
// after --help, 2 after a mistake, which has been printed.
std::variant<Flags, int> ParseFlags(int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_FLAGS_H_

#ifndef SLUICE_PS_SERVER_FLAGS_H_
#define SLUICE_PS_SERVER_FLAGS_H_

#include <string>
#include <variant>
#include <vector>

namespace sluice {

// The command line of ps_server. Flags select; the job file configures.
struct Flags {
  std::string job;                     // Path of the job file.
  int shard = 0;                       // 0 is the lead.
  std::vector<std::string> overrides;  // Each "a.b=c".
  std::string listen;                  // "host:port"; port 0: a free one.
  std::string advertise;               // "host:port" where others reach it.
  std::string coordinator;             // "host:port", for the other shards.
  std::string run_dir;                 // Of the lead; empty: nothing is kept.
  bool debug = false;
};

// The flags, or the exit code of a process that has nothing more to do: 0
// after --help, 2 after a mistake, which has been printed.
std::variant<Flags, int> ParseFlags(int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_FLAGS_H_

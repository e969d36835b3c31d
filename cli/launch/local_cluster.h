#ifndef SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_
#define SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/launch/child_process.h"
#include "cli/launch/supervision.h"

namespace sluice {

// What the children of one run are started from.
struct ClusterPlan {
  // Folder with ps_server/ps_server, worker/worker and worker/evaluator.
  std::string bin_dir;
  std::string run_dir;
  std::string run_id;
  std::string job_path;  // The resolved job, which every child reads.
  int shards = 1;
  int workers = 1;
  int max_workers = 1;  // With those that others may start.
  bool evaluator = true;
  bool resume = false;    // The lead goes on with the run in `run_dir`.
  bool timeline = false;  // Workers write RUN_DIR/timeline.json.
};

// Where the build lays the daemons' folders: beside the tool's own.
std::string DefaultBinDir();

// The command line of each child; `lead` is the coordinator's "host:port". The
// lead has it when it is started again: it must be where it was.
std::vector<std::string> LeadCommand(const ClusterPlan& plan,
                                     const std::string& lead = "");
std::vector<std::string> ShardCommand(const ClusterPlan& plan, int shard,
                                      const std::string& lead);
std::vector<std::string> WorkerCommand(const ClusterPlan& plan, int worker,
                                       const std::string& lead);
std::vector<std::string> EvaluatorCommand(const ClusterPlan& plan,
                                          const std::string& lead);

// The processes of one run on this machine. Each child's output goes to
// RUN_DIR/NAME.log. Whatever still runs is killed with this object.
//
// Not thread-safe: call from the thread that made it.
class LocalCluster {
 public:
  explicit LocalCluster(ClusterPlan plan);

  // Shard 0, which says in RUN_DIR/addresses where its coordinator listens.
  absl::Status StartLead();
  // Everybody else.
  absl::Status StartOthers(const std::string& lead);

  // A child in the place of the one of that name, which has ended; its log goes
  // on. A lead goes on with the run. REQUIRES: it was started before.
  absl::Status Restart(const std::string& name);

  // Sends `number` to a child; nothing happens when there is none of that name.
  void Signal(const std::string& name, int number);
  // Of the children that have not been taken: "ps_server-0", "worker-2".
  std::vector<std::string> Names() const;

  // The children that ended since the last call.
  std::vector<PartEnd> TakeEnded();
  // Whether every child has ended and been taken.
  bool Empty() const { return children_.empty(); }
  void KillAll();

  // The coordinator's address as soon as shard 0 has written it, else empty.
  std::string ReadLeadAddress() const;

  // The last lines of a child's log, indented.
  std::string TailOf(const std::string& name) const;

 private:
  struct Child {
    Part part;
    std::string name;
    std::unique_ptr<ChildProcess> process;
  };

  absl::Status Start(Part part, int number, const std::string& lead);
  std::string LogPath(const std::string& name) const;

  std::vector<std::string> CommandOf(Part part, int number,
                                     const std::string& lead) const;

  const ClusterPlan plan_;  // Constant after construction.

  std::vector<Child> children_;
  std::map<std::string, std::pair<Part, int>> started_;  // By name.
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_

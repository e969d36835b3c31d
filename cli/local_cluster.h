#ifndef SLUICE_CLI_LOCAL_CLUSTER_H_
#define SLUICE_CLI_LOCAL_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/child_process.h"
#include "cli/supervision.h"

namespace sluice {

// What the children of one run are started from.
struct ClusterPlan {
  // Folder with ps_server/ps_server, worker/worker and worker/evaluator.
  std::string bin_dir;
  std::string run_dir;
  std::string job_path;  // The resolved job, which every child reads.
  int shards = 1;
  int workers = 1;
  bool evaluator = true;
  bool resume = false;  // The lead goes on with the run in `run_dir`.
};

// The command line of each child; `lead` is the coordinator's "host:port".
std::vector<std::string> LeadCommand(const ClusterPlan& plan);
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

  // A new evaluator in the place of one that ended; its log goes on.
  absl::Status StartEvaluator(const std::string& lead);

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

  absl::Status Start(Part part, const std::string& name,
                     const std::vector<std::string>& command);
  std::string LogPath(const std::string& name) const;

  const ClusterPlan plan_;  // Constant after construction.

  std::vector<Child> children_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LOCAL_CLUSTER_H_

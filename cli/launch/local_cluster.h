#ifndef SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_
#define SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cli/launch/child_process.h"
#include "cli/launch/supervision.h"
#include "cli/run_folder.h"
#include "common/job/group.h"

namespace sluice {

// How the children of one run are started.
struct ClusterPlan {
  // Folder with ps_server/ps_server, worker/worker and worker/evaluator.
  std::string bin_dir;
  std::string run_dir;
  std::string run_id;
  std::string job_path;  // The resolved job, which every child reads.
  int shards = 1;
  int workers = 1;      // Or groups.
  int max_workers = 1;  // With workers that somebody else may start.
  std::vector<MemberLinks> members = {{}};  // Of each group.
  bool evaluator = true;
  bool resume = false;    // The lead goes on with the run in `run_dir`.
  bool timeline = false;  // Workers write RUN_DIR/timeline.json.
  // With a folder of certificates for each role; empty: plain text.
  std::string tls;
  std::string http = {};  // Where the lead shows the run; empty: nowhere.
  int http_linger_s = 0;  // How long it does once the run is over.
  // The model process of each worker and its arguments; empty: none.
  std::vector<std::string> command = {};
  // The same of the evaluator.
  std::vector<std::string> evaluator_command = {};
};

// The folder of the daemons' folders. The build puts it above the tool's own.
std::string DefaultBinDir();

// The processes of one run on this machine. Each child's output goes to
// RUN_DIR/NAME.log. The destructor kills whatever still runs.
//
// Not thread-safe: call from the thread that made it.
class LocalCluster {
 public:
  explicit LocalCluster(ClusterPlan plan);

  // Starts shard 0. It writes to RUN_DIR/addresses where its coordinator
  // listens.
  absl::Status StartLead();
  // Starts all other children.
  absl::Status StartOthers(const std::string& lead);

  // Starts a child again that has ended. It appends to the same log, and a lead
  // resumes the run. REQUIRES: it was started before.
  absl::Status Restart(const std::string& name);
  // What has become of such a child that could not be started, for `why`: it
  // may be tried again like one that was killed.
  PartEnd NotStarted(const std::string& name, const absl::Status& why) const;

  // Sends signal `number` to a child. Does nothing if no child has that name.
  void Signal(const std::string& name, int number);
  // Sends it to all members of a worker.
  void SignalWorker(int worker, int number);
  // Names of the children that TakeEnded has not returned: "ps_server-0",
  // "worker-2".
  std::vector<std::string> Names() const;

  // The children that ended since the last call.
  std::vector<PartEnd> TakeEnded();
  // Whether TakeEnded has returned every child.
  bool Empty() const { return children_.empty(); }
  void KillAll();

  // The coordinator's address; empty until shard 0 has written it.
  LeadAddress ReadLeadAddress() const;

  // The last lines of a child's log, indented.
  std::string TailOf(const std::string& name) const;

 private:
  // With what its log says of the reason, if it ended by itself.
  std::string HowEnded(const std::string& name, const ChildExit& exit) const;

  struct Child {
    Part part;
    std::string name;
    std::unique_ptr<ChildProcess> process;
  };

  absl::Status Start(Part part, int number, const std::string& lead);
  std::string LogPath(const std::string& name) const;
  // Whether there is a run for a lead that is started again to resume.
  bool LeftRun() const;

  std::vector<std::string> CommandOf(Part part, int number,
                                     const std::string& lead) const;
  // The command of the part's model process; empty: it has none.
  std::vector<std::string> ModelCommandOf(Part part) const;

  const ClusterPlan plan_;  // Constant after construction.

  std::vector<Child> children_;
  std::map<std::string, std::pair<Part, int>> started_;  // By name.
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_LOCAL_CLUSTER_H_

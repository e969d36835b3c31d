#ifndef SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_
#define SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/chaos/part_networks.h"
#include "cli/chaos/part_storage.h"

namespace sluice {

// Fills `folder` with programs that a launcher can start in place of those of
// `bin_dir` (--bin-dir). Each becomes the daemon of that name, on the network
// of its part, where it also listens, and with the faults of its storage.
//
// `networks` has all `parts`; null: parts stay on the launcher's network.
// `storage`: null: no faults. Both must outlive the daemons.
//
// kUnavailable: a file cannot be written.
absl::Status WrapDaemons(const std::string& folder, const std::string& bin_dir,
                         const std::vector<std::string>& parts,
                         const PartNetworks* networks,
                         const PartStorage* storage);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_

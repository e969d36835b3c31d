#ifndef SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_
#define SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/chaos/part_networks.h"
#include "cli/chaos/part_storage.h"

namespace sluice {

// Makes `folder` one that a launcher can take for that of the daemons
// (--bin-dir): its programs become those of `bin_dir`, each part on its own
// network, where it also listens, and servers with their own view of the
// storage. `networks` has every one of the `parts`; null: they stay where the
// launcher is. `storage` may be null, too. Both outlive what is started so.
//
// kUnavailable: a file cannot be written.
absl::Status WrapDaemons(const std::string& folder, const std::string& bin_dir,
                         const std::vector<std::string>& parts,
                         const PartNetworks* networks,
                         const PartStorage* storage);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_WRAPPED_DAEMONS_H_

#ifndef SLUICE_CLI_REPORT_JOB_CHECK_H_
#define SLUICE_CLI_REPORT_JOB_CHECK_H_

#include <ostream>

#include "cli/report/job/check_report.h"
#include "cli/report/job/profile.h"
#include "common/job/resolved_job.h"

namespace sluice {

// Prints the job with all defaults, and what follows from it: where each tensor
// lies, memory, bytes of an update, learning rate, expected staleness,
// warnings, and of `profile`, unless it is null. Prints text, or one JSON
// object whose names stay the same from release to release.
void PrintCheck(const ResolvedJob& job, const ProfileReport* profile, bool json,
                std::ostream& out);

// Prints what `needs` says beside what a process here may have, with a warning
// where that is less.
void PrintDescriptors(const DescriptorNeeds& needs, std::ostream& out);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_CHECK_H_

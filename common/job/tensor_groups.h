#ifndef SLUICE_COMMON_JOB_TENSOR_GROUPS_H_
#define SLUICE_COMMON_JOB_TENSOR_GROUPS_H_

#include <string>
#include <vector>

#include "common/parameter_layout.h"
#include "proto/job.pb.h"

namespace sluice {

// Gives the tensors that `optimizer.group` names their factors. Returns what is
// wrong, each with its field: a pattern that fits no trained tensor, or a
// tensor of two groups. Pure.
std::vector<std::string> ApplyTensorGroups(const proto::Optimizer& optimizer,
                                           std::vector<TensorSpec>* tensors);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_TENSOR_GROUPS_H_

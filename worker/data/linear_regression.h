#ifndef SLUICE_WORKER_DATA_LINEAR_REGRESSION_H_
#define SLUICE_WORKER_DATA_LINEAR_REGRESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// A data set whose optimum is known: y = x w* + noise, with standard normal x
// and w* and normal noise. Each number is keyed by (seed, split, sample).
std::unique_ptr<DataSource> MakeLinearRegression(
    const proto::LinearRegression& options, Split split, uint64_t seed);

// The true weights w*, (features). If `noise` is 0, a dense layer of one unit
// with these weights and bias 0 has a loss of 0, up to rounding.
std::vector<float> LinearRegressionOptimum(
    const proto::LinearRegression& options, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_LINEAR_REGRESSION_H_

#ifndef SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_
#define SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_

#include <cstdint>
#include <memory>

#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// Images with the shape and classes of `options`, whose defaults are filled in.
// A sample is generated when it is gathered, from (seed, split, sample). The
// classes' patterns are kept in memory.
std::unique_ptr<DataSource> MakeSyntheticImages(
    const proto::SyntheticImages& options, Split split, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_

#ifndef SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_
#define SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_

#include <cstdint>
#include <memory>

#include "proto/job.pb.h"
#include "worker/data/data_source.h"

namespace sluice {

// Images of the shape and classes that `options`, with its defaults filled in,
// asks for. A sample is made when it is gathered, from (seed, split, sample);
// the classes' patterns are in memory.
std::unique_ptr<DataSource> MakeSyntheticImages(
    const proto::SyntheticImages& options, Split split, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_SYNTHETIC_IMAGES_H_

#include "worker/compute/job_sampling.h"

#include <algorithm>

#include "common/job/data_shape.h"
#include "common/status_macros.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

Augmentation JobAugmentation(const ResolvedJob& resolved) {
  const proto::Data& data = resolved.job.data();
  SLUICE_CHECK(HasImages(data));  // Else the job is not valid.
  AugmentationOptions options;
  options.seed = resolved.job.seed();
  options.channels = resolved.data.input_shape[0];
  options.height = resolved.data.input_shape[1];
  options.width = resolved.data.input_shape[2];
  options.crop_padding = data.augmentation().crop_padding();
  options.horizontal_flip = data.augmentation().horizontal_flip();
  for (int c = 0; c < options.channels; ++c) {
    options.background.push_back(NormalisedPixel(data, c, /*pixel=*/0));
  }
  return Augmentation(options);
}

}  // namespace

BatchSampling JobSampling(const ResolvedJob& resolved) {
  const proto::Job& job = resolved.job;
  BatchSampling sampling;
  sampling.seed = job.seed();
  sampling.train_samples = resolved.data.train_samples;
  sampling.batch_size = job.data().batch_size();
  sampling.shuffle = job.data().shuffle();
  sampling.partitions = job.data().sharding() == proto::Data::STATIC
                            ? job.cluster().workers()
                            : 1;
  return sampling;
}

NativeGradient::Options JobNativeGradient(const ResolvedJob& resolved) {
  NativeGradient::Options options;
  options.sampling = JobSampling(resolved);
  options.micro_batch = JobMicroBatch(resolved);
  options.parameters = resolved.layout.size();
  options.inputs = resolved.data.inputs();
  options.clip_norm = resolved.job.worker().clip_norm();
  options.batches_per_round = int64_t{resolved.job.sync().local_steps()} *
                              resolved.job.cluster().workers();
  if (resolved.job.data().has_augmentation() &&
      !resolved.job.data().has_jpeg()) {  // Which varies its images itself.
    options.augmentation = JobAugmentation(resolved);
  }
  return options;
}

int JobMicroBatch(const ResolvedJob& resolved) {
  return std::min(resolved.job.worker().micro_batch(),
                  resolved.job.data().batch_size());
}

}  // namespace sluice

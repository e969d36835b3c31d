// A default may depend on what is set and on the defaults before it, so their
// order matters: sync.k is 1 with an adaptive K, else the number of groups;
// the adaptive K's maximum is the larger of both. Nothing that is set is
// changed, so a run folder's job, which is resolved, stays as it is.
#include <algorithm>

#include "common/formats/cifar_file.h"
#include "common/formats/image_list.h"
#include "common/job/data_shape.h"
#include "common/job/fill_default.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/job/resolved_job.h"
#include "common/layers/layer_kind.h"

namespace sluice {
namespace {

void ResolveKSchedule(int workers, proto::Sync* sync) {
  if (!sync->has_k_schedule()) return;
  proto::KSchedule* schedule = sync->mutable_k_schedule();
  switch (schedule->kind_case()) {
    case proto::KSchedule::kAdaptive:
      SLUICE_DEFAULT(schedule->mutable_adaptive(), max_k,
                     std::max(sync->k(), workers));
      SLUICE_DEFAULT(schedule->mutable_adaptive(), smoothing_updates, 20);
      break;
    case proto::KSchedule::KIND_NOT_SET:
      schedule->mutable_fixed();
      break;
    case proto::KSchedule::kFixed:
    case proto::KSchedule::kByVersion:
      break;
  }
}

void ResolveSync(int workers, proto::Sync* sync) {
  SLUICE_DEFAULT_ENUM(sync, policy, proto::SYNC);
  SLUICE_DEFAULT(sync, k, sync->k_schedule().has_adaptive() ? 1 : workers);
  ResolveKSchedule(workers, sync);
  SLUICE_DEFAULT(sync, gradients_per_update, workers);
  SLUICE_DEFAULT(sync, local_steps, 1);
  SLUICE_DEFAULT_ENUM(sync, on_shortage, proto::WAIT);
  SLUICE_DEFAULT(sync, shortage_timeout_s, 60);
  SLUICE_DEFAULT_ENUM(sync, on_bad_gradient, proto::FAIL);
  SLUICE_DEFAULT(sync, warm_start_updates, 0);
}

template <typename AdamOrAdamW>
void ResolveAdam(double weight_decay, AdamOrAdamW* adam) {
  SLUICE_DEFAULT(adam, beta1, 0.9);
  SLUICE_DEFAULT(adam, beta2, 0.999);
  SLUICE_DEFAULT(adam, epsilon, 1e-8);
  SLUICE_DEFAULT(adam, weight_decay, weight_decay);
}

void ResolveOptimizer(proto::Optimizer* optimizer) {
  SLUICE_DEFAULT(optimizer, learning_rate, 0.01);
  for (proto::TensorGroup& group : *optimizer->mutable_group()) {
    SLUICE_DEFAULT(&group, learning_rate_factor, 1);
  }
  switch (optimizer->kind_case()) {
    case proto::Optimizer::kSgd:
    case proto::Optimizer::KIND_NOT_SET:
      SLUICE_DEFAULT(optimizer->mutable_sgd(), momentum, 0);
      SLUICE_DEFAULT(optimizer->mutable_sgd(), nesterov, false);
      SLUICE_DEFAULT(optimizer->mutable_sgd(), weight_decay, 0);
      break;
    case proto::Optimizer::kAdagrad:
      SLUICE_DEFAULT(optimizer->mutable_adagrad(), initial_accumulator, 0.1);
      SLUICE_DEFAULT(optimizer->mutable_adagrad(), weight_decay, 0);
      break;
    case proto::Optimizer::kAdam:
      ResolveAdam(0, optimizer->mutable_adam());
      break;
    case proto::Optimizer::kAdamw:
      ResolveAdam(0.01, optimizer->mutable_adamw());
      break;
    case proto::Optimizer::kAveraging:
      break;
  }
}

void ResolveSchedule(proto::Schedule* schedule) {
  switch (schedule->kind_case()) {
    case proto::Schedule::kConstant:
      break;
    case proto::Schedule::kStep:
      SLUICE_DEFAULT(schedule->mutable_step(), factor, 0.1);
      break;
    case proto::Schedule::kCosine:
      SLUICE_DEFAULT(schedule->mutable_cosine(), final_factor, 0);
      break;
    case proto::Schedule::KIND_NOT_SET:
      schedule->mutable_constant();
      break;
  }
  SLUICE_DEFAULT(schedule, warmup_epochs, 0);
  SLUICE_DEFAULT(schedule, linear_scaling, false);
}

// Of test images before their centre is taken: 256 for 224, as everybody does.
int ShorterSide(int64_t size) {
  return static_cast<int>(
      std::clamp<int64_t>((size * 8 + 6) / 7, 1, kMostJpegResize));
}

// Of proto::Cifar or proto::Jpeg.
template <typename Reader>
void ResolvePixels(int channels, Reader* reader) {
  if (reader->mean().empty()) reader->mutable_mean()->Resize(channels, 0);
  if (reader->deviation().empty()) {
    reader->mutable_deviation()->Resize(channels, 1);
  }
}

void ResolveData(proto::Data* data) {
  if (data->has_idx()) {
    SLUICE_DEFAULT(data->mutable_idx(), mean, 0);
    SLUICE_DEFAULT(data->mutable_idx(), deviation, 1);
  }
  if (data->has_cifar()) {
    proto::Cifar* cifar = data->mutable_cifar();
    SLUICE_DEFAULT_ENUM(cifar, classes, proto::Cifar::CIFAR10);
    ResolvePixels(kCifarChannels, cifar);
  }
  if (data->has_jpeg()) {
    proto::Jpeg* jpeg = data->mutable_jpeg();
    SLUICE_DEFAULT(jpeg, size, 224);
    SLUICE_DEFAULT(jpeg, resize, ShorterSide(jpeg->size()));
    SLUICE_DEFAULT_ENUM(jpeg, on_damage, proto::Jpeg::FAIL);
    SLUICE_DEFAULT(jpeg, threads, 0);
    if (jpeg->has_contents()) {
      SLUICE_DEFAULT(jpeg->mutable_contents(), test_samples, 0);
    }
    ResolvePixels(kJpegChannels, jpeg);
  }
  if (data->has_synthetic_images()) {
    proto::SyntheticImages* images = data->mutable_synthetic_images();
    SLUICE_DEFAULT(images, channels, 3);
    if (images->has_height()) SLUICE_DEFAULT(images, width, images->height());
    SLUICE_DEFAULT(images, classes, 10);
    SLUICE_DEFAULT(images, train_samples, 1024);
    SLUICE_DEFAULT(images, test_samples, 256);
    SLUICE_DEFAULT(images, noise, 1);
  }
  if (data->has_text()) SLUICE_DEFAULT(data->mutable_text(), length, 128);
  if (data->has_linear_regression()) {
    proto::LinearRegression* linear = data->mutable_linear_regression();
    SLUICE_DEFAULT(linear, train_samples, 1024);
    SLUICE_DEFAULT(linear, test_samples, 256);
    SLUICE_DEFAULT(linear, noise, 0);
  }
  if (data->has_external()) {
    SLUICE_DEFAULT(data->mutable_external(), test_samples, 0);
  }
  SLUICE_DEFAULT(data, batch_size, 64);
  SLUICE_DEFAULT_ENUM(data, sharding, proto::Data::DYNAMIC);
  SLUICE_DEFAULT(data, shuffle, true);
  if (data->has_augmentation()) {
    SLUICE_DEFAULT(data->mutable_augmentation(), crop_padding, 0);
    SLUICE_DEFAULT(data->mutable_augmentation(), horizontal_flip, false);
    if (data->augmentation().has_random_resized_crop()) {
      SLUICE_DEFAULT(
          data->mutable_augmentation()->mutable_random_resized_crop(), min_area,
          0.08);
    }
  }
}

void ResolveExternal(proto::ExternalModel* external) {
  for (proto::ExternalTensor& tensor : *external->mutable_tensor()) {
    if (tensor.kind() == proto::ExternalTensor::STATISTIC) {
      SLUICE_DEFAULT(&tensor, momentum, 0.1);
    }
  }
}

void ResolveModel(const proto::Data& data, proto::Model* model) {
  FillLayerDefaults(model->mutable_layer());
  if (model->has_external()) ResolveExternal(model->mutable_external());
  SLUICE_DEFAULT_ENUM(model, loss,
                      model->has_external() ? proto::Model::MODEL_PROCESS
                      : data.has_linear_regression()
                          ? proto::Model::MEAN_SQUARED_ERROR
                          : proto::Model::SOFTMAX_CROSS_ENTROPY);
}

void ResolveLimits(int64_t needed, int workers, proto::Limits* limits) {
  // Clamped, so that an absurd k does not overflow before it is refused.
  SLUICE_DEFAULT(
      limits, staged_gradients,
      static_cast<int>(std::clamp<int64_t>(needed + workers, 1, 1 << 30)));
  SLUICE_DEFAULT(limits, commit_window, 4);
  SLUICE_DEFAULT(limits, chunk_bytes, 1 << 20);
  SLUICE_DEFAULT(limits, max_held, 2);
  SLUICE_DEFAULT(limits, lease_s, 5);
  SLUICE_DEFAULT(limits, task_deadline_s, 600);
  SLUICE_DEFAULT(limits, rejoin_timeout_s, 600);
  SLUICE_DEFAULT(limits, start_timeout_s, 300);
  SLUICE_DEFAULT(limits, transfer_stall_s, 30);
  SLUICE_DEFAULT(limits, partition_timeout_s, 600);
  SLUICE_DEFAULT(limits, regroup_timeout_s, 10);
  SLUICE_DEFAULT(limits, storage_timeout_s, 60);
  SLUICE_DEFAULT(limits, model_process_end_s, 30);
}

}  // namespace

void ResolveDefaults(proto::Job* job) {
  if (job->name().empty()) job->set_name("job");
  SLUICE_DEFAULT(job, seed, 1);
  proto::Cluster* cluster = job->mutable_cluster();
  SLUICE_DEFAULT(cluster, workers, 1);
  SLUICE_DEFAULT(cluster, shards, 1);
  proto::Worker* worker = job->mutable_worker();
  SLUICE_DEFAULT_ENUM(worker, device, proto::CPU);
  SLUICE_DEFAULT(worker, threads, 1);
  SLUICE_DEFAULT(worker, clip_norm, 0);
  proto::Group* group = worker->mutable_group();
  SLUICE_DEFAULT(group, pipeline_stages, 1);
  SLUICE_DEFAULT(group, slots, 1);
  SLUICE_DEFAULT_ENUM(worker, instruction_set, proto::WIDEST);
  SLUICE_DEFAULT_ENUM(worker, precision, proto::Worker::FP32);
  proto::Wire* wire = job->mutable_wire();
  SLUICE_DEFAULT_ENUM(wire, pull, proto::FP32);
  SLUICE_DEFAULT_ENUM(wire, push, proto::FP32);
  SLUICE_DEFAULT_ENUM(wire, shared_memory, proto::Wire::AUTO);
  // A slot more is no mini-batch more to wait for. Clamped, so that an absurd
  // number of workers is complained of once.
  ResolveSync(std::clamp(GroupsOf(*job), 1, kMostWorkers), job->mutable_sync());
  ResolveOptimizer(job->mutable_optimizer());
  ResolveSchedule(job->mutable_schedule());
  ResolveData(job->mutable_data());
  // Clamped, so that an absurd batch_size is complained of once.
  SLUICE_DEFAULT(worker, micro_batch,
                 std::clamp(job->data().batch_size(), 1, 1 << 20));
  ResolveModel(job->data(), job->mutable_model());
  proto::Evaluation* evaluation = job->mutable_evaluation();
  SLUICE_DEFAULT(evaluation, every_epochs, HasTestSplit(job->data()) ? 1 : 0);
  SLUICE_DEFAULT(evaluation, batch_size, 256);
  SLUICE_DEFAULT(evaluation, enabled, true);
  SLUICE_DEFAULT(job->mutable_output(), metrics_every_s, 1);
  SLUICE_DEFAULT(job->mutable_output(), digest_every_updates, 100);
  if (job->output().mode().empty()) job->mutable_output()->set_mode("0600");
  ResolveLimits(MostGradientsPerUpdate(job->sync()), MostWorkers(*cluster),
                job->mutable_limits());
  job->mutable_stop();
  if (!job->has_checkpoint()) return;
  proto::Checkpoint* checkpoint = job->mutable_checkpoint();
  SLUICE_DEFAULT(checkpoint, every_updates, 0);
  SLUICE_DEFAULT(checkpoint, every_s, 0);
  SLUICE_DEFAULT(checkpoint, keep, 2);
}

}  // namespace sluice

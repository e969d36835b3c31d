#ifndef SLUICE_WORKER_EXTERNAL_MODEL_DESCRIPTION_H_
#define SLUICE_WORKER_EXTERNAL_MODEL_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// What a model process is told of its job. Constant while it lives.
struct ModelDescription {
  enum class Kind { kWeight, kBias, kNorm, kStatistic };
  // Who has started the process: what is asked of it are gradients, or
  // measurements.
  enum class Role { kWorker, kEvaluator };
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset = 0;  // Floats from the start of the flat vector.
    Kind kind = Kind::kWeight;
  };

  std::string job;  // Its name.
  uint64_t seed = 0;
  Role role = Role::kWorker;
  int64_t worker = 0;
  int threads = 1;         // That it may compute with.
  int64_t batch_size = 0;  // Samples of a full mini-batch.
  int64_t train_samples = 0, test_samples = 0;
  // Of the training split, as BatchGrid cuts it.
  int64_t partitions = 1;
  int64_t parameters = 0;  // Floats of the flat vector.
  std::vector<Tensor> tensors;

  // The document that docs/model_process.md describes.
  std::string ToJson() const;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_MODEL_DESCRIPTION_H_

// A uniform distribution over [-limit, limit] has the variance limit^2 / 3. HE
// wants 2 / fan_in, so that relu layers keep the size of what they are given;
// XAVIER 2 / (fan_in + fan_out). A 3x3 convolution from 64 channels has fan_in
// 576 and HE's limit sqrt(6 / 576) = 0.102.
#include "common/layers/weights.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/status_macros.h"

namespace sluice {

void FillInitializer(proto::Initializer* initializer) {
  SLUICE_DEFAULT_ENUM(initializer, kind, proto::Initializer::HE);
  SLUICE_DEFAULT(initializer, value, 0);
}

void CheckInitializer(const std::string& path,
                      const proto::Initializer& initializer, Checker* check) {
  check->Between(absl::StrCat(path, ".initializer.value"), initializer.value(),
                 -1e6, 1e6);
}

absl::Status AddWeights(const std::vector<int64_t>& shape, int64_t fan_in,
                        int64_t fan_out, bool bias,
                        const proto::Initializer& initializer, LayerPlan* layer,
                        ShapeInference* model) {
  using Kind = TensorInitializer::Kind;
  TensorInitializer init = {.kind = Kind::kUniform};
  switch (initializer.kind()) {
    case proto::Initializer::XAVIER:
      init.limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
      break;
    case proto::Initializer::CONSTANT:
      init = {.kind = Kind::kConstant, .value = initializer.value()};
      break;
    default:
      init.limit = std::sqrt(6.0 / static_cast<double>(fan_in));
  }
  SLUICE_ASSIGN_OR_RETURN(
      layer->weight,
      model->AddTensor(*layer, "weight", shape, init, /*decay=*/true));
  if (!bias) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      layer->bias, model->AddTensor(*layer, "bias", {shape[0]},
                                    TensorInitializer(), /*decay=*/false));
  return absl::OkStatus();
}

}  // namespace sluice

#include "worker/external/model_description.h"

#include "common/telemetry/json_text.h"
#include "common/version.h"
#include "nlohmann/json.hpp"
#include "worker/external/model_protocol.h"

namespace sluice {
namespace {

const char* KindName(ModelDescription::Kind kind) {
  switch (kind) {
    case ModelDescription::Kind::kWeight:
      return "WEIGHT";
    case ModelDescription::Kind::kBias:
      return "BIAS";
    case ModelDescription::Kind::kNorm:
      return "NORM";
    case ModelDescription::Kind::kStatistic:
      return "STATISTIC";
  }
  return "";
}

const char* RoleName(ModelDescription::Role role) {
  switch (role) {
    case ModelDescription::Role::kWorker:
      return "worker";
    case ModelDescription::Role::kEvaluator:
      return "evaluator";
  }
  return "";
}

}  // namespace

std::string ModelDescription::ToJson() const {
  nlohmann::json table = nlohmann::json::array();
  for (const Tensor& tensor : tensors) {
    table.push_back({{"name", tensor.name},
                     {"shape", tensor.shape},
                     {"offset", tensor.offset},
                     {"kind", KindName(tensor.kind)}});
  }
  return JsonText(nlohmann::json{{"protocol", model_protocol::kProtocol},
                                 {"version", kVersion},
                                 {"job", job},
                                 {"seed", seed},
                                 {"role", RoleName(role)},
                                 {"worker", worker},
                                 {"threads", threads},
                                 {"batch_size", batch_size},
                                 {"train_samples", train_samples},
                                 {"test_samples", test_samples},
                                 {"partitions", partitions},
                                 {"parameters", parameters},
                                 {"tensors", table}});
}

}  // namespace sluice

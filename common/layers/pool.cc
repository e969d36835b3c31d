// max_pool, average_pool and global_average_pool.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

const proto::Pool& PoolOf(const proto::Layer& layer) {
  return layer.has_max_pool() ? layer.max_pool() : layer.average_pool();
}

void FillDefaults(proto::Layer* layer) {
  proto::Pool* pool = layer->has_max_pool() ? layer->mutable_max_pool()
                                            : layer->mutable_average_pool();
  if (pool->has_kernel()) SLUICE_DEFAULT(pool, stride, pool->kernel());
  SLUICE_DEFAULT(pool, padding, 0);
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::Pool& pool = PoolOf(layer);
  check->Between(absl::StrCat(path, ".kernel"), pool.kernel(), 1, 4096);
  if (!pool.has_stride()) return;  // Without a kernel, which is said above.
  check->Between(absl::StrCat(path, ".stride"), pool.stride(), 1, 4096);
  check->Between(absl::StrCat(path, ".padding"), pool.padding(), 0,
                 std::max(pool.kernel() - 1, 0), " (below kernel)");
}

absl::Status Infer(LayerPlan* layer, ShapeInference*) {
  const proto::Pool& pool = PoolOf(layer->layer);
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "kernel", pool.kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "stride", pool.stride()));
  if (pool.padding() >= pool.kernel()) {
    return LayerError(
        *layer, absl::StrCat("padding must be below kernel, ", pool.kernel(),
                             ", is ", pool.padding()));
  }
  return InferWindows(pool.kernel(), pool.stride(), pool.padding(), layer);
}

absl::Status InferGlobal(LayerPlan* layer, ShapeInference*) {
  SLUICE_RETURN_IF_ERROR(CheckImage(*layer));
  layer->output_shape.resize(1);
  return absl::OkStatus();
}

}  // namespace

const LayerKind kPoolLayer = {FillDefaults, Check, Infer};
const LayerKind kGlobalAveragePoolLayer = {.infer = InferGlobal};

}  // namespace sluice

#include "common/layers/layer_kind.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// "conv2d": what the field is called. REQUIRES: `layer` names a kind.
const std::string& FieldName(const proto::Layer& layer) {
  return proto::Layer::descriptor()
      ->FindFieldByNumber(layer.kind_case())
      ->name();
}

// "dense, conv2d or repeat", of all kinds.
std::string KindNames() {
  const auto* kinds = proto::Layer::descriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i + 1 < kinds->field_count(); ++i) {
    names.push_back(kinds->field(i)->name());
  }
  return absl::StrCat(absl::StrJoin(names, ", "), " or ",
                      kinds->field(kinds->field_count() - 1)->name());
}

void CheckLayer(const std::string& path, const proto::Layer& layer,
                Checker* check) {
  const LayerKind* kind = KindOf(layer);
  if (kind == nullptr) {  // It has no default name either.
    check->Add(path, absl::StrCat("must name a kind: ", KindNames()));
    return;
  }
  kind->check(layer, absl::StrCat(path, ".", FieldName(layer)), check);
  check->Name(absl::StrCat(path, ".name"), layer.name());
}

}  // namespace

void FillLayerDefaults(Layers* layers) {
  for (int i = 0; i < layers->size(); ++i) {
    proto::Layer* layer = layers->Mutable(i);
    const LayerKind* kind = KindOf(*layer);
    if (kind == nullptr) continue;
    kind->fill_defaults(layer);
    if (layer->name().empty()) {
      layer->set_name(absl::StrCat(FieldName(*layer), i));
    }
  }
}

void CheckLayers(const std::string& path, const Layers& layers,
                 Checker* check) {
  check->Require(!layers.empty(), path,
                 "must have at least one layer, has none");
  absl::flat_hash_map<std::string, int> names;
  for (int i = 0; i < layers.size(); ++i) {
    const std::string of_layer = absl::StrCat(path, "[", i, "]");
    CheckLayer(of_layer, layers[i], check);
    if (layers[i].name().empty()) continue;
    const auto [taken, is_new] = names.emplace(layers[i].name(), i);
    check->Require(
        is_new, absl::StrCat(of_layer, ".name"),
        absl::StrCat("must be another than ", path, "[", taken->second,
                     "]'s, is \"", layers[i].name(), "\" too"));
  }
}

}  // namespace sluice

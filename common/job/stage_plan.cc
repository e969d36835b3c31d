// Layers own tensors in their order, so those of consecutive layers are one
// range of the flat vector, and a member is handed that range as if it were a
// whole vector: every offset in its plan counts from the range's begin.
//
// Where a model is cut by itself is found by trying how little the largest
// stage may cost: for a bound, stages are filled from the first layer on while
// they stay within it, which takes the fewest stages that the bound allows. A
// stage without weights is no stage, so layers before the first weights and
// behind the last are never cut off, and a stage may exceed the bound.
#include "common/job/stage_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/layers/multiply_adds.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void Cover(const ModelPlan& plan, const LayerPlan& layer,
           ParameterRange* range) {
  for (const int index :
       {layer.weight, layer.bias, layer.running_mean, layer.running_variance}) {
    // A tied output has the tensor of the embedding, which owns it.
    if (index < 0 || layer.layer.has_tied_output()) continue;
    const TensorSpec& tensor = plan.tensors[index];
    range->begin = std::min(range->begin, tensor.offset);
    range->end = std::max(range->end, tensor.offset + tensor.size);
  }
  for (const LayerPlan& inner : layer.body) Cover(plan, inner, range);
  for (const LayerPlan& beside : layer.projection) Cover(plan, beside, range);
}

ModelStage StageOf(const ModelPlan& plan, size_t begin, size_t end) {
  ModelStage stage = {.begin = begin,
                      .end = end,
                      .parameters = {std::numeric_limits<int64_t>::max(), 0}};
  for (size_t i = begin; i < end; ++i) {
    Cover(plan, plan.layers[i], &stage.parameters);
    stage.multiply_adds += MultiplyAdds(plan, plan.layers[i]);
  }
  if (stage.parameters.end == 0) stage.parameters = {};
  return stage;
}

bool HasWeights(const ModelPlan& plan, size_t layer) {
  return StageOf(plan, layer, layer + 1).parameters.size() > 0;
}

// What the layers of a model cost, and which of them have weights.
struct Costs {
  const std::vector<double>& own;
  std::vector<bool> weights;

  Costs(const ModelPlan& plan, const std::vector<double>& costs) : own(costs) {
    for (size_t i = 0; i < own.size(); ++i) {
      weights.push_back(HasWeights(plan, i));
    }
  }
  double Sum(size_t begin, size_t end) const {
    return std::accumulate(own.begin() + begin, own.begin() + end, 0.0);
  }
  bool HaveWeights(size_t begin, size_t end) const {
    return std::find(weights.begin() + begin, weights.begin() + end, true) !=
           weights.begin() + end;
  }
};

// The first layers of the stages but the first, where no stage costs more than
// `most`, unless one layer does; the fewest there are.
std::vector<size_t> CutsWithin(const Costs& costs, double most) {
  std::vector<size_t> cuts;
  double sum = 0;
  bool weights = false;  // In the stage so far.
  size_t last = costs.own.size();
  while (last > 0 && !costs.weights[last - 1]) --last;
  for (size_t i = 0; i < costs.own.size(); ++i) {
    if (weights && i < last && sum + costs.own[i] > most) {
      cuts.push_back(i);
      sum = 0;
      weights = false;
    }
    sum += costs.own[i];
    weights = weights || costs.weights[i];
  }
  return cuts;
}

// What the largest stage costs.
double LargestOf(const Costs& costs, std::vector<size_t> cuts) {
  cuts.push_back(costs.own.size());
  double largest = 0;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    largest = std::max(largest, costs.Sum(begin, cut));
    begin = cut;
  }
  return largest;
}

// `stages` - 1 cuts with the smallest largest stage; fewer where the model has
// not as many stages.
std::vector<size_t> BestCuts(const Costs& costs, size_t stages) {
  double low = 0, high = costs.Sum(0, costs.own.size());
  // Each round halves what is left: beyond a double's bits nothing changes.
  for (int i = 0; i < 64; ++i) {
    const double middle = low + (high - low) / 2;
    const std::vector<size_t> cuts = CutsWithin(costs, middle);
    const bool fits = cuts.size() < stages && LargestOf(costs, cuts) <= middle;
    (fits ? high : low) = middle;
  }
  std::vector<size_t> cuts = CutsWithin(costs, high);
  // Fewer than wanted where one layer outweighs the rest: cut what can be.
  while (cuts.size() + 1 < stages) {
    size_t best = 0;
    double most = -1;
    for (size_t i = 1; i < costs.own.size(); ++i) {
      const auto next = std::lower_bound(cuts.begin(), cuts.end(), i);
      if (next != cuts.end() && *next == i) continue;
      const size_t begin = next == cuts.begin() ? 0 : *(next - 1);
      const size_t end = next == cuts.end() ? costs.own.size() : *next;
      if (!costs.HaveWeights(begin, i) || !costs.HaveWeights(i, end)) continue;
      const double smaller = std::min(costs.Sum(begin, i), costs.Sum(i, end));
      if (smaller > most) most = smaller, best = i;
    }
    if (best == 0) break;
    cuts.insert(std::lower_bound(cuts.begin(), cuts.end(), best), best);
  }
  return cuts;
}

// Where the layer of that name is in the list; its size if it is not.
size_t Find(const std::vector<LayerPlan>& layers, const std::string& name) {
  size_t i = 0;
  while (i < layers.size() && layers[i].name != name) ++i;
  return i;
}

// The residual in which the layer of that name lies; empty: none.
std::string ResidualAround(const std::vector<LayerPlan>& layers,
                           const std::string& name) {
  for (const LayerPlan& layer : layers) {
    if (Find(layer.body, name) < layer.body.size() ||
        Find(layer.projection, name) < layer.projection.size() ||
        !ResidualAround(layer.body, name).empty()) {
      return layer.name;
    }
  }
  return "";
}

std::string NamesOf(const std::vector<LayerPlan>& layers) {
  return absl::StrJoin(layers, ", ",
                       [](std::string* out, const LayerPlan& layer) {
                         out->append(layer.name);
                       });
}

// What is wrong with the cut `name`, which begins a stage behind layer `before`
// (0: the model's first); empty: nothing, and `at` is its layer.
std::string CheckCut(const ModelPlan& plan, const std::string& name,
                     size_t before, size_t* at) {
  *at = Find(plan.layers, name);
  if (*at == plan.layers.size()) {
    const std::string residual = ResidualAround(plan.layers, name);
    if (residual.empty()) {
      return absl::StrCat("expected the name of a layer (",
                          NamesOf(plan.layers), "), is ", name);
    }
    return absl::StrCat("expected a layer that lies in no residual, is ", name,
                        ", which is part of ", residual);
  }
  if (*at <= before) {
    return absl::StrCat("expected a layer behind ", plan.layers[before].name,
                        ", is ", name);
  }
  return "";
}

}  // namespace

void ResolveCuts(const ModelPlan& plan, proto::Group* group,
                 std::vector<std::string>* violations) {
  const int stages = group->pipeline_stages();
  if (group->cuts().empty()) {
    std::vector<double> costs;
    for (const LayerPlan& layer : plan.layers) {
      costs.push_back(MultiplyAdds(plan, layer));
    }
    for (const std::string& cut : CutsByCost(plan, costs, stages)) {
      group->add_cuts(cut);
    }
    if (group->cuts_size() + 1 == stages) return;
    violations->push_back(absl::StrCat(
        "worker.group.pipeline_stages: must be 1 to ", group->cuts_size() + 1,
        " (layers with weights that can be apart), is ", stages));
    return;
  }
  if (group->cuts_size() + 1 != stages) {
    violations->push_back(absl::StrCat(
        "worker.group.cuts: must be ", stages - 1,
        " (worker.group.pipeline_stages less 1), are ", group->cuts_size()));
    return;
  }
  size_t begin = 0;
  for (int i = 0; i <= group->cuts_size(); ++i) {
    size_t end = plan.layers.size();
    if (i < group->cuts_size()) {
      const std::string wrong = CheckCut(plan, group->cuts(i), begin, &end);
      if (!wrong.empty()) {
        violations->push_back(
            absl::StrCat("worker.group.cuts[", i, "]: ", wrong));
        return;
      }
    }
    if (StageOf(plan, begin, end).parameters.size() == 0) {
      violations->push_back(absl::StrCat(
          "worker.group.cuts: stage ", i, ", from ", plan.layers[begin].name,
          " to ", plan.layers[end - 1].name,
          ", has no weights, expected each stage to have some"));
      return;
    }
    begin = end;
  }
}

std::vector<std::string> CutsByCost(const ModelPlan& plan,
                                    const std::vector<double>& costs,
                                    int stages) {
  SLUICE_CHECK(costs.size() == plan.layers.size());
  std::vector<std::string> names;
  for (const size_t cut : BestCuts(Costs(plan, costs), stages)) {
    names.push_back(plan.layers[cut].name);
  }
  return names;
}

std::vector<ModelStage> SmallestStages(const ModelPlan& plan) {
  std::vector<ModelStage> stages;
  size_t begin = 0;
  bool weights = false;  // In the stage so far.
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!HasWeights(plan, i)) continue;
    if (weights) {
      stages.push_back(StageOf(plan, begin, i));
      begin = i;
    }
    weights = true;
  }
  stages.push_back(StageOf(plan, begin, plan.layers.size()));
  return stages;
}

std::vector<ModelStage> StagesOf(const ResolvedJob& job) {
  std::vector<ModelStage> stages;
  size_t begin = 0;
  for (const std::string& cut : job.job.worker().group().cuts()) {
    const size_t end = Find(job.model.layers, cut);
    stages.push_back(StageOf(job.model, begin, end));
    begin = end;
  }
  stages.push_back(StageOf(job.model, begin, job.model.layers.size()));
  return stages;
}

std::vector<int64_t> MemberCuts(const ResolvedJob& job) {
  std::vector<int64_t> cuts;
  for (const ModelStage& stage : StagesOf(job)) {
    if (stage.begin > 0) cuts.push_back(stage.parameters.begin);
  }
  return cuts;
}

ResolvedJob JobOfStage(const ResolvedJob& job, int stage) {
  const ModelStage own = StagesOf(job)[stage];
  ResolvedJob part = job;
  const std::vector<LayerPlan>& layers = job.model.layers;
  part.model.layers.assign(layers.begin() + own.begin,
                           layers.begin() + own.end);
  part.model.input_shape = part.model.layers[0].input_shape;
  part.model.tied_output =
      HaveTiedOutput({layers.begin() + own.begin, layers.end()});
  for (TensorSpec& tensor : part.model.tensors) {
    tensor.offset -= own.parameters.begin;
  }
  part.layout = job.layout.Part(own.parameters);
  return part;
}

}  // namespace sluice

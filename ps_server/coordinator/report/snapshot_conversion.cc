#include "ps_server/coordinator/report/snapshot_conversion.h"

#include "absl/time/time.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

void TotalsToProto(const TrainingStats::Totals& totals,
                   proto::TrainingState* state) {
  PutCounters(kRunCounters, totals.counters, state->mutable_counters());
  state->set_updates(totals.updates);
  state->set_loss(totals.loss);
  state->set_learning_rate(totals.learning_rate);
  state->mutable_staleness_histogram()->Assign(
      totals.staleness_histogram.begin(), totals.staleness_histogram.end());
  state->set_staleness_sum(totals.staleness_sum);
}

TrainingStats::Totals TotalsFromProto(const proto::TrainingState& state) {
  return {.counters = CountersFrom(kRunCounters, state.counters()),
          .updates = state.updates(),
          .loss = state.loss(),
          .learning_rate = state.learning_rate(),
          .staleness_sum = state.staleness_sum(),
          .staleness_histogram = {state.staleness_histogram().begin(),
                                  state.staleness_histogram().end()}};
}

}  // namespace

proto::TrainingState SnapshotToProto(const TrainingSnapshot& snapshot) {
  proto::TrainingState state;
  state.set_low_water_mark(snapshot.schedule.low_water_mark.value());
  for (BlockId block : snapshot.schedule.exceptions) {
    state.add_exception(block.value());
  }
  state.set_round(snapshot.round.value());
  proto::KScheduleState* k = state.mutable_k_schedule();
  k->set_k(snapshot.k.k);
  k->set_losses(snapshot.k.losses);
  k->set_first_loss(snapshot.k.first_loss);
  k->set_loss(snapshot.k.loss);
  TotalsToProto(snapshot.totals, &state);
  state.set_evaluation_due(snapshot.evaluation_due);
  state.set_seconds(absl::ToDoubleSeconds(snapshot.running));
  return state;
}

TrainingSnapshot SnapshotFromProto(const proto::TrainingState& state) {
  TrainingSnapshot snapshot;
  snapshot.schedule.low_water_mark = BlockId(state.low_water_mark());
  for (const int64_t block : state.exception()) {
    snapshot.schedule.exceptions.push_back(BlockId(block));
  }
  snapshot.round = BlockId(state.round());
  snapshot.k = {.k = state.k_schedule().k(),
                .losses = state.k_schedule().losses(),
                .first_loss = state.k_schedule().first_loss(),
                .loss = state.k_schedule().loss()};
  snapshot.totals = TotalsFromProto(state);
  snapshot.evaluation_due = state.evaluation_due();
  snapshot.running = absl::Seconds(state.seconds());
  return snapshot;
}

}  // namespace sluice

#include "ps_server/coordinator/report/snapshot_conversion.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(SnapshotConversionTest, EveryFieldComesBack) {
  proto::TrainingState state;
  state.set_low_water_mark(3);
  state.add_exception(5);
  state.add_exception(8);
  state.set_samples_applied(20);
  state.set_round(4);
  state.mutable_k_schedule()->set_k(2);
  state.mutable_k_schedule()->set_losses(7);
  state.mutable_k_schedule()->set_first_loss(0.1);
  state.mutable_k_schedule()->set_loss(0.3);
  state.set_batches_left_out(6);
  state.set_losses_not_finite(18);
  state.set_updates(11);
  state.set_loss(1.0 / 3);
  state.set_learning_rate(0.7);
  state.add_staleness_histogram(9);
  state.add_staleness_histogram(10);
  state.set_staleness_sum(12);
  state.mutable_gradients()->set_applied(13);
  state.mutable_gradients()->set_cancelled(14);
  state.mutable_gradients()->set_dropped(15);
  state.mutable_gradients()->set_rejected(16);
  state.mutable_gradients()->set_lost(17);
  state.set_evaluation_due(true);
  state.set_seconds(1.5);
  EXPECT_EQ(SnapshotToProto(SnapshotFromProto(state)).SerializeAsString(),
            state.SerializeAsString());
  // A field that is added must be added to this test.
  EXPECT_EQ(proto::TrainingState::descriptor()->field_count(), 15);
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/report/snapshot_conversion.h"

#include <google/protobuf/util/message_differencer.h>

#include "gtest/gtest.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

TEST(SnapshotConversionTest, EveryFieldComesBack) {
  proto::TrainingState state;
  state.set_low_water_mark(3);
  state.add_exception(5);
  state.add_exception(8);
  state.set_round(4);
  state.mutable_k_schedule()->set_k(2);
  state.mutable_k_schedule()->set_losses(7);
  state.mutable_k_schedule()->set_first_loss(0.1);
  state.mutable_k_schedule()->set_loss(0.3);
  state.set_updates(11);
  state.set_loss(1.0 / 3);
  state.set_learning_rate(0.7);
  state.add_staleness_histogram(9);
  state.add_staleness_histogram(10);
  state.set_staleness_sum(12);
  int64_t value = 13;
  for (const auto& row : kRunCounters) {
    (*state.mutable_counters())[row.name] = value++;
  }
  state.set_evaluation_due(true);
  state.set_seconds(1.5);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      SnapshotToProto(SnapshotFromProto(state)), state));
  // A field that is added must be added to this test.
  EXPECT_EQ(proto::TrainingState::descriptor()->field_count(), 12);
}

}  // namespace
}  // namespace sluice

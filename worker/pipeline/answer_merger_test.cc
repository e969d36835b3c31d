#include "worker/pipeline/answer_merger.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::ToCoordinator Ready(int64_t sequence, std::vector<int64_t> bases,
                           double seconds = 0, double loss = 0) {
  proto::ToCoordinator answer;
  proto::Ready& ready = *answer.mutable_ready();
  ready.mutable_key()->set_sequence(sequence);
  for (const int64_t base : bases) ready.add_shard_base(base);
  ready.set_samples(loss == 0 ? 64 : 60);
  ready.set_loss(loss);
  ready.set_compute_seconds(seconds);
  return answer;
}

proto::ToCoordinator Rejected(int64_t sequence) {
  proto::ToCoordinator answer;
  answer.mutable_rejected()->mutable_key()->set_sequence(sequence);
  answer.mutable_rejected()->set_reason("NaN");
  return answer;
}

class AnswerMergerTest : public ::testing::Test {
 protected:
  std::vector<proto::ToCoordinator> sent_;
  AnswerMerger merger_{
      [this](proto::ToCoordinator answer) { sent_.push_back(answer); }};
};

TEST_F(AnswerMergerTest, BothMustBeReadyInWhicheverOrder) {
  merger_.Own(Ready(1, {4, 5}, 2));
  EXPECT_THAT(sent_, IsEmpty());
  merger_.Behind(Ready(1, {5, 6}, 3, 0.5));
  ASSERT_THAT(sent_, SizeIs(1));
  const proto::Ready& ready = sent_[0].ready();
  EXPECT_THAT(ready.shard_base(), ElementsAre(4, 5, 5, 6));
  EXPECT_EQ(ready.samples(), 60);  // The last stage's.
  EXPECT_EQ(ready.loss(), 0.5);
  EXPECT_EQ(ready.compute_seconds(), 3);
  merger_.Behind(Ready(2, {7}, 1, 0.25));
  merger_.Own(Ready(2, {8}));
  ASSERT_THAT(sent_, SizeIs(2));
  EXPECT_THAT(sent_[1].ready().shard_base(), ElementsAre(8, 7));
}

TEST_F(AnswerMergerTest, OneThatIsRejectedIsEnoughAndIsSaidOnce) {
  merger_.Own(Ready(1, {4}));
  merger_.Behind(Rejected(1));
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_EQ(sent_[0].rejected().reason(), "NaN");
  merger_.Own(Rejected(2));
  merger_.Behind(Rejected(2));
  merger_.Behind(Ready(2, {4}));
  EXPECT_THAT(sent_, SizeIs(2));
}

TEST_F(AnswerMergerTest, ATaskThatWasCancelledHalfwayIsForgotten) {
  merger_.Behind(Ready(1, {4}));
  merger_.Own(Ready(2, {5}));
  merger_.Own(Ready(1, {4}));  // Too late.
  EXPECT_THAT(sent_, IsEmpty());
  merger_.Behind(Ready(2, {6}));
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_THAT(sent_[0].ready().shard_base(), ElementsAre(5, 6));
}

}  // namespace
}  // namespace sluice

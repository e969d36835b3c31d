#include "common/job/any_number.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(AnyNumberTest, WillDoWhereWorkersAreAlike) {
  proto::Job job;
  job.mutable_data()->set_sharding(proto::Data::DYNAMIC);
  job.mutable_worker()->add_gpus(3);
  EXPECT_TRUE(CheckAnyNumber(job).ok());
}

TEST(AnyNumberTest, WillNotDoWithStaticData) {
  proto::Job job;
  job.mutable_data()->set_sharding(proto::Data::STATIC);
  EXPECT_EQ(CheckAnyNumber(job).ToString(),
            "FAILED_PRECONDITION: data.sharding: with STATIC data a worker's "
            "number says which samples it sees, so each worker needs a number "
            "of its own: start it with --worker=N instead of --worker=any");
}

TEST(AnyNumberTest, WillNotDoWhereItChoosesTheGpu) {
  proto::Job job;
  job.mutable_worker()->add_gpus(0);
  job.mutable_worker()->add_gpus(1);
  EXPECT_EQ(CheckAnyNumber(job).message().substr(0, 12), "worker.gpus:");
}

TEST(AnyNumberTest, WillNotDoForAModelProcess) {
  proto::Job job;
  job.mutable_model()->mutable_external();
  EXPECT_EQ(CheckAnyNumber(job).message().substr(0, 15), "model.external:");
}

}  // namespace
}  // namespace sluice

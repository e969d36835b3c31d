#include "sim/network.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Network Made(const std::string& delays) {
  proto::Job job;
  job.mutable_cluster()->set_workers(4);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      delays, job.mutable_delays()));
  auto network = Network::Create(job);
  EXPECT_TRUE(network.ok()) << network.status();
  return *network;
}

constexpr WorkerId kOne(1);
constexpr WorkerId kTwo(2);
constexpr ShardId kLead(0);
constexpr ShardId kOther(1);

TEST(NetworkTest, WithoutDelaysNothingTakesTime) {
  Network network;
  EXPECT_EQ(network.Latency(kOther), 0);
  EXPECT_EQ(network.ToWorker(5, kLead, kOne, 1 << 20), 0);
  EXPECT_EQ(network.ToShard(5, kOne, kLead, 1 << 20), 0);
}

TEST(NetworkTest, AMessageTakesAsLongAsItsWorkersDo) {
  Network network =
      Made("latency { two_speed { ms: 1 slow_share: 0.25 slow_factor: 100 } }");
  EXPECT_EQ(network.Latency(WorkerId(0)), 100'000'000);
  EXPECT_EQ(network.ToShard(0, WorkerId(0), kLead, 9), 100'000'000);
  EXPECT_EQ(network.ToWorker(0, kLead, WorkerId(0), 9), 100'000'000);
  EXPECT_EQ(network.Latency(kOne), 1'000'000);
  EXPECT_EQ(network.ToShard(0, kOne, kLead, 9), 1'000'000);
  EXPECT_EQ(network.ToWorker(0, kLead, kOne, 9), 1'000'000);
  // Between coordinator and shard.
  EXPECT_EQ(network.Latency(kOther), 1'000'000);
  EXPECT_EQ(network.Latency(kLead), 0);
}

TEST(NetworkTest, AllMessagesDrawFromOneSequence) {
  const std::string delays = "latency { exponential { mean_ms: 1 } }";
  Network one = Made(delays), other = Made(delays);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(one.Latency(WorkerId(i % 4)), other.Latency(kOther));
  }
}

TEST(NetworkTest, ATransferTakesItsSlowerLinkAndTheLatency) {
  Network network = Made(
      "latency { constant { ms: 0.001 } } worker_bandwidth: 1e9 "
      "shard_bandwidth: 4e9");
  EXPECT_EQ(network.Latency(kOther), 1000);
  EXPECT_EQ(network.ToWorker(0, kLead, kOne, 4000), 4000 + 1000);
}

TEST(NetworkTest, AWorkerOfSeveralProcessesHasTheLinksOfAll) {
  proto::Job job;
  job.mutable_delays()->set_worker_bandwidth(1e9);
  auto network = Network::Create(job, /*worker_links=*/1.6);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->ToWorker(0, kLead, kOne, 1600), 1000);
  EXPECT_EQ(network->ToShard(0, kOne, kLead, 1600), 1000);
}

TEST(NetworkTest, TransfersOfOneLinkGoOneAfterTheOther) {
  Network network = Made("shard_bandwidth: 1e9");
  EXPECT_EQ(network.ToWorker(0, kLead, kOne, 1000), 1000);
  EXPECT_EQ(network.ToWorker(0, kLead, kTwo, 1000), 2000);
  EXPECT_EQ(network.ToWorker(0, kOther, kOne, 1000), 1000);
  // The other direction is free, and so is the link once its transfer is done.
  EXPECT_EQ(network.ToShard(0, kOne, kLead, 1000), 1000);
  EXPECT_EQ(network.ToWorker(2500, kLead, kOne, 1000), 1000);
}

TEST(NetworkTest, ATasksMessagesTakeTheirLatenciesAndWhatEveryLinkCarries) {
  EXPECT_EQ(Made("").MeanOfTask({1000}, {500}), 0);
  // Four messages to and from one shard, six with several.
  const std::string latency = "latency { constant { ms: 250 } }";
  EXPECT_DOUBLE_EQ(Made(latency).MeanOfTask({1000}, {500}), 1);
  EXPECT_DOUBLE_EQ(Made(latency).MeanOfTask({1000, 1}, {500, 1}), 1.5);
  EXPECT_DOUBLE_EQ(
      Made("worker_bandwidth: 100").MeanOfTask({100, 300}, {100, 100}), 6);
  // Four workers share the link of the shard with the most bytes.
  EXPECT_DOUBLE_EQ(
      Made("shard_bandwidth: 100").MeanOfTask({100, 300}, {100, 100}), 16);
}

}  // namespace
}  // namespace sluice

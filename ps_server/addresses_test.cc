#include "ps_server/addresses.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

proto::Job JobAt(const std::string& coordinator) {
  proto::Job job;
  job.mutable_cluster()->set_coordinator(coordinator);
  return job;
}

Flags ShardFlags(int shard) {
  Flags flags;
  flags.shard = shard;
  return flags;
}

TEST(AddressesTest, TheLeadListensOnTheCoordinatorsPort) {
  EXPECT_EQ(*ListenAddress(ShardFlags(0), JobAt("lead:7000")), "[::]:7000");
}

TEST(AddressesTest, OtherShardsAndALeadWithoutAddressTakeAFreePort) {
  EXPECT_EQ(*ListenAddress(ShardFlags(1), JobAt("lead:7000")), "[::]:0");
  EXPECT_EQ(*ListenAddress(ShardFlags(0), JobAt("")), "[::]:0");
}

TEST(AddressesTest, TheFlagDecidesWhereToListen) {
  Flags flags = ShardFlags(0);
  flags.listen = "[::1]:0";
  EXPECT_EQ(*ListenAddress(flags, JobAt("lead:7000")), "[::1]:0");
}

TEST(AddressesTest, AnAddressWithoutAPortIsRefusedByName) {
  Flags flags = ShardFlags(0);
  flags.listen = "localhost";
  EXPECT_EQ(ListenAddress(flags, {}).status().message(),
            "--listen: must be \"host:port\" or \"[IPv6]:port\" with a port of "
            "0 to 65535, is \"localhost\"");
  flags.listen = "localhost:70000";
  EXPECT_FALSE(ListenAddress(flags, {}).ok());
  EXPECT_EQ(
      CoordinatorAddress(ShardFlags(1), JobAt("lead")).status().message(),
      "cluster.coordinator: must be \"host:port\" or \"[IPv6]:port\" with a "
      "port of 0 to 65535, is \"lead\"");
  flags.advertise = "::1:7000";
  EXPECT_FALSE(AdvertisedAddress(flags, "[::]:0", 9000, "node7").ok());
}

TEST(AddressesTest, AllInterfacesAreAdvertisedUnderTheHostsName) {
  EXPECT_EQ(*AdvertisedAddress({}, "0.0.0.0:0", 9000, "node7"), "node7:9000");
  EXPECT_EQ(*AdvertisedAddress({}, "[::]:0", 9000, "node7"), "node7:9000");
  EXPECT_EQ(*AdvertisedAddress({}, "127.0.0.1:0", 9000, "node7"),
            "127.0.0.1:9000");
  Flags flags;
  flags.advertise = "public:1";
  EXPECT_EQ(*AdvertisedAddress(flags, "0.0.0.0:0", 9000, "node7"), "public:1");
}

TEST(AddressesTest, AnIpv6AddressKeepsItsBrackets) {
  EXPECT_EQ(*AdvertisedAddress({}, "[fd00::1]:0", 9000, "node7"),
            "[fd00::1]:9000");
  EXPECT_EQ(*ListenAddress(ShardFlags(0), JobAt("[fd00::1]:7000")),
            "[::]:7000");
  EXPECT_EQ(*CoordinatorAddress(ShardFlags(1), JobAt("[fd00::1]:7000")),
            "[fd00::1]:7000");
  Flags flags;
  flags.advertise = "[fd00::2]:7001";
  EXPECT_EQ(*AdvertisedAddress(flags, "[::]:0", 9000, "node7"),
            "[fd00::2]:7001");
}

TEST(AddressesTest, TheFlagOverridesTheJobsCoordinator) {
  Flags flags = ShardFlags(1);
  EXPECT_EQ(*CoordinatorAddress(flags, JobAt("lead:7000")), "lead:7000");
  flags.coordinator = "other:8000";
  EXPECT_EQ(*CoordinatorAddress(flags, JobAt("lead:7000")), "other:8000");
}

TEST(AddressesTest, WithoutACoordinatorItSaysWhatToSet) {
  EXPECT_EQ(CoordinatorAddress(ShardFlags(1), {}).status().message(),
            "where is the coordinator? Set --coordinator=host:port or "
            "cluster.coordinator");
}

TEST(AddressesTest, TheFileNamesTheCoordinatorEachShardAndTheRun) {
  EXPECT_EQ(FormatAddresses("r-1", "a:1", {}), "coordinator a:1\nrun r-1\n");
  EXPECT_EQ(FormatAddresses("r-1", "a:1", {"a:1", "b:2"}),
            "coordinator a:1\nshard 0 a:1\nshard 1 b:2\nrun r-1\n");
}

}  // namespace
}  // namespace sluice

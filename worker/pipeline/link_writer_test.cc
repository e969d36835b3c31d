#include "worker/pipeline/link_writer.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/process/named_thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

TEST(LinkWriterTest, WritesInOrder) {
  std::vector<std::string> written;
  absl::Notification all;
  LinkWriter<std::string> writer(absl::Hours(1), [&](const auto& message) {
    written.push_back(message);
    if (written.size() == 3) all.Notify();
  });
  writer.Tell("a");
  writer.Send("b");
  writer.Tell("c");
  all.WaitForNotification();
  EXPECT_THAT(written, ElementsAre("a", "b", "c"));
}

TEST(LinkWriterTest, SaysThatItIsThereWhereThereIsNothingToSay) {
  std::vector<std::string> written;
  absl::Notification twice;
  LinkWriter<std::string> writer(absl::Milliseconds(1), [&](const auto& m) {
    written.push_back(m);
    if (written.size() == 2) twice.Notify();
  });
  twice.WaitForNotification();
  writer.Close();
  EXPECT_EQ(written[0], "");
}

TEST(LinkWriterTest, NobodyWaitsForAWriteThatDoesNotEndOnceItIsClosed) {
  absl::Notification begun, goes_on;
  LinkWriter<std::string> writer(absl::Hours(1), [&](const auto&) {
    begun.Notify();
    goes_on.WaitForNotification();
  });
  std::thread sends = StartThread("sends", [&] {
    for (int i = 0; i < 4; ++i) writer.Send("a");
  });
  begun.WaitForNotification();
  for (int i = 0; i < 100; ++i) writer.Tell("b");  // Waits for nobody.
  writer.Close();
  sends.join();
  EXPECT_FALSE(writer.EndsWithin(absl::ZeroDuration()));
  goes_on.Notify();
  EXPECT_TRUE(writer.EndsWithin(absl::Minutes(1)));
}

}  // namespace
}  // namespace sluice

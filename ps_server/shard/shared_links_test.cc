#include "ps_server/shard/shared_links.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/shared_handshake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kFloats = 100;

class SharedLinksTest : public ::testing::Test {
 protected:
  SharedMemory NewMemory() {
    auto memory = SharedMemory::Create("gradient", kFloats * sizeof(float),
                                       SharedMemory::Others::kRead);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }
  Descriptor Connect() {
    Descriptor connected(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const AbstractAddress address(links_->socket_name());
    EXPECT_EQ(connect(connected.number(), address.get(), address.size), 0);
    return connected;
  }
  // Says a secret on a socket, and what the shard says to it.
  absl::StatusOr<SharedWelcome> Say(const std::string& secret,
                                    const std::vector<int>& descriptors,
                                    const Descriptor& on) {
    SharedHello hello;
    secret.copy(reinterpret_cast<char*>(hello.secret), sizeof hello.secret);
    if (!SendWithDescriptors(
            on.number(),
            {reinterpret_cast<const uint8_t*>(&hello), sizeof hello},
            descriptors)) {
      return absl::UnavailableError("it is closed");
    }
    SharedWelcome welcome;
    auto theirs = ReceiveWithDescriptors(
        on.number(), {reinterpret_cast<uint8_t*>(&welcome), sizeof welcome});
    if (!theirs.ok()) return theirs.status();
    EXPECT_THAT(*theirs, SizeIs(1));
    weights_ = std::move((*theirs)[0]);
    return welcome;
  }
  // Until the other side has closed it.
  static void AwaitEnd(const Descriptor& of) {
    char byte;
    while (recv(of.number(), &byte, 1, 0) > 0) {
    }
  }

  const std::shared_ptr<SharedChunks> chunks_ = *SharedChunks::Create(16, 3);
  const std::unique_ptr<SharedLinks> links_ =
      *SharedLinks::Open(chunks_.get(), 4 * kFloats);
  Descriptor weights_;
};

TEST_F(SharedLinksTest, BothReadWhatTheOtherWrites) {
  const SharedMemory memory = NewMemory();
  memory.As<float>()[7] = 1.5f;
  const Descriptor socket = Connect();
  const auto welcome =
      Say(links_->Invite("worker"), {memory.descriptor()}, socket);
  ASSERT_TRUE(welcome.ok()) << welcome.status();

  const auto link = links_->Find(welcome->link, "worker");
  ASSERT_NE(link, nullptr);
  const auto floats =
      link->Find({.link = welcome->link, .memory = 0, .at = 7, .count = 93});
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(*reinterpret_cast<const float*>(floats->data()), 1.5f);
  memory.As<float>()[7] = 2.5f;
  EXPECT_EQ(*reinterpret_cast<const float*>(floats->data()), 2.5f);

  const int slot = chunks_->Take();
  chunks_->BeginWrite(slot);
  chunks_->floats(slot)[3] = 4;
  const auto view = SharedView::Open(weights_);
  ASSERT_TRUE(view.ok()) << view.status();
  std::vector<float> read(16);
  const SlotState state = {slot, chunks_->Writes(slot)};
  EXPECT_TRUE(
      CopySlot(view->data(), chunks_->geometry(), state, absl::MakeSpan(read)));
  EXPECT_EQ(read[3], 4);
  chunks_->BeginWrite(slot);
  EXPECT_FALSE(
      CopySlot(view->data(), chunks_->geometry(), state, absl::MakeSpan(read)));
}

TEST_F(SharedLinksTest, NobodyCanWriteTheShardsMemory) {
  const Descriptor socket = Connect();
  ASSERT_TRUE(Say(links_->Invite(""), {}, socket).ok());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                 weights_.number(), 0),
            MAP_FAILED);
  EXPECT_NE(ftruncate(weights_.number(), 0), 0);
}

TEST_F(SharedLinksTest, ASecretCountsOnce) {
  const std::string secret = links_->Invite("worker");
  const Descriptor first = Connect(), second = Connect(), third = Connect();
  EXPECT_TRUE(Say(secret, {}, first).ok());
  EXPECT_EQ(Say(secret, {}, second).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(Say(std::string(16, 'x'), {}, third).ok());
  EXPECT_EQ(links_->count(), 1);
}

TEST_F(SharedLinksTest, TheLinkIsItsHoldersAlone) {
  const Descriptor socket = Connect();
  const auto welcome = Say(links_->Invite("worker"), {}, socket);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_NE(links_->Find(welcome->link, "worker"), nullptr);
  EXPECT_EQ(links_->Find(welcome->link, "other"), nullptr);
  EXPECT_EQ(links_->Find(welcome->link + 2, "worker"), nullptr);
}

TEST_F(SharedLinksTest, FloatsOutsideTheMemoryAreRefused) {
  const SharedMemory memory = NewMemory();
  const Descriptor socket = Connect();
  const auto welcome = Say(links_->Invite(""), {memory.descriptor()}, socket);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  const auto link = links_->Find(welcome->link, "");
  for (const SharedFloats& floats :
       {SharedFloats{.memory = 1, .at = 0, .count = 1},
        SharedFloats{.memory = -1, .at = 0, .count = 1},
        SharedFloats{.memory = 0, .at = -1, .count = 1},
        SharedFloats{.memory = 0, .at = 100, .count = 1},
        SharedFloats{.memory = 0, .at = 1, .count = kFloats},
        SharedFloats{.memory = 0, .at = 1, .count = INT64_MAX},
        SharedFloats{.memory = 0, .at = 1, .count = -1}}) {
    EXPECT_EQ(link->Find(floats).status().code(),
              absl::StatusCode::kInvalidArgument)
        << floats.memory << " " << floats.at << " " << floats.count;
  }
}

// An access behind the end of a file that has shrunk would end the shard.
TEST_F(SharedLinksTest, MemoryThatCouldShrinkIsRefused) {
  const Descriptor file(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.number(), 4096), 0);
  const Descriptor unsealed = Connect(), half = Connect(), none = Connect();
  EXPECT_FALSE(Say(links_->Invite(""), {file.number()}, unsealed).ok());
  ASSERT_EQ(fcntl(file.number(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_FALSE(Say(links_->Invite(""), {file.number()}, half).ok());
  EXPECT_FALSE(Say(links_->Invite(""), {STDIN_FILENO}, none).ok());
  EXPECT_EQ(links_->count(), 0);
}

TEST_F(SharedLinksTest, ALinkEndsWithItsSocketButNotUnderAReader) {
  SharedMemory memory = NewMemory();
  memory.As<float>()[0] = 3;
  auto socket = std::make_unique<Descriptor>(Connect());
  const auto welcome = Say(links_->Invite(""), {memory.descriptor()}, *socket);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  const auto reader = links_->Find(welcome->link, "");
  socket.reset();
  { const SharedMemory gone = std::move(memory); }
  while (links_->count() > 0) {
  }
  EXPECT_EQ(links_->Find(welcome->link, ""), nullptr);
  const auto floats = reader->Find({.at = 0, .count = 1});
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(*reinterpret_cast<const float*>(floats->data()), 3);
}

TEST_F(SharedLinksTest, WhoTalksOutOfTurnIsClosed) {
  const Descriptor short_hello = Connect(), twice = Connect();
  const char byte = 0;
  ASSERT_EQ(send(short_hello.number(), &byte, 1, 0), 1);
  AwaitEnd(short_hello);
  ASSERT_TRUE(Say(links_->Invite(""), {}, twice).ok());
  ASSERT_EQ(send(twice.number(), &byte, 1, 0), 1);
  AwaitEnd(twice);
  EXPECT_EQ(links_->count(), 0);
}

TEST_F(SharedLinksTest, SilentStrangersDoNotKeepAGuestOut) {
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(Connect());
  const Descriptor socket = Connect();
  EXPECT_TRUE(Say(links_->Invite(""), {}, socket).ok());
  AwaitEnd(strangers[0]);  // The one that came first made room.
}

TEST_F(SharedLinksTest, MemoryLargerThanTheVectorIsRefused) {
  auto large = SharedMemory::Create("large", (kFloats + 1) * sizeof(float),
                                    SharedMemory::Others::kRead);
  ASSERT_TRUE(large.ok()) << large.status();
  const Descriptor socket = Connect();
  EXPECT_FALSE(Say(links_->Invite(""), {large->descriptor()}, socket).ok());
  EXPECT_EQ(links_->count(), 0);
}

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// A message of no bytes may bring descriptors as well.
TEST_F(SharedLinksTest, DescriptorsOfAnEmptyMessageAreClosed) {
  const SharedMemory memory = NewMemory();
  const int before = OpenDescriptors();
  {
    const Descriptor socket = Connect();
    const int descriptors[] = {memory.descriptor(), memory.descriptor()};
    ASSERT_TRUE(SendWithDescriptors(socket.number(), {}, descriptors));
    AwaitEnd(socket);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace sluice

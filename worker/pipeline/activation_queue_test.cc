#include "worker/pipeline/activation_queue.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/key_proto.h"
#include "common/process/named_thread.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

GradientKey Key(int64_t sequence) {
  return {Generation(1), WorkerId(0), Incarnation(1), Sequence(sequence)};
}

proto::Activations Piece(int64_t sequence, int64_t pass, int64_t offset,
                         const std::string& data, int64_t size) {
  proto::Activations piece;
  *piece.mutable_key() = KeyToProto(Key(sequence));
  piece.set_pass(pass);
  piece.set_offset(offset);
  piece.set_size(size);
  piece.set_data(data);
  return piece;
}

class ActivationQueueTest : public ::testing::Test {
 protected:
  ActivationQueueTest() {
    queue_.Open();
    queue_.Begin(Key(2));
  }

  absl::StatusOr<std::string> Take(int64_t pass, int64_t size) {
    std::vector<uint8_t> into(size);
    const absl::Status taken = queue_.Take(pass, absl::MakeSpan(into), cancel_);
    if (!taken.ok()) return taken;
    return std::string(into.begin(), into.end());
  }

  ActivationQueue queue_;
  CancelToken cancel_;
};

TEST_F(ActivationQueueTest, PiecesOfAPassAreJoined) {
  queue_.Put(Piece(2, 0, 0, "abc", 5));
  queue_.Put(Piece(2, 0, 3, "de", 5));
  queue_.Put(Piece(2, 1, 0, "fghij", 5));
  EXPECT_EQ(*Take(0, 5), "abcde");
  EXPECT_EQ(*Take(1, 5), "fghij");
}

TEST_F(ActivationQueueTest, PiecesOfAnEarlierTaskArePassedOver) {
  queue_.Put(Piece(1, 3, 0, "old", 3));
  queue_.Put(Piece(2, 0, 0, "new", 3));
  EXPECT_EQ(*Take(0, 3), "new");
}

// The neighbour has heard of a cancel that is still on its way here.
TEST_F(ActivationQueueTest, PiecesOfALaterTaskWaitForIt) {
  queue_.Put(Piece(3, 0, 0, "next", 4));
  std::thread cancels = StartThread("cancels", [this] {
    cancel_.Cancel();
    queue_.Wake();
  });
  EXPECT_TRUE(absl::IsAborted(Take(0, 4).status()));
  cancels.join();
  cancel_.Reset();
  queue_.Begin(Key(3));
  EXPECT_EQ(*Take(0, 4), "next");
}

TEST_F(ActivationQueueTest, WhatHasComeIsThereAfterTheLinkHasBroken) {
  queue_.Put(Piece(2, 0, 0, "abc", 3));
  queue_.Close(absl::UnavailableError("member 1 is gone"));
  EXPECT_EQ(*Take(0, 3), "abc");
  EXPECT_EQ(Take(1, 3).status(), absl::UnavailableError("member 1 is gone"));
  // A link that is made anew begins with nothing.
  queue_.Put(Piece(2, 1, 0, "abc", 3));
  queue_.Open();
  queue_.Put(Piece(2, 7, 0, "xyz", 3));
  EXPECT_EQ(*Take(7, 3), "xyz");
}

TEST_F(ActivationQueueTest, WhatDoesNotFitIsRefused) {
  queue_.Put(Piece(2, 0, 0, "abcd", 4));
  EXPECT_EQ(Take(0, 3).status(),
            absl::DataLossError("pass 0: 4 bytes of 4 came at 0, expected pass "
                                "0, 3 bytes, of which 0 are here"));
  for (const auto& bad : {Piece(2, 1, 0, "abc", 3), Piece(2, 0, 1, "bc", 3),
                          Piece(2, 0, 0, "", 3), Piece(2, 0, 0, "abcd", 3)}) {
    queue_.Put(bad);
    EXPECT_TRUE(absl::IsDataLoss(Take(0, 3).status()));
  }
}

}  // namespace
}  // namespace sluice

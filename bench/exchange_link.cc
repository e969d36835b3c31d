#include "bench/exchange_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace sluice::bench {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;
// More than is ever under way; the sender waits where there is more.
constexpr int64_t kMostBytes = int64_t{256} << 20;

// What is under way in one direction.
struct Direction {
  struct Piece {
    absl::Time due;
    std::vector<char> bytes;
    size_t sent = 0;
  };
  int from = -1, to = -1;
  std::deque<Piece> pieces;
  int64_t held = 0;
  bool over = false;

  void Take(absl::Duration delay) {
    std::vector<char> bytes(kPieceBytes);
    const ssize_t size = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
      over = true;
      return;
    }
    bytes.resize(size);
    held += size;
    pieces.push_back({Clock::Real()->Now() + delay, std::move(bytes)});
  }

  void Give(absl::Time now) {
    while (!pieces.empty() && pieces.front().due <= now) {
      Piece& piece = pieces.front();
      const ssize_t size =
          send(to, piece.bytes.data() + piece.sent,
               piece.bytes.size() - piece.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size < 0 && errno != EAGAIN) over = true;
      if (size < 0) return;
      piece.sent += size;
      held -= size;
      if (piece.sent == piece.bytes.size()) pieces.pop_front();
    }
  }

  // The socket is full, and takes what is due when it has room.
  bool Waits(absl::Time now) const {
    return !pieces.empty() && pieces.front().due <= now;
  }
};

}  // namespace

LongLink::LongLink(int port, absl::Duration round_trip)
    : port_(port), delay_(round_trip / 2), listening_(ListenOnLoopback()) {}

void LongLink::Run() {
  std::list<Direction> directions;
  while (true) {
    const absl::Time now = Clock::Real()->Now();
    absl::Time next = absl::InfiniteFuture();
    std::vector<pollfd> polled = {{listening_.fd, POLLIN, 0}};
    for (Direction& one : directions) {
      one.Give(now);
      const bool takes = !one.over && one.held < kMostBytes;
      polled.push_back({takes ? one.from : -1, POLLIN, 0});
      polled.push_back({one.Waits(now) ? one.to : -1, POLLOUT, 0});
      if (!one.pieces.empty() && !one.Waits(now)) {
        next = std::min(next, one.pieces.front().due);
      }
    }
    const timespec wait = absl::ToTimespec(
        std::clamp(next - now, absl::ZeroDuration(), absl::Seconds(1)));
    ppoll(polled.data(), polled.size(), &wait, nullptr);
    size_t at = 1;
    for (Direction& one : directions) {
      if (polled[at].revents != 0) one.Take(delay_);
      at += 2;
    }
    if (polled[0].revents == 0) continue;
    const int near = AcceptFrom(listening_);
    const int far = ConnectOnLoopback(port_);
    for (const auto& [from, to] :
         {std::pair(near, far), std::pair(far, near)}) {
      Direction& one = directions.emplace_back();
      one.from = from;
      one.to = to;
    }
  }
}

}  // namespace sluice::bench

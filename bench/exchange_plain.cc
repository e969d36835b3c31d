// Every connection is a Flow, a number of bytes to send and a number to
// receive, in either order as the sockets allow. With at_once both directions
// run together: as soon as a piece of the gradient has been applied, its
// weights may go back. Else they take turns: push, a one-byte answer when
// everything is applied, then a one-byte request and pull.
#include "bench/exchange_plain.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "bench/exchange_sockets.h"
#include "common/clock.h"
#include "common/parameter_layout.h"
#include "kernels/optimizer_kernels.h"

namespace sluice::bench {
namespace {

// Bytes that a shard receives and applies at a time; they stay in the cache.
constexpr int64_t kPieceBytes = 256 << 10;

// Bytes sent or received; 0 if the socket is not ready.
int64_t Moved(ssize_t result) {
  if (result > 0) return result;
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  Fail("a connection broke");
}

// One connection's part of an exchange.
struct Flow {
  int fd = -1;
  const char* out = nullptr;
  int64_t to_send = 0, sent = 0;
  char* in = nullptr;
  int64_t to_receive = 0, received = 0;

  bool over() const { return sent == to_send && received == to_receive; }
};

pollfd Interest(const Flow& flow) {
  const int events = (flow.sent < flow.to_send ? POLLOUT : 0) |
                     (flow.received < flow.to_receive ? POLLIN : 0);
  return {events == 0 ? -1 : flow.fd, static_cast<int16_t>(events), 0};
}

void SendSome(Flow* flow) {
  const int64_t most = std::min(kPieceBytes, flow->to_send - flow->sent);
  flow->sent += Moved(send(flow->fd, flow->out + flow->sent, most,
                           MSG_DONTWAIT | MSG_NOSIGNAL));
}

// ---- The worker ----

// Sends and receives until all flows are done.
void Run(std::vector<Flow>* flows) {
  std::vector<pollfd> polled(flows->size());
  while (true) {
    bool over = true;
    for (size_t i = 0; i < flows->size(); ++i) {
      polled[i] = Interest((*flows)[i]);
      over = over && (*flows)[i].over();
    }
    if (over) return;
    poll(polled.data(), polled.size(), -1);
    for (size_t i = 0; i < flows->size(); ++i) {
      Flow& flow = (*flows)[i];
      if (polled[i].revents & POLLOUT) SendSome(&flow);
      if (polled[i].revents & ~POLLOUT) {
        flow.received +=
            Moved(recv(flow.fd, flow.in + flow.received,
                       flow.to_receive - flow.received, MSG_DONTWAIT));
      }
    }
  }
}

void RunWorker(const ExchangePlan& plan, int index, const Control& control) {
  const ParameterLayout layout = LayoutOf(plan);
  std::vector<float> gradient(plan.floats), weights(plan.floats);
  for (int64_t i = 0; i < plan.floats; ++i) gradient[i] = GradientAt(index, i);
  std::vector<Flow> push(plan.shards), pull(plan.shards);
  // The request for the weights, and the shard's answer that all is applied.
  char word = 0;
  for (int s = 0; s < plan.shards; ++s) {
    const int fd =
        ConnectOnLoopback(static_cast<int>(control.Receive().number));
    const ParameterRange range = layout.range(ShardId(s));
    const int64_t bytes = range.size() * sizeof(float);
    push[s] = {.fd = fd, .to_send = bytes, .in = &word, .to_receive = 1};
    push[s].out = reinterpret_cast<const char*>(&gradient[range.begin]);
    pull[s] = {.fd = fd, .out = &word, .to_send = 1, .to_receive = bytes};
    pull[s].in = reinterpret_cast<char*>(&weights[range.begin]);
    if (!plan.at_once) continue;
    push[s].in = pull[s].in;
    push[s].to_receive = bytes;
  }
  const auto now = [] { return Clock::Real()->Now(); };
  control.Send({.kind = Note::Kind::kReady});
  while (true) {
    const Note go = control.Receive();
    if (go.kind == Note::Kind::kStop) break;
    const absl::Time start = now();
    std::vector<Flow> flows = push;
    Run(&flows);
    const absl::Time pushed = now();
    if (!plan.at_once) {
      flows = pull;
      Run(&flows);
    }
    const absl::Time end = now();
    if (go.verify) Verify(plan, go.number, weights);
    control.Send({.kind = Note::Kind::kDone,
                  .push_seconds = absl::ToDoubleSeconds(pushed - start),
                  .pull_seconds = absl::ToDoubleSeconds(end - pushed),
                  .seconds = absl::ToDoubleSeconds(end - start)});
  }
}

// ---- The shard ----

class PlainShard {
 public:
  PlainShard(const ExchangePlan& plan, int index)
      : plan_(plan),
        weights_(LayoutOf(plan).range(ShardId(index)).size(), 1.0f),
        bytes_(weights_.size() * sizeof(float)),
        links_(plan.workers) {}

  // Returns when it is told to stop.
  void Run(const Control& control) {
    Accept(control);
    std::vector<pollfd> polled(links_.size() + 1);
    polled.back() = {control.fd(), POLLIN, 0};
    while (true) {
      for (size_t i = 0; i < links_.size(); ++i) {
        polled[i] = InterestOf(links_[i]);
      }
      poll(polled.data(), polled.size(), -1);
      if (polled.back().revents != 0) return;
      for (size_t i = 0; i < links_.size(); ++i) {
        if (polled[i].revents & POLLOUT) Send(&links_[i]);
        if (polled[i].revents & ~POLLOUT) Receive(&links_[i]);
      }
      Answer();
    }
  }

 private:
  // The next step of a worker's connection.
  enum class Stage {
    // The gradient comes; with at_once, applied weights already go back.
    kGradient,
    kAsk,      // The worker asks for the weights.
    kWait,     // The weights wait for the gradients of all workers.
    kWeights,  // The weights go to the worker.
  };
  struct Link {
    int fd = -1;  // -1: the worker has left.
    Stage stage = Stage::kGradient;
    std::vector<char> piece = std::vector<char>(kPieceBytes);
    int64_t received = 0;  // In bytes, in this round.
    int64_t may_send = 0;
    int64_t sent = 0;
    int64_t rounds = 0;  // Gradients applied.
  };

  void Accept(const Control& control) {
    const Listening listening = ListenOnLoopback();
    control.Send({.kind = Note::Kind::kPort, .number = listening.port});
    for (Link& link : links_) link.fd = AcceptFrom(listening);
    close(listening.fd);
  }

  static pollfd InterestOf(const Link& link) {
    const bool in = link.stage == Stage::kGradient || link.stage == Stage::kAsk;
    const bool out = link.sent < link.may_send;
    const int events = (in ? POLLIN : 0) | (out ? POLLOUT : 0);
    return {events == 0 ? -1 : link.fd, static_cast<int16_t>(events), 0};
  }

  void Receive(Link* link) {
    const int64_t at = link->received % kPieceBytes;
    const int64_t most = std::min(kPieceBytes - at, bytes_ - link->received);
    const ssize_t result =
        link->stage == Stage::kAsk
            ? recv(link->fd, &word_, 1, MSG_DONTWAIT)
            : recv(link->fd, &link->piece[at], most, MSG_DONTWAIT);
    if (result == 0) {
      link->fd = -1;
    } else if (const int64_t moved = Moved(result); moved == 0) {
      return;
    } else if (link->stage == Stage::kAsk) {
      link->stage = Stage::kWait;
    } else {
      link->received += moved;
      if (moved == most) Apply(link, at + moved);
    }
  }

  // The last `bytes` that arrived complete a piece.
  void Apply(Link* link, int64_t bytes) {
    const auto* gradient = reinterpret_cast<const float*>(link->piece.data());
    const float factor = 1.0f / plan_.workers;
    float* weights = &weights_[(link->received - bytes) / sizeof(float)];
    kernels::SgdUpdate({.learning_rate = kRate}, {{&gradient, 1}, {&factor, 1}},
                       bytes / sizeof(float), weights, nullptr, weights);
    if (plan_.at_once) link->may_send = link->received;
    if (link->received < bytes_) return;
    ++link->rounds;
    link->stage = plan_.at_once ? Stage::kWeights : Stage::kAsk;
    if (!plan_.at_once) Moved(send(link->fd, &word_, 1, MSG_NOSIGNAL));
  }

  // Answers the workers that wait for all gradients.
  void Answer() {
    for (Link& link : links_) {
      const bool all = std::all_of(
          links_.begin(), links_.end(),
          [&](const Link& other) { return other.rounds >= link.rounds; });
      if (link.stage != Stage::kWait || !all) continue;
      link.stage = Stage::kWeights;
      link.may_send = bytes_;
    }
  }

  void Send(Link* link) {
    const char* from = reinterpret_cast<const char*>(weights_.data());
    const int64_t most = std::min(kPieceBytes, link->may_send - link->sent);
    link->sent += Moved(
        send(link->fd, from + link->sent, most, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (link->sent < bytes_) return;
    link->stage = Stage::kGradient;
    link->received = link->may_send = link->sent = 0;
  }

  const ExchangePlan plan_;
  std::vector<float> weights_;
  const int64_t bytes_;
  std::vector<Link> links_;
  char word_ = 0;
};

void RunShard(const ExchangePlan& plan, int index, const Control& control) {
  PlainShard(plan, index).Run(control);
}

}  // namespace

Bodies PlainSide() { return {&RunShard, &RunWorker}; }

}  // namespace sluice::bench

#ifndef SLUICE_BENCH_EXCHANGE_PEER_H_
#define SLUICE_BENCH_EXCHANGE_PEER_H_

#include <cstdint>
#include <string>

// What a program needs to take part in bench/exchange.cc: how its processes are
// controlled, and which numbers they exchange. Other systems' programs
// (bench/peers/ps_lite.cc) include it, so it needs nothing else of this tree.
namespace sluice::bench {

// The gradient of worker w at float i, and the weights after `rounds` updates
// by the workers' mean; before the first one all are 1. All values are exact in
// float32, and gradients in 16 bits.
inline constexpr float kRate = 1.0f / 1024;
float GradientAt(int worker, int64_t i);
float WeightAt(int workers, int64_t rounds, int64_t i);

// One control message.
struct Note {
  enum class Kind : int64_t {
    kPort,     // shard -> all workers: its port
    kReady,    // worker: connected
    kGo,       // to workers: begin an exchange; `number` is the round, from 1
    kPushed,   // worker: its gradient is staged; commit when all are
    kCommit,   // to shards: make version `number` of all gradients
    kApplied,  // shard, then to workers: the version is made
    kDone,     // worker: the round is over
    kStop,     // to anyone
  };
  Kind kind = Kind::kStop;
  int64_t number = 0;
  bool verify = false;  // kGo: check the weights that arrive.
  double push_seconds = 0;
  double pull_seconds = 0;
  double seconds = 0;  // kDone: for the whole round.
};

// One end of the control connection between the parent and a child, a socket
// of kind SOCK_SEQPACKET.
//
// Thread-compatible.
class Control {
 public:
  explicit Control(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void Send(const Note& note) const;
  // Waits for the next note. Ends the process if the other end is gone.
  Note Receive() const;

 private:
  int fd_;
};

// Ends this process with a message.
[[noreturn]] void Fail(const std::string& what);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_PEER_H_

#include "bench/exchange_peer.h"

#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

namespace sluice::bench {

// Multiples of 1/4 below 2.
float GradientAt(int worker, int64_t i) {
  return static_cast<float>((i + 3 * worker) % 8) / 4;
}

float WeightAt(int workers, int64_t rounds, int64_t i) {
  float sum = 0;
  for (int w = 0; w < workers; ++w) sum += GradientAt(w, i);
  return 1 - static_cast<float>(rounds) * kRate * sum / workers;
}

void Control::Send(const Note& note) const {
  if (send(fd_, &note, sizeof(note), MSG_NOSIGNAL) != sizeof(note)) {
    Fail("a process of the benchmark is gone");
  }
}

Note Control::Receive() const {
  Note note;
  if (recv(fd_, &note, sizeof(note), 0) != sizeof(note)) {
    Fail("a process of the benchmark is gone");
  }
  return note;
}

void Fail(const std::string& what) {
  std::fprintf(stderr, "exchange: %s\n", what.c_str());
  std::_Exit(1);
}

}  // namespace sluice::bench

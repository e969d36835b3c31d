#ifndef SLUICE_WORKER_EXTERNAL_TESTING_PROCESS_END_H_
#define SLUICE_WORKER_EXTERNAL_TESTING_PROCESS_END_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "worker/external/model_protocol.h"

namespace sluice {

// The process's end of the protocol, of the C++ model processes here: the
// system's calls and nothing else. What should not happen ends the process with
// exit status 9.
//
// Not thread-safe: call from one thread.
class ProcessEnd {
 public:
  // Takes HELLO. REQUIRES: a worker started this process.
  ProcessEnd();

  int64_t parameters() const { return parameters_; }
  const float* weights(uint32_t buffer) const { return weights_[buffer]; }
  float* gradient(uint32_t buffer) const { return gradients_[buffer]; }
  const int64_t* indices() const { return indices_; }

  // The next TASK or EVALUATE; empty after STOP, or where the worker is gone.
  // Blocks.
  using Asked = std::variant<model_protocol::Task, model_protocol::Evaluate>;
  std::optional<Asked> NextAsked();
  // Whether `task` was cancelled. Does not block.
  bool IsCancelled(uint64_t task);
  // Blocks until it was.
  void AwaitCancel(uint64_t task);

  // Blocks until there is a packet, which stays.
  void AwaitPacket();

  template <typename Message>
  void Say(const Message& message) {
    SayBytes(
        std::string(reinterpret_cast<const char*>(&message), sizeof message));
  }
  void SayBytes(const std::string& packet);
  void Close();

 private:
  // The packet, which must be this message.
  template <typename Message>
  Message Parse() const;
  // A packet, into `packet_`; whether there was one.
  bool Receive(int flags);

  int socket_;
  int64_t parameters_ = 0;
  std::vector<const float*> weights_;
  std::vector<float*> gradients_;
  const int64_t* indices_ = nullptr;
  std::string packet_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_TESTING_PROCESS_END_H_

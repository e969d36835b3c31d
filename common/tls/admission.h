#ifndef SLUICE_COMMON_TLS_ADMISSION_H_
#define SLUICE_COMMON_TLS_ADMISSION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/rpc/listener.h"
#include "common/tls/rpc_access.h"
#include "common/tls/transport_security.h"

namespace sluice {

// Judges each call of a server before anything of it is read: who may make it,
// and that no connection has more than a few at once, whose memory and versions
// it could hold. gRPC's own limit, GRPC_ARG_MAX_CONCURRENT_STREAMS, is in force
// only once the peer has acknowledged it, which a hostile one never does.
//
//   SLUICE_ASSIGN_OR_RETURN(place_, admission.Admit(call_, Rpc::kPull));
//
// Not thread-safe: call from the queue's thread.
class Admission {
 public:
  // A worker has a pull, a prefetch and a push, which may be eight calls, on a
  // connection, and for a moment those that it has given up.
  static constexpr int kMostCalls = 24;
  // Who is refused so often while it has as many is shut.
  static constexpr int kMostRefused = 64;

  // `listener`, whose connections the calls are on, hears what has come on
  // them; null: nobody asks.
  explicit Admission(TransportSecurity security, Listener* listener = nullptr)
      : security_(std::move(security)), listener_(listener) {}

  // An admitted call, which counts as its connection's until this is destroyed,
  // by the queue's thread and before the Admission.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(connection_, other.connection_);
      std::swap(caller_, other.caller_);
      std::swap(reading_, other.reading_);
      return *this;
    }
    ~Place() {
      EndReading();
      if (admission_ != nullptr) admission_->End(connection_);
    }

    const Caller& caller() const { return caller_; }
    // A message of so many bytes has come, or is being sent.
    void Took(int64_t bytes) const { Explain(bytes, 0); }
    void Gave(int64_t bytes) const { Explain(0, bytes); }
    // Nothing more is read of the call.
    void EndReading() {
      if (!std::exchange(reading_, false)) return;
      admission_->listener_->EndReading(connection_);
    }

   private:
    friend class Admission;
    void Explain(int64_t received, int64_t sent) const {
      if (admission_ == nullptr || admission_->listener_ == nullptr) return;
      admission_->listener_->Explain(connection_, received, sent);
    }

    Admission* admission_ = nullptr;  // Null: nothing was admitted.
    std::string connection_;
    Caller caller_;
    bool reading_ = false;
  };

  // A call that has just come. As TransportSecurity::Admit; kResourceExhausted:
  // its connection has too many.
  absl::StatusOr<Place> Admit(const grpc::ServerContextBase& call, Rpc rpc);

  const TransportSecurity& security() const { return security_; }

 private:
  void End(const std::string& connection);

  const TransportSecurity security_;
  Listener* const listener_;
  struct Calls {
    int live = 0;  // Never 0.
    int refused = 0;
  };
  // By ServerContext::peer, which names the connection.
  absl::flat_hash_map<std::string, Calls> calls_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_ADMISSION_H_

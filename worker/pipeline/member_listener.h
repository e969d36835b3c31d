#ifndef SLUICE_WORKER_PIPELINE_MEMBER_LISTENER_H_
#define SLUICE_WORKER_PIPELINE_MEMBER_LISTENER_H_

#include <grpcpp/server.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/listener.h"
#include "common/tls/transport_security.h"
#include "proto/member.grpc.pb.h"
#include "worker/pipeline/link_writer.h"

namespace sluice {

// Activations and their gradients travel in pieces of so many bytes, each while
// the next one is copied; beyond this nothing is gained (docs/benchmarks.md,
// chunks).
inline constexpr int64_t kMemberPieceBytes = 1 << 20;

// Whether a neighbour's address may be used; `what` names the flag.
// kInvalidArgument: it is off this host, and there is no TLS.
absl::Status AllowMember(const TransportSecurity& security,
                         const std::string& what, const std::string& address);

// A call of a member behind. What comes on it and goes out is explained to the
// port, which cuts off who sends what no message comes of.
//
// One thread may read while others use the writer.
class MemberCall {
 public:
  using Stream =
      grpc::ServerReaderWriter<proto::ToDownstream, proto::ToUpstream>;
  // All must outlive the call. `port` may be null.
  MemberCall(grpc::ServerContext* context, Stream* stream, Listener* port);
  // Waits for the write that is under way.
  ~MemberCall();

  // False: the call has ended.
  bool Read(proto::ToUpstream* message);
  // From now on there is a writer(), which says something every `beat`.
  void StartWriter(absl::Duration beat);
  const std::shared_ptr<LinkWriter<proto::ToDownstream>>& writer() const {
    return writer_;
  }
  // Sends the metadata that are said before the first message.
  void Begin(const std::string& key, const std::string& value);
  // From any thread.
  void Cancel() { context_.TryCancel(); }

 private:
  void Explain(int64_t received, int64_t sent);

  // Constant after construction.
  grpc::ServerContext& context_;
  Stream& stream_;
  Listener* const port_;
  const std::string peer_;

  std::shared_ptr<LinkWriter<proto::ToDownstream>> writer_;
};

// Where the members behind a process link to it: one address for all its slots.
//
// Thread-safe.
class MemberListener {
 public:
  // Serves the call that began with this hello until it ends. Called on a
  // thread of the server's.
  using Serve =
      std::function<absl::Status(const proto::MemberHello&, MemberCall*)>;

  // Listens at `address`, "host:port" or "unix-abstract:NAME", for members of
  // `workers`. `keepalive` is the neighbours', too. kInvalidArgument: it may
  // not, or is no address. kUnavailable: as of Listener::Open.
  static absl::StatusOr<std::unique_ptr<MemberListener>> Listen(
      const std::string& address, const std::vector<int64_t>& workers,
      const TransportSecurity& security, const Keepalive& keepalive = {});
  // REQUIRES: what was added has been removed.
  ~MemberListener();

  // From now on `serve` has the calls of the members of this worker; until then
  // they are told to try again. REQUIRES: it is one of those of Listen.
  void Add(int64_t worker, Serve serve);
  // And from now on no longer: waits until those that are served have ended.
  void Remove(int64_t worker);
  // Whether a call is over but for a write that its neighbour, which stands
  // still, does not take. Only that ends it, and the destructor waits for it.
  bool held_up();

 private:
  class Service;
  struct Worker {
    Serve serve;
    int calls = 0;  // That are served.
  };

  explicit MemberListener(const TransportSecurity& security);
  absl::Status ServeCall(grpc::ServerContext* context,
                         MemberCall::Stream* stream);

  const TransportSecurity security_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::map<int64_t, Worker> workers_ ABSL_GUARDED_BY(mu_);
  int calls_ ABSL_GUARDED_BY(mu_) = 0;  // Of which a handler has not returned.

  std::unique_ptr<Service> service_;
  std::unique_ptr<Listener> port_;  // Null: a socket of this host.
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_MEMBER_LISTENER_H_

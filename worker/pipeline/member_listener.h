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

namespace sluice {

// Whether a neighbour's address may be used; `what` names the flag.
// kInvalidArgument: it is off this host, and there is no TLS.
absl::Status AllowMember(const TransportSecurity& security,
                         const std::string& what, const std::string& address);

// Where the members behind a process link to it: one address for all its slots.
//
// Thread-safe.
class MemberListener {
 public:
  using Stream =
      grpc::ServerReaderWriter<proto::ToDownstream, proto::ToUpstream>;
  // Serves the call that began with this hello until it ends. Called on a
  // thread of the server's.
  using Serve = std::function<absl::Status(const proto::MemberHello&,
                                           grpc::ServerContext*, Stream*)>;

  // Listens at `address`, "host:port" or "unix-abstract:NAME", for members of
  // `workers`. `keepalive` is the neighbours', too. kInvalidArgument: it may
  // not, or cannot.
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

 private:
  class Service;
  struct Worker {
    Serve serve;
    int calls = 0;  // That are served.
  };

  explicit MemberListener(const TransportSecurity& security);
  absl::Status ServeCall(grpc::ServerContext* context, Stream* stream);

  const TransportSecurity security_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::map<int64_t, Worker> workers_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<Service> service_;
  std::unique_ptr<Listener> port_;  // Null: a socket of this host.
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_MEMBER_LISTENER_H_

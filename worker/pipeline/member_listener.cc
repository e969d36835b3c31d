// One server for all slots of a process, a call for each link. A call says in
// its first message whose it is, and is served on its own thread by whoever
// added that worker:
//
//   Add(4)               worker 4's life waits for its neighbour
//   call, hello of 4     served, until the link ends
//   call, hello of 5     nobody added 5 yet: kUnavailable, it comes again
//   call, hello of 9     not of this process: refused, and told whom it has
//   Remove(4)            returns when worker 4's calls have ended
#include "worker/pipeline/member_listener.h"

#include <grpcpp/alarm.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"
#include "common/host_port.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/tls/rpc_access.h"

namespace sluice {

namespace {

// As a Join's; then whoever says nothing has no thread here any more.
constexpr absl::Duration kHelloWithin = absl::Seconds(10);

// A call that is over has ended by then, unless a write is held up.
constexpr absl::Duration kCallsEndWithin = absl::Seconds(1);

// Cancels a call whose hello has not come for kHelloWithin; not once this is
// destroyed.
class HelloLimit {
 public:
  explicit HelloLimit(grpc::ServerContext* call) {
    alarm_.Set(FromNow(kHelloWithin), [this, call](bool over) {
      if (over) call->TryCancel();
      absl::MutexLock lock(&mu_);
      ended_ = true;
    });
  }
  // gRPC ends every alarm, also one that is cancelled.
  ~HelloLimit() {
    alarm_.Cancel();
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&ended_));
  }

 private:
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Alarm alarm_;
};

}  // namespace

MemberCall::MemberCall(grpc::ServerContext* context, Stream* stream,
                       Listener* port)
    : context_(*context),
      stream_(*stream),
      port_(port),
      peer_(context->peer()) {
  if (port_ != nullptr) port_->BeginReading(peer_);
}

MemberCall::~MemberCall() {
  if (writer_ != nullptr) {
    writer_->Close();
    writer_->AwaitEnd();
  }
  if (port_ != nullptr) port_->EndReading(peer_);
}

bool MemberCall::Read(proto::ToUpstream* message) {
  if (!stream_.Read(message)) return false;
  Explain(static_cast<int64_t>(message->ByteSizeLong()), 0);
  return true;
}

void MemberCall::StartWriter(absl::Duration beat) {
  writer_ = std::make_shared<LinkWriter<proto::ToDownstream>>(
      beat, [this](const proto::ToDownstream& message) {
        stream_.Write(message);
        Explain(0, static_cast<int64_t>(message.ByteSizeLong()));
      });
}

void MemberCall::Begin(const std::string& key, const std::string& value) {
  context_.AddInitialMetadata(key, value);
  stream_.SendInitialMetadata();
}

void MemberCall::Explain(int64_t received, int64_t sent) {
  if (port_ != nullptr) port_->Explain(peer_, received, sent);
}

absl::Status AllowMember(const TransportSecurity& security,
                         const std::string& what, const std::string& address) {
  if (IsLocalSocket(address)) return absl::OkStatus();
  return security.Allow(what, address);
}

class MemberListener::Service final : public proto::Member::Service {
 public:
  explicit Service(MemberListener* listener) : listener_(*listener) {}
  grpc::Status Link(grpc::ServerContext* context,
                    MemberCall::Stream* stream) override {
    return ToGrpcStatus(listener_.ServeCall(context, stream));
  }

 private:
  MemberListener& listener_;
};

MemberListener::MemberListener(const TransportSecurity& security)
    : security_(security), service_(std::make_unique<Service>(this)) {}

absl::StatusOr<std::unique_ptr<MemberListener>> MemberListener::Listen(
    const std::string& address, const std::vector<int64_t>& workers,
    const TransportSecurity& security, const Keepalive& keepalive) {
  SLUICE_RETURN_IF_ERROR(AllowMember(security, "--listen", address));
  std::unique_ptr<MemberListener> listener(new MemberListener(security));
  {
    absl::MutexLock lock(&listener->mu_);
    for (const int64_t worker : workers) listener->workers_[worker];
  }
  grpc::ServerBuilder builder;
  ApplyServerOptions(&builder, keepalive);
  // The links, and whoever is to be told that one is taken.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(workers.size()) + 3);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  std::unique_ptr<Listener::Connections> connections;
  if (IsLocalSocket(address)) {
    builder.AddListeningPort(address, security.ForServer());
  } else {
    auto port = Listener::Open(
        address, ConnectionLimits::ForJob(static_cast<int>(workers.size()),
                                          kMemberPieceBytes));
    if (!port.ok()) {
      return absl::Status(port.status().code(),
                          absl::StrCat("--listen: ", port.status().message()));
    }
    listener->port_ = *std::move(port);
    connections = Listener::AddTo(&builder, security.ForServer());
  }
  builder.RegisterService(listener->service_.get());
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "--listen: ", address,
        " cannot be listened on; is another process there already?"));
  }
  if (connections != nullptr) listener->port_->Serve(std::move(connections));
  return listener;
}

MemberListener::~MemberListener() {
  if (server_ == nullptr) return;
  if (port_ != nullptr) port_->Rest();
  server_->Shutdown(FromNow(absl::ZeroDuration()));
  server_->Wait();
}

void MemberListener::Add(int64_t worker, Serve serve) {
  absl::MutexLock lock(&mu_);
  workers_[worker].serve = std::move(serve);
}

void MemberListener::Remove(int64_t worker) {
  absl::MutexLock lock(&mu_);
  Worker& removed = workers_[worker];
  removed.serve = nullptr;
  const auto idle = [&removed] { return removed.calls == 0; };
  mu_.Await(absl::Condition(&idle));
}

bool MemberListener::held_up() {
  absl::MutexLock lock(&mu_);
  const auto ended = [this]()
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return calls_ == 0; };
  return !AwaitFor(&mu_, absl::Condition(&ended), kCallsEndWithin);
}

absl::Status MemberListener::ServeCall(grpc::ServerContext* context,
                                       MemberCall::Stream* stream) {
  SLUICE_RETURN_IF_ERROR(security_.Admit(*context, Rpc::kLink).status());
  {
    absl::MutexLock lock(&mu_);
    ++calls_;
  }
  const absl::Cleanup over = [this] {
    absl::MutexLock lock(&mu_);
    --calls_;
  };
  MemberCall call(context, stream, port_.get());
  proto::ToUpstream first;
  bool read;
  {
    const HelloLimit limit(context);
    read = call.Read(&first);
  }
  if (!read || !first.has_hello()) {
    return absl::InvalidArgumentError("the first message must be a hello");
  }
  const proto::MemberHello& hello = first.hello();
  Serve serve;
  {
    absl::MutexLock lock(&mu_);
    const auto worker = workers_.find(hello.worker());
    if (worker == workers_.end()) {
      std::vector<int64_t> numbers;
      for (const auto& [number, known] : workers_) numbers.push_back(number);
      return absl::FailedPreconditionError(
          absl::StrCat("member ", hello.member(), " of worker ", hello.worker(),
                       " comes where one of worker ",
                       absl::StrJoin(numbers, " or "), " is expected"));
    }
    if (worker->second.serve == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("worker ", hello.worker(), " is not ready for a link"));
    }
    serve = worker->second.serve;
    ++worker->second.calls;
  }
  const absl::Status served = serve(hello, &call);
  absl::MutexLock lock(&mu_);
  --workers_[hello.worker()].calls;
  return served;
}

}  // namespace sluice

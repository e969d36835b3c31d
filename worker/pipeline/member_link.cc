// One stream a link, and on it messages and pieces of activations, each in the
// order in which they were sent. Whoever reads never waits for whoever
// computes: pieces go into a queue, messages to a handler that must not block.
// What is written has a thread, too, so whoever tells never waits for the
// neighbour, and the thread that computes no longer than the link lasts.
//
// A link breaks when its stream ends without Unlink: the neighbour's process is
// gone, or has given the link up. Both sides hear of it at once where a process
// dies. Where it stands still, or a host or the network does, its silence says
// so: each end says something every quarter of a lease. The connection's
// keepalive does not see it while something is being sent, as its ping would
// have to pass that.
//
//   writer    Write(pass 3) ..... the neighbour is stopped; its socket is full
//   compute   Send(pass 5) ...... one is written, one waits
//   watcher   four looks, nothing heard: Sever
//   compute   ................... Send returns
//   reader    Read: false         "member 1 of worker 3 is gone"; Receive says
//   so writer    ................... until the neighbour goes on, or dies
//
// So a call outlives its link where its writer is held up, and nothing waits
// for it but the end of the process.
#include "worker/pipeline/member_link.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/await_for.h"
#include "common/job/resolved_job.h"
#include "common/key_proto.h"
#include "common/process/exit_codes.h"
#include "common/process/named_thread.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// Among the metadata of a call that is taken.
constexpr char kLinked[] = "sluice-linked";
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
constexpr absl::Duration kSayEvery = absl::Seconds(2);
// A write ends by then when its call has ended, unless it is held up.
constexpr absl::Duration kWriteEndsWithin = absl::Seconds(1);
// For a member to hear that the run is over.
constexpr absl::Duration kFarewell = absl::Seconds(2);

// Says every 2 s for whom it waits, until `there` is so, the wait is stopped,
// or its time is over.
absl::Status WaitFor(const LinkWait& wait, Clock* clock,
                     const std::function<std::string()>& whom,
                     const std::function<absl::StatusOr<bool>()>& there) {
  const absl::Time begin = clock->Now();
  absl::Time say = begin + kSayEvery;
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const bool is_there, there());
    if (is_there || wait.stopped()) return absl::OkStatus();
    const absl::Duration waited = clock->Now() - begin;
    if (waited >= wait.timeout) {
      return AskForRestart(absl::UnavailableError(absl::StrCat(
          whom(), ": no link for ", absl::FormatDuration(wait.timeout), " (",
          wait.field, ")")));
    }
    if (begin + waited < say) continue;
    say += kSayEvery;
    spdlog::warn("event=waiting for={} seconds={:.0f}", LogValue(whom()),
                 absl::ToDoubleSeconds(waited));
  }
}

}  // namespace

// ---- Either.

void LinkEnd::Begin(const GradientKey& task) {
  task_ = KeyToProto(task);
  queue_.Begin(task);
}

std::thread LinkEnd::Watch() {
  return StartThread("link-watch", [this] {
    if (watch_.AwaitSilence()) Sever();
  });
}

void LinkEnd::Send(int64_t pass, absl::Span<const uint8_t> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  for (int64_t at = 0; at < size; at += kMemberPieceBytes) {
    const auto piece = bytes.subspan(at, kMemberPieceBytes);
    proto::Activations message;
    *message.mutable_key() = task_;
    message.set_pass(pass);
    message.set_offset(at);
    message.set_size(size);
    message.set_data(piece.data(), piece.size());
    WritePiece(std::move(message));
  }
}

absl::Status LinkEnd::Receive(int64_t pass, absl::Span<uint8_t> into,
                              const CancelToken& cancel) {
  return queue_.Take(pass, into, cancel);
}

// ---- The member behind.

DownstreamLink::DownstreamLink(MemberListener* listener, MemberIdentity self,
                               absl::Duration lease, Clock* clock)
    : LinkEnd(lease),
      listener_(*listener),
      self_(std::move(self)),
      clock_(clock) {
  listener_.Add(self_.worker, [this](const auto& hello, auto* call) {
    return Serve(hello, call);
  });
}

DownstreamLink::~DownstreamLink() {
  Unlink();
  listener_.Remove(self_.worker);
}

std::string DownstreamLink::Name() const {
  return absl::StrCat("member ", self_.behind, " of worker ", self_.worker);
}

absl::Status DownstreamLink::CheckHello(const proto::MemberHello& hello) const {
  if (hello.member() != self_.behind) {
    return absl::FailedPreconditionError(
        absl::StrCat("member ", hello.member(), " of worker ", hello.worker(),
                     " comes where ", Name(), " is expected"));
  }
  if (hello.fingerprint() != self_.fingerprint) {
    const std::string differs = DescribeDifference(hello.job(), self_.job);
    return absl::FailedPreconditionError(absl::StrCat(
        Name(), ": has another job",
        differs.empty() ? " or data" : absl::StrCat(": ", differs)));
  }
  return absl::OkStatus();
}

absl::Status DownstreamLink::CheckInputs(
    const proto::MemberHello& hello) const {
  for (const auto& [name, value] : hello.inputs()) {
    const auto mine = inputs_.find(name);
    if (mine == inputs_.end() || mine->second == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": ", name, " is \"", value, "\" here, \"",
                     mine->second, "\" there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DownstreamLink::Handlers> DownstreamLink::Take(
    const proto::MemberHello& hello, MemberCall* call) {
  absl::MutexLock lock(&mu_);
  if (!awaited_ || serving_) {
    return absl::UnavailableError(
        absl::StrCat("member ", self_.member, " of worker ", self_.worker,
                     serving_ ? " has a link to another process"
                              : " is not ready for a link"));
  }
  SLUICE_RETURN_IF_ERROR(CheckInputs(hello));
  awaited_ = false;
  serving_ = true;
  call_ = call;
  finishing_ = false;
  members_ = {.processes = {hello.process()},
              .instruction_set = hello.instruction_set(),
              .inputs = {hello.inputs().begin(), hello.inputs().end()}};
  unreached_.reset();
  members_.processes.insert(members_.processes.end(), hello.behind().begin(),
                            hello.behind().end());
  queue_.Open();
  watch_.Open();
  return handlers_;
}

// Who answers a task has reached all shards.
void DownstreamLink::Heard(const proto::ToCoordinator& message) {
  const proto::Heartbeat& beat = message.heartbeat();  // Else an empty one.
  absl::MutexLock lock(&mu_);
  unreached_.reset();
  if (beat.waits_for().empty()) return;
  unreached_ = {beat.waits_for(),
                clock_->Now() - absl::Seconds(beat.waits_s())};
}

void DownstreamLink::Read(const Handlers& handlers, MemberCall* call) {
  proto::ToUpstream message;
  while (call->Read(&message)) {
    watch_.Heard();
    if (message.has_gradient()) {
      queue_.Put(std::move(*message.mutable_gradient()));
    } else if (message.has_to_coordinator()) {
      Heard(message.to_coordinator());
      if (message.to_coordinator().has_heartbeat()) continue;
      handlers.on_message(message.to_coordinator());
    }
  }
}

absl::Status DownstreamLink::Serve(const proto::MemberHello& hello,
                                   MemberCall* call) {
  SLUICE_RETURN_IF_ERROR(CheckHello(hello));
  SLUICE_ASSIGN_OR_RETURN(const Handlers handlers, Take(hello, call));
  call->Begin(kLinked, "1");
  call->StartWriter(watch_.beat());
  {
    absl::MutexLock lock(&mu_);
    linked_ = true;  // From now on others write to it.
  }
  spdlog::info("event=linked worker={} member={} process={}", self_.worker,
               self_.behind, LogValue(hello.process()));
  std::thread watcher = Watch();
  Read(handlers, call);
  Sever();  // No write waits any longer.
  watch_.Close();
  watcher.join();
  const absl::Status why =
      absl::UnavailableError(absl::StrCat(Name(), " is gone"));
  bool broken = false;
  {
    absl::MutexLock lock(&mu_);
    linked_ = false;
    call_ = nullptr;
    // Unlink has taken the handlers where it is meant to end.
    broken = handlers_.on_broken != nullptr;
    broken_ = broken;
  }
  if (broken) handlers.on_broken(why);
  queue_.Close(why);  // Whoever computes then finds that the link has broken.
  absl::MutexLock lock(&mu_);
  serving_ = false;
  return absl::OkStatus();
}

absl::Status DownstreamLink::Await(const LinkWait& wait, Handlers handlers,
                                   const MemberInputs& inputs) {
  {
    absl::MutexLock lock(&mu_);
    handlers_ = std::move(handlers);
    inputs_ = inputs;
    awaited_ = true;
    broken_ = false;
  }
  const absl::Status waited = WaitFor(
      wait, clock_,
      [this] {
        return absl::StrCat(Name(), self_.more ? ", or one behind it" : "");
      },
      [this]() -> absl::StatusOr<bool> {
        const auto there = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return linked_ || broken_;
        };
        absl::MutexLock lock(&mu_);
        return AwaitFor(&mu_, absl::Condition(&there), kLookEvery);
      });
  if (!waited.ok()) Unlink();  // From one that came at the last moment.
  absl::MutexLock lock(&mu_);
  awaited_ = false;
  return waited;
}

MembersBehind DownstreamLink::members() {
  absl::MutexLock lock(&mu_);
  return members_;
}

std::optional<UnreachedShard> DownstreamLink::unreached() {
  absl::MutexLock lock(&mu_);
  return linked_ ? unreached_ : std::nullopt;
}

void DownstreamLink::Tell(const proto::FromCoordinator& message) {
  proto::ToDownstream down;
  *down.mutable_from_coordinator() = message;
  absl::MutexLock lock(&mu_);
  if (!linked_) return;
  finishing_ |= message.has_finish();
  call_->writer()->Tell(std::move(down));
}

void DownstreamLink::WritePiece(proto::Activations piece) {
  std::shared_ptr<LinkWriter<proto::ToDownstream>> writer;
  {
    absl::MutexLock lock(&mu_);
    if (linked_) writer = call_->writer();
  }
  proto::ToDownstream down;
  *down.mutable_activations() = std::move(piece);
  if (writer != nullptr) writer->Send(std::move(down));
}

void DownstreamLink::Unlink() {
  const auto ended = [this]()
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return !serving_; };
  absl::MutexLock lock(&mu_);
  awaited_ = false;
  handlers_ = {};
  // It ends its side when it has heard of the run's end; otherwise this does.
  const absl::Duration farewell = finishing_ ? kFarewell : absl::ZeroDuration();
  if (AwaitFor(&mu_, absl::Condition(&ended), farewell)) return;
  if (call_ != nullptr) call_->Cancel();
  mu_.Await(absl::Condition(&ended));
}

void DownstreamLink::Sever() {
  absl::MutexLock lock(&mu_);
  if (call_ != nullptr) call_->Cancel();
  if (linked_) call_->writer()->Close();
}

// ---- The member before.

struct UpstreamLink::Call {
  using Stream =
      grpc::ClientReaderWriter<proto::ToUpstream, proto::ToDownstream>;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<LinkWriter<proto::ToUpstream>> writer;  // Once linked.
};

absl::StatusOr<std::unique_ptr<UpstreamLink>> UpstreamLink::To(
    const std::string& address, MemberIdentity self,
    const TransportSecurity& security, absl::Duration lease, Clock* clock) {
  SLUICE_RETURN_IF_ERROR(AllowMember(security, "--upstream", address));
  return std::unique_ptr<UpstreamLink>(
      new UpstreamLink(address, std::move(self), security, lease, clock));
}

UpstreamLink::UpstreamLink(std::string address, MemberIdentity self,
                           const TransportSecurity& security,
                           absl::Duration lease, Clock* clock)
    : LinkEnd(lease),
      address_(std::move(address)),
      self_(std::move(self)),
      clock_(clock),
      channel_(grpc::CreateCustomChannel(
          address_, security.ToWorkers(),
          BulkChannelArguments(WindowTo(address_, security.tls()),
                               Keepalive::Within(lease)))),
      stub_(proto::Member::NewStub(channel_)) {}

UpstreamLink::~UpstreamLink() { Unlink(); }

std::string UpstreamLink::Name() const {
  return absl::StrCat("member ", self_.before, " of worker ", self_.worker,
                      " at ", address_);
}

absl::StatusOr<std::shared_ptr<UpstreamLink::Call>> UpstreamLink::LinkOnce(
    const MembersBehind& behind) {
  auto call = std::make_shared<Call>();
  call->stream = stub_->Link(&call->context);
  proto::ToUpstream first;
  proto::MemberHello* hello = first.mutable_hello();
  hello->set_worker(self_.worker);
  hello->set_member(self_.member);
  hello->set_fingerprint(self_.fingerprint);
  hello->set_job(self_.job);
  hello->set_process(self_.process);
  hello->mutable_behind()->Assign(behind.processes.begin(),
                                  behind.processes.end());
  hello->set_instruction_set(
      behind.processes.empty()
          ? self_.instruction_set
          : std::min(self_.instruction_set, behind.instruction_set));
  hello->mutable_inputs()->insert(behind.inputs.begin(), behind.inputs.end());
  call->stream->Write(first);
  // It sends them when it has taken the link.
  call->stream->WaitForInitialMetadata();
  if (call->context.GetServerInitialMetadata().count(kLinked) == 0) {
    const absl::Status refused = FromGrpcStatus(call->stream->Finish());
    return refused.ok() ? absl::UnavailableError("the link ended") : refused;
  }
  call->writer = std::make_unique<LinkWriter<proto::ToUpstream>>(
      watch_.beat(), [stream = call->stream.get(), beat = beat_,
                      clock = clock_](const auto& message) {
        const bool is_beat =
            message.body_case() == proto::ToUpstream::BODY_NOT_SET;
        stream->Write(is_beat ? beat->Message(clock) : message);
      });
  return call;
}

absl::Status UpstreamLink::Link(const LinkWait& wait, Handlers handlers,
                                const MembersBehind& behind) {
  std::string last;
  std::shared_ptr<Call> call;
  SLUICE_RETURN_IF_ERROR(WaitFor(
      wait, clock_, [&] { return absl::StrCat(Name(), " (", last, ")"); },
      [&]() -> absl::StatusOr<bool> {
        auto made = LinkOnce(behind);
        if (made.ok()) {
          call = *std::move(made);
          return true;
        }
        const absl::Status& linked = made.status();
        last = std::string(linked.message());
        if (!absl::IsUnavailable(linked) && !absl::IsCancelled(linked)) {
          return absl::Status(linked.code(),
                              absl::StrCat(Name(), ": ", linked.message()));
        }
        // A connection that is being made makes progress only while somebody
        // waits for the channel, and a call that fails at once does not.
        if (channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
          CancelToken().WaitFor(kLookEvery);
        } else {
          channel_->WaitForConnected(FromNow(kLookEvery));
        }
        return false;
      }));
  if (call == nullptr) return absl::OkStatus();  // Stopped.
  queue_.Open();
  watch_.Open();
  {
    absl::MutexLock lock(&mu_);
    call_ = call;
  }
  reader_ = StartThread("link-read", [this, handlers = std::move(handlers),
                                      call] { Read(handlers, call.get()); });
  watcher_ = Watch();
  return absl::OkStatus();
}

void UpstreamLink::Read(const Handlers& handlers, Call* call) {
  proto::ToDownstream message;
  while (call->stream->Read(&message)) {
    watch_.Heard();
    if (message.has_activations()) {
      queue_.Put(std::move(*message.mutable_activations()));
    } else if (message.has_from_coordinator()) {
      handlers.on_message(message.from_coordinator());
    }
  }
  Sever();  // No write waits any longer.
  const absl::Status why =
      absl::UnavailableError(absl::StrCat(Name(), " is gone"));
  handlers.on_broken(why);
  queue_.Close(why);  // Whoever computes then finds that the link has broken.
}

proto::ToUpstream UpstreamLink::Beat::Message(Clock* clock) {
  proto::ToUpstream message;
  proto::Heartbeat* heartbeat =
      message.mutable_to_coordinator()->mutable_heartbeat();
  absl::MutexLock lock(&mu);
  const auto shard = unreached != nullptr ? unreached() : std::nullopt;
  if (shard.has_value()) {
    heartbeat->set_waits_for(shard->name);
    heartbeat->set_waits_s(absl::ToDoubleSeconds(clock->Now() - shard->since));
  }
  return message;
}

void UpstreamLink::TellUnreached(
    std::function<std::optional<UnreachedShard>()> unreached) {
  absl::MutexLock lock(&beat_->mu);
  beat_->unreached = std::move(unreached);
}

void UpstreamLink::Tell(const proto::ToCoordinator& answer) {
  proto::ToUpstream up;
  *up.mutable_to_coordinator() = answer;
  absl::MutexLock lock(&mu_);
  if (call_ != nullptr) call_->writer->Tell(std::move(up));
}

void UpstreamLink::WritePiece(proto::Activations piece) {
  std::shared_ptr<Call> call;
  {
    absl::MutexLock lock(&mu_);
    call = call_;
  }
  proto::ToUpstream up;
  *up.mutable_gradient() = std::move(piece);
  if (call != nullptr) call->writer->Send(std::move(up));
}

void UpstreamLink::Sever() {
  absl::MutexLock lock(&mu_);
  if (call_ == nullptr) return;
  call_->context.TryCancel();
  call_->writer->Close();
}

void UpstreamLink::Unlink() {
  TellUnreached(nullptr);
  Sever();
  watch_.Close();
  if (!reader_.joinable()) return;
  reader_.join();
  watcher_.join();
  std::shared_ptr<Call> call;
  {
    absl::MutexLock lock(&mu_);
    call.swap(call_);
  }
  if (call->writer->EndsWithin(kWriteEndsWithin)) {
    call->stream->Finish();
    return;
  }
  StartThread("link-left", [call, channel = channel_] {
    call->writer->AwaitEnd();
    call->stream->Finish();
  }).detach();
}

}  // namespace sluice

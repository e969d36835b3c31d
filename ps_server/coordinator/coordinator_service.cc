#include "ps_server/coordinator/coordinator_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "common/named_thread.h"
#include "common/resolved_job.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/event_conversion.h"
#include "ps_server/coordinator/policy_rules.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// Over how long rates are averaged: smooth enough to read, quick enough to
// show that a run has stalled.
constexpr absl::Duration kRateWindow = absl::Seconds(5);
// Heartbeats per lease: a lease survives the loss of all but one.
constexpr double kHeartbeatsPerLease = 5;

absl::Status Malformed(const Peer& peer, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(peer.ToString(), ": ", what));
}

}  // namespace

CoordinatorService::CoordinatorService(Options options, CommitLogWriter* log,
                                       MetricsWriter* metrics)
    : options_(std::move(options)),
      start_(options_.clock->Now()),
      log_(log),
      metrics_(metrics),
      core_(options_.core, start_),
      table_(options_.core.shards),
      meter_(kRateWindow),
      next_rates_(start_),
      next_metrics_(start_) {
  ticker_ = StartThread("coord-tick", [this] { TickLoop(); });
}

CoordinatorService::~CoordinatorService() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  ticker_.join();
}

// ---- What arrives. ----

grpc::ServerBidiReactor<proto::ToCoordinator, proto::FromCoordinator>*
CoordinatorService::Session(grpc::CallbackServerContext*) {
  return SessionStream::Start(this).get();
}

void CoordinatorService::OnFrame(SessionStream* stream,
                                 const proto::ToCoordinator& frame) {
  const absl::Status status =
      frame.has_join() ? OnJoin(stream, frame) : OnMessage(stream, frame);
  CarryOut();
  if (status.ok()) return;
  spdlog::warn("event=session_refused error=\"{}\"", status.ToString());
  stream->End(status);
  stream->Flush();
}

void CoordinatorService::OnBroken(SessionStream* stream) {
  {
    absl::MutexLock lock(&mu_);
    Seat* seat = table_.Find(stream);
    if (seat == nullptr) return;
    table_.Close(*seat);
    core_.Disconnected(seat->peer, seat->incarnation, options_.clock->Now(),
                       &pending_);
  }
  CarryOut();
}

absl::Status CoordinatorService::CheckJob(const proto::Join& join) const {
  if (join.fingerprint() == options_.fingerprint) return absl::OkStatus();
  std::string difference = DescribeDifference(options_.job_text, join.job());
  if (difference.empty()) {
    difference = absl::StrCat(
        "same job file, but another build or other data: fingerprint ",
        options_.fingerprint, " here, ", join.fingerprint(), " there");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("another job than the coordinator's: ", difference));
}

absl::Status CoordinatorService::OnJoin(SessionStream* stream,
                                        const proto::ToCoordinator& frame) {
  const proto::Join& join = frame.join();
  SLUICE_ASSIGN_OR_RETURN(const Peer peer, PeerFromProto(join));
  const absl::Status same_job = CheckJob(join);
  if (!same_job.ok()) {
    return absl::Status(same_job.code(), absl::StrCat(peer.ToString(), ": ",
                                                      same_job.message()));
  }
  absl::MutexLock lock(&mu_);
  if (table_.Find(stream) != nullptr) return Malformed(peer, "a second Join");
  SLUICE_ASSIGN_OR_RETURN(const Coordinator::JoinReply reply,
                          JoinCore(join, peer));
  const bool complete_before = !table_.ShardAddresses().empty();
  const absl::Status opened = table_.Open(
      peer, reply.incarnation, reply.resumed, join.address(), frame.ack(),
      stream->Share(), WelcomeFrame(reply.incarnation));
  if (!opened.ok()) return Malformed(peer, std::string(opened.message()));
  if (complete_before || table_.ShardAddresses().empty()) {
    return absl::OkStatus();
  }
  // Whoever came before the last shard gets the addresses now.
  for (Seat* seat : table_.ConnectedClients()) {
    table_.SendUnnumbered(*seat, WelcomeFrame(seat->incarnation));
  }
  return absl::OkStatus();
}

absl::StatusOr<Coordinator::JoinReply> CoordinatorService::JoinCore(
    const proto::Join& join, Peer peer) {
  const absl::Time now = options_.clock->Now();
  const Incarnation resume(join.incarnation());
  Seat* seat = table_.Find(peer);
  if (seat != nullptr && seat->incarnation == resume) {
    if (Over() && !seat->over) {
      return Coordinator::JoinReply{options_.core.generation, resume, true};
    }
    // The process has given up its old connection before this end noticed.
    if (seat->stream != nullptr) {
      core_.Disconnected(peer, resume, now, &pending_);
    }
  }
  Coordinator::JoinRequest request;
  request.peer = peer;
  request.resume = resume;
  request.address = join.address();
  request.process = join.process();
  request.inputs = {join.inputs().begin(), join.inputs().end()};
  return core_.Join(request, now, &pending_);
}

proto::FromCoordinator CoordinatorService::WelcomeFrame(
    Incarnation incarnation) const {
  proto::FromCoordinator frame;
  proto::Welcome* welcome = frame.mutable_welcome();
  welcome->set_generation(options_.core.generation.value());
  welcome->set_incarnation(incarnation.value());
  for (const std::string& address : table_.ShardAddresses()) {
    welcome->add_shard_addresses(address);
  }
  welcome->set_heartbeat_every_s(absl::ToDoubleSeconds(options_.core.lease) /
                                 kHeartbeatsPerLease);
  return frame;
}

absl::Status CoordinatorService::OnMessage(SessionStream* stream,
                                           const proto::ToCoordinator& frame) {
  absl::MutexLock lock(&mu_);
  Seat* seat = table_.Find(stream);
  if (seat == nullptr) {
    // What is still under way on a connection that is being closed.
    if (stream->ending()) return absl::OkStatus();
    return absl::InvalidArgumentError("the first message must be a Join");
  }
  absl::Status status = seat->queue.Acknowledge(frame.ack());
  if (!status.ok()) return Malformed(seat->peer, std::string(status.message()));
  if (seat->finishing && seat->queue.unacknowledged() == 0) {
    table_.End(*seat, absl::OkStatus());
    return absl::OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(
      core_.Heard(seat->peer, seat->incarnation, options_.clock->Now()));
  if (frame.has_heartbeat()) {
    // Answered, so that the peer knows that we live; but never queued up for
    // one that does not read.
    if (stream->idle()) {
      proto::FromCoordinator heartbeat;
      heartbeat.mutable_heartbeat();
      table_.SendUnnumbered(*seat, std::move(heartbeat));
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> is_new = seat->queue.Receive(frame.sequence());
  if (!is_new.ok()) {
    return Malformed(seat->peer, std::string(is_new.status().message()));
  }
  if (!*is_new) return absl::OkStatus();
  status = Dispatch(*seat, frame);
  if (frame.has_leave()) table_.End(*seat, absl::OkStatus());
  // A gradient whose task has ended: its worker has been told, or is about to
  // be.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status CoordinatorService::Dispatch(const Seat& seat,
                                          const proto::ToCoordinator& frame) {
  const absl::Time now = options_.clock->Now();
  const Peer peer = seat.peer;
  const auto from = [&](Role role) { return peer.role == role; };
  switch (frame.body_case()) {
    case proto::ToCoordinator::kReady: {
      const Delivery delivery = DeliveryFromProto(frame.ready());
      if (!from(Role::kWorker) || delivery.key.worker.value() != peer.id) {
        return Malformed(peer,
                         absl::StrCat("Ready for ", delivery.key.ToString()));
      }
      return core_.Ready(delivery, now, &pending_);
    }
    case proto::ToCoordinator::kRejected: {
      const GradientKey key = KeyFromProto(frame.rejected().key());
      if (!from(Role::kWorker) || key.worker.value() != peer.id) {
        return Malformed(peer, absl::StrCat("Rejected for ", key.ToString()));
      }
      return core_.Rejected(key, frame.rejected().reason(), now, &pending_);
    }
    case proto::ToCoordinator::kExecuted: {
      if (!from(Role::kShard)) return Malformed(peer, "Executed");
      const proto::Executed& executed = frame.executed();
      return core_.Executed(ShardId(peer.id), executed.decision(),
                            Version(executed.version()), executed.fault(), now,
                            &pending_);
    }
    case proto::ToCoordinator::kEvaluated:
      if (!from(Role::kEvaluator)) return Malformed(peer, "Evaluated");
      core_.Evaluated(EvaluationFromProto(frame.evaluated()), now, &pending_);
      return absl::OkStatus();
    case proto::ToCoordinator::kLeave:
      core_.Leave(peer, seat.incarnation, frame.leave().reason(), now,
                  &pending_);
      return absl::OkStatus();
    default:
      return Malformed(peer, absl::StrCat("message ", frame.sequence(),
                                          " has no known body"));
  }
}

grpc::ServerUnaryReactor* CoordinatorService::GetStatus(
    grpc::CallbackServerContext* context, const proto::StatusRequest*,
    proto::JobStatus* reply) {
  const absl::Time now = options_.clock->Now();
  Rates rates;
  JobState state;
  {
    absl::MutexLock lock(&mu_);
    state = StateLocked(now);
    rates = rates_;
  }
  *reply = StatusToProto(state, now);
  reply->set_name(options_.job_name);
  reply->set_policy(
      absl::StrCat(PolicyName(options_.core.sync.policy), ", K=", state.k));
  reply->set_epochs_total(options_.epochs_total);
  reply->set_updates_per_second(rates.updates_per_second);
  reply->set_samples_per_second(rates.samples_per_second);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* CoordinatorService::Stop(
    grpc::CallbackServerContext* context, const proto::StopRequest* request,
    proto::StopReply*) {
  RequestStop(request->reason());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

void CoordinatorService::RequestStop(const std::string& reason) {
  {
    absl::MutexLock lock(&mu_);
    core_.RequestStop(reason, options_.clock->Now(), &pending_);
  }
  CarryOut();
}

}  // namespace sluice

// Every role tries every call, on the lead's server under TLS. What may be is
// the table of docs/security.md.
#include <grpcpp/grpcpp.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/rpc/listener.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/admission.h"
#include "common/tls/testing/role_files.h"
#include "common/tls/transport_security.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Far longer than any call here takes.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr char kTable[] = "| call |";

// Answers whatever reaches it, with what a stranger must not learn.
class Answerer final : public CoordinatorEndpoint::Handler {
 public:
  void OnFrame(SessionStream* stream, const proto::ToCoordinator&) override {
    stream->End(absl::NotFoundError("reached"));
    stream->Flush();
  }
  void OnBroken(SessionStream*) override {}
  absl::Status CheckRun(const std::string&) override {
    return absl::OkStatus();
  }
  proto::JobStatus OnGetStatus() override { return {}; }
  void OnStop(const proto::StopRequest&) override {}
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override {
    return proto::CheckpointReply();
  }
  absl::Status OnReportDeath(const proto::DeathReport&) override {
    return absl::OkStatus();
  }
};

TransportSecurity With(const TlsFiles& files, TlsRole role) {
  TlsFlags flags;
  flags.files = files;
  const auto security = TransportSecurity::Open(flags, "", role);
  EXPECT_TRUE(security.ok()) << security.status();
  return *security;
}

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() : listener_(*Listener::Open("127.0.0.1:0")) {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    auto connections = Listener::AddTo(&builder, security_.ForServer());
    endpoint_.Register(&builder);
    exchange_.Register(&builder);
    server_ = builder.BuildAndStart();
    listener_->Serve(std::move(connections));
    endpoint_.Start();
    exchange_.Start();
  }
  ~AccessTest() override {
    listener_->Rest();
    server_->Shutdown(FromNow(absl::ZeroDuration()));
    endpoint_.Shutdown();
    exchange_.Shutdown();
  }

  static Authority NewAuthority() {
    return NewAuthorityFor("linear", Clock::Real()->Now());
  }
  TransportSecurity As(TlsRole role) const {
    return With(WriteRoleFiles(authority_, role, Clock::Real()->Now()), role);
  }
  std::shared_ptr<grpc::Channel> ChannelOf(const TransportSecurity& client) {
    return grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", listener_->port()), client.ToLead(),
        SessionChannelArguments());
  }

  const Authority authority_ = NewAuthority();
  const TransportSecurity security_ = As(TlsRole::kLead);
  Answerer answerer_;
  Shard shard_{testing::SmallOptions()};
  CoordinatorEndpoint endpoint_{&answerer_, security_};
  ExchangeService exchange_{&shard_, Clock::Real(), kPatience, security_};
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

grpc::Status Session(const std::shared_ptr<grpc::Channel>& channel,
                     proto::Role role) {
  grpc::ClientContext context;
  SetTimeout(kPatience, &context);
  const auto stream = proto::Coordinator::NewStub(channel)->Session(&context);
  proto::ToCoordinator join;
  join.mutable_join()->set_role(role);
  stream->Write(join);
  stream->WritesDone();
  return stream->Finish();
}

template <typename Request, typename Reply>
grpc::Status Unary(grpc::Status (proto::Coordinator::Stub::*method)(
                       grpc::ClientContext*, const Request&, Reply*),
                   const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  SetTimeout(kPatience, &context);
  Reply reply;
  const auto stub = proto::Coordinator::NewStub(channel);
  return (stub.get()->*method)(&context, Request(), &reply);
}

grpc::Status Pull(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  SetTimeout(kPatience, &context);
  return proto::Exchange::NewStub(channel)
      ->Pull(&context, proto::PullRequest())
      ->Finish();
}

grpc::Status Push(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  SetTimeout(kPatience, &context);
  proto::PushReply reply;
  const auto stub = proto::Exchange::NewStub(channel);
  const auto writer = stub->Push(&context, &reply);
  writer->Write(proto::PushChunk());
  writer->WritesDone();
  return writer->Finish();
}

grpc::Status Share(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  SetTimeout(kPatience, &context);
  proto::ShareReply reply;
  return proto::Exchange::NewStub(channel)->Share(
      &context, proto::ShareRequest(), &reply);
}

using Call =
    std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& channel)>;

// By the words of the table.
std::map<std::string, Call> Calls() {
  using Stub = proto::Coordinator::Stub;
  const auto session = [](proto::Role role) {
    return [role](const auto& channel) { return Session(channel, role); };
  };
  return {
      {"Session as a worker", session(proto::WORKER)},
      {"Session as a shard", session(proto::SHARD)},
      {"Session as the evaluator", session(proto::EVALUATOR)},
      {"GetStatus",
       [](const auto& channel) { return Unary(&Stub::GetStatus, channel); }},
      {"Stop", [](const auto& channel) { return Unary(&Stub::Stop, channel); }},
      {"RequestCheckpoint",
       [](const auto& channel) {
         return Unary(&Stub::RequestCheckpoint, channel);
       }},
      {"ReportDeath",
       [](const auto& channel) { return Unary(&Stub::ReportDeath, channel); }},
      {"Pull", Pull},
      {"Push", Push},
      {"Share", Share},
  };
}

// The cells of the document's table, with its head.
std::vector<std::vector<std::string>> Table() {
  std::ifstream file("docs/security.md");
  std::vector<std::vector<std::string>> rows;
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    here =
        absl::StartsWith(line, kTable) || (here && absl::StartsWith(line, "|"));
    if (!here || absl::StartsWith(line, "| -")) continue;
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    rows.emplace_back(cells.begin() + 1, cells.end() - 1);
  }
  return rows;
}

TEST_F(AccessTest, EachRoleMayMakeTheCallsOfTheTableAndNoOther) {
  const auto table = Table();
  const auto calls = Calls();
  ASSERT_THAT(table, SizeIs(calls.size() + 1));
  ASSERT_THAT(table[0], SizeIs(kTlsRoles.size() + 1));
  for (size_t r = 0; r < kTlsRoles.size(); ++r) {
    ASSERT_EQ(table[0][r + 1], TlsRoleName(kTlsRoles[r]));
    const auto channel = ChannelOf(As(kTlsRoles[r]));
    for (size_t row = 1; row < table.size(); ++row) {
      const std::string& call = table[row][0];
      ASSERT_TRUE(calls.contains(call)) << call;
      const grpc::Status ended = calls.at(call)(channel);
      const bool refused =
          ended.error_code() == grpc::StatusCode::PERMISSION_DENIED;
      EXPECT_EQ(refused ? "" : "yes", table[row][r + 1])
          << call << " by " << TlsRoleName(kTlsRoles[r]) << ": "
          << ended.error_message();
      if (!refused) continue;
      EXPECT_THAT(ended.error_message(),
                  HasSubstr(absl::StrCat("the peer's certificate is for the "
                                         "role ",
                                         TlsRoleName(kTlsRoles[r]))));
      EXPECT_THAT(ended.error_message(), Not(HasSubstr("linear")));
    }
  }
}

// A push of which nothing has come yet.
class SilentPush {
 public:
  explicit SilentPush(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(proto::Exchange::NewStub(channel)) {
    SetTimeout(kPatience, &context_);
    writer_ = stub_->Push(&context_, &reply_);
  }
  ~SilentPush() {
    context_.TryCancel();
    writer_->Finish();
  }

 private:
  const std::unique_ptr<proto::Exchange::Stub> stub_;
  grpc::ClientContext context_;
  proto::PushReply reply_;
  std::unique_ptr<grpc::ClientWriter<proto::PushChunk>> writer_;
};

TEST_F(AccessTest, AConnectionHasOnlySoManyCallsAtOnce) {
  const TransportSecurity worker = As(TlsRole::kWorker);
  const auto channel = ChannelOf(worker);
  std::vector<std::unique_ptr<SilentPush>> silent;
  for (int i = 0; i < Admission::kMostCalls; ++i) {
    silent.push_back(std::make_unique<SilentPush>(channel));
  }
  const grpc::Status refused = Push(channel);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("a connection may have 24 calls at once, and this Push "
                        "would be one more"));
  CounterMap counted;
  security_.CountRefused(0, &counted);
  EXPECT_EQ(counted["calls_refused"], 1);
  // Another connection has its own.
  EXPECT_NE(Push(ChannelOf(worker)).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // The server may hear of the next call before it hears of this one's end.
  silent.pop_back();
  const absl::Time until = Clock::Real()->Now() + kPatience;
  while (Push(channel).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    ASSERT_LT(Clock::Real()->Now(), until);
  }
}

TEST_F(AccessTest, ACertificateThatIsRevokedMakesNoCallOnItsConnection) {
  const TlsFiles files =
      WriteRoleFiles(authority_, TlsRole::kWorker, Clock::Real()->Now());
  // A server of its own, whose list this test may change.
  TlsFiles own =
      WriteRoleFiles(authority_, TlsRole::kLead, Clock::Real()->Now());
  const TransportSecurity security = With(own, TlsRole::kLead);
  CoordinatorEndpoint endpoint(&answerer_, security);
  const auto listener = *Listener::Open("127.0.0.1:0");
  grpc::ServerBuilder builder;
  ApplyServerOptions(&builder);
  auto connections = Listener::AddTo(&builder, security.ForServer());
  endpoint.Register(&builder);
  const auto server = builder.BuildAndStart();
  listener->Serve(std::move(connections));
  endpoint.Start();

  const auto channel = grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", listener->port()),
      With(files, TlsRole::kWorker).ToLead(), SessionChannelArguments());
  using Stub = proto::Coordinator::Stub;
  EXPECT_TRUE(Unary(&Stub::GetStatus, channel).ok());
  std::ofstream(own.crl) << RevokedText(authority_, files,
                                        Clock::Real()->Now());
  const grpc::Status refused = Unary(&Stub::GetStatus, channel);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(refused.error_message(), HasSubstr("is revoked"));

  listener->Rest();
  server->Shutdown(FromNow(absl::ZeroDuration()));
  endpoint.Shutdown();
}

}  // namespace
}  // namespace sluice

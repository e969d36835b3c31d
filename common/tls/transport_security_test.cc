// Real connections on the loopback, with certificates of this test.
#include "common/tls/transport_security.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/rpc/listener.h"
#include "common/rpc/status_conversion.h"
#include "common/tls/authority.h"
#include "common/tls/rpc_access.h"
#include "common/tls/testing/role_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Far longer than any test takes.
constexpr absl::Duration kLong = absl::Seconds(30);

absl::Time Now() { return Clock::Real()->Now(); }

Authority NewAuthority(const std::string& job = "linear") {
  return NewAuthorityFor(job, Now());
}

TransportSecurity With(const TlsFiles& files, TlsRole role) {
  TlsFlags flags;
  flags.files = files;
  const auto security = TransportSecurity::Open(flags, "", role);
  EXPECT_TRUE(security.ok()) << security.status();
  return *security;
}

TransportSecurity As(const Authority& authority, TlsRole role) {
  return With(WriteRoleFiles(authority, role, Now()), role);
}

// A server without methods: a call that reaches it is UNIMPLEMENTED. Unless it
// has those of `service`.
class Server {
 public:
  explicit Server(std::shared_ptr<grpc::ServerCredentials> credentials,
                  proto::Exchange::Service* service = nullptr)
      : listener_(*Listener::Open("127.0.0.1:0")) {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    auto connections = Listener::AddTo(&builder, std::move(credentials));
    builder.RegisterService(service != nullptr ? service : &service_);
    server_ = builder.BuildAndStart();
    listener_->Serve(std::move(connections));
  }
  ~Server() {
    listener_->Rest();
    server_->Shutdown(FromNow(absl::ZeroDuration()));
  }

  std::shared_ptr<grpc::Channel> NewConnection(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", listener_->port()), credentials,
        SessionChannelArguments());
  }
  // The end of a call.
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& connection) {
    grpc::ClientContext context;
    SetTimeout(kLong, &context);
    proto::PullRequest request;
    return proto::Exchange::NewStub(connection)
        ->Pull(&context, request)
        ->Finish();
  }
  bool Serves(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    const grpc::Status status = Call(NewConnection(credentials));
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return true;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
        << status.error_message();
    last_ = status.error_message();
    return false;
  }
  // Why the last call was not served.
  const std::string& last() const { return last_; }

 private:
  proto::Exchange::Service service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::string last_;
};

TEST(TransportSecurityTest, WithoutFlagsItIsPlainText) {
  const auto security = TransportSecurity::Open({}, "linear", TlsRole::kLead);
  ASSERT_TRUE(security.ok());
  EXPECT_FALSE(security->tls());
  EXPECT_TRUE(Server(security->ForServer()).Serves(security->ToLead()));
}

TEST(TransportSecurityTest, EveryRoleReachesTheLeadAndTheShards) {
  const Authority authority = NewAuthority();
  const Server lead(As(authority, TlsRole::kLead).ForServer());
  const Server shard(As(authority, TlsRole::kShard).ForServer());
  for (const TlsRole role : kTlsRoles) {
    const TransportSecurity client = As(authority, role);
    EXPECT_TRUE(client.tls());
    EXPECT_TRUE(lead.Serves(client.ToLead())) << lead.last();
    EXPECT_TRUE(lead.Serves(client.ToShards())) << lead.last();
    EXPECT_TRUE(shard.Serves(client.ToShards())) << shard.last();
  }
}

TEST(TransportSecurityTest, AShardCannotPlayTheLead) {
  const Authority authority = NewAuthority();
  const Server shard(As(authority, TlsRole::kShard).ForServer());
  EXPECT_FALSE(shard.Serves(As(authority, TlsRole::kWorker).ToLead()));
  EXPECT_THAT(shard.last(), HasSubstr("spiffe://sluice/linear/shard"));
}

TEST(TransportSecurityTest, AWorkerCannotPlayAServer) {
  const Authority authority = NewAuthority();
  const Server worker(As(authority, TlsRole::kWorker).ForServer());
  EXPECT_FALSE(worker.Serves(As(authority, TlsRole::kWorker).ToShards()));
}

TEST(TransportSecurityTest, AForeignAuthorityIsRefusedOnBothSides) {
  const Authority ours = NewAuthority(), theirs = NewAuthority();
  const Server server(As(ours, TlsRole::kLead).ForServer());
  EXPECT_FALSE(server.Serves(As(theirs, TlsRole::kWorker).ToLead()));
  // The client trusts both, so that only the server can refuse it.
  TlsFiles files = WriteRoleFiles(theirs, TlsRole::kWorker, Now());
  files.ca = WriteText(absl::StrCat(ToPem(theirs.certificate().get()),
                                    ToPem(ours.certificate().get())));
  EXPECT_FALSE(server.Serves(With(files, TlsRole::kWorker).ToLead()));
}

TEST(TransportSecurityTest, AnotherJobOfTheSameAuthorityIsRefused) {
  // One CA may sign for several jobs where somebody else's signs them.
  const Authority ours = NewAuthority("ours"), theirs = NewAuthority("theirs");
  const std::string both = WriteText(absl::StrCat(
      ToPem(ours.certificate().get()), ToPem(theirs.certificate().get())));
  TlsFiles server_files = WriteRoleFiles(ours, TlsRole::kLead, Now());
  TlsFiles client_files = WriteRoleFiles(theirs, TlsRole::kWorker, Now());
  server_files.ca = client_files.ca = both;
  const Server server(With(server_files, TlsRole::kLead).ForServer());
  EXPECT_FALSE(server.Serves(With(client_files, TlsRole::kWorker).ToLead()));
  EXPECT_TRUE(server.Serves(As(ours, TlsRole::kWorker).ToLead()))
      << server.last();
}

TEST(TransportSecurityTest, WhoShowsNoCertificateIsRefused) {
  const Authority authority = NewAuthority();
  const Server server(As(authority, TlsRole::kLead).ForServer());
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ToPem(authority.certificate().get());
  EXPECT_FALSE(server.Serves(grpc::SslCredentials(options)));
}

TEST(TransportSecurityTest, PlainTextAndTlsDoNotMeet) {
  const Authority authority = NewAuthority();
  const Server with_tls(As(authority, TlsRole::kLead).ForServer());
  EXPECT_FALSE(with_tls.Serves(TransportSecurity().ToLead()));
  const Server plain(TransportSecurity().ForServer());
  EXPECT_FALSE(plain.Serves(As(authority, TlsRole::kWorker).ToLead()));
}

TEST(TransportSecurityTest, ACertificateThatHasExpiredIsRefused) {
  const Authority authority = NewAuthority();
  const Server server(As(authority, TlsRole::kLead).ForServer());
  // The client's own check is made at a time when it was valid.
  class Earlier : public Clock {
   public:
    absl::Time Now() override {
      return Clock::Real()->Now() - absl::Minutes(2);
    }
  } earlier;
  TlsFlags flags;
  flags.files = WriteRoleFiles(authority, TlsRole::kWorker,
                               Now() - absl::Minutes(2), absl::Minutes(1));
  EXPECT_FALSE(TransportSecurity::Open(flags, "", TlsRole::kWorker).ok());
  const auto client =
      TransportSecurity::Open(flags, "", TlsRole::kWorker, &earlier);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(server.Serves(client->ToLead()));
}

TEST(TransportSecurityTest, WhoIsRevokedWhileTheServerRunsIsRefused) {
  const Authority authority = NewAuthority();
  TlsFiles files = WriteRoleFiles(authority, TlsRole::kLead, Now());
  const Server server(With(files, TlsRole::kLead).ForServer());
  const TlsFiles worker = WriteRoleFiles(authority, TlsRole::kWorker, Now());
  const TransportSecurity client = With(worker, TlsRole::kWorker);
  EXPECT_TRUE(server.Serves(client.ToLead())) << server.last();
  std::filesystem::rename(WriteRevoked(authority, worker, Now()), files.crl);
  EXPECT_FALSE(server.Serves(client.ToLead()));
  EXPECT_TRUE(server.Serves(As(authority, TlsRole::kWorker).ToLead()))
      << server.last();
  // A list that cannot be read leaves the one before it in force.
  std::ofstream(files.crl) << "garbage";
  EXPECT_FALSE(server.Serves(client.ToLead()));
  EXPECT_TRUE(server.Serves(As(authority, TlsRole::kWorker).ToLead()))
      << server.last();
}

// Its pulls end at once, for those that may call them.
class Admitting final : public proto::Exchange::Service {
 public:
  explicit Admitting(TransportSecurity security)
      : security_(std::move(security)) {}

  grpc::Status Pull(grpc::ServerContext* call, const proto::PullRequest*,
                    grpc::ServerWriter<proto::PullChunk>*) override {
    return ToGrpcStatus(security_.Admit(*call, Rpc::kPull).status());
  }

 private:
  const TransportSecurity security_;
};

// A role's files as `sluice certs` names them in a folder, without ca.crl.
std::string RoleFolder(const Authority& authority, TlsRole role) {
  const std::string folder = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::create_directories(folder);
  const TlsFiles files = WriteRoleFiles(authority, role, Now());
  std::filesystem::rename(files.ca, folder + "/ca.crt");
  std::filesystem::rename(files.certificate, folder + "/tls.crt");
  std::filesystem::rename(files.key, folder + "/tls.key");
  return folder;
}

TEST(TransportSecurityTest, AFolderOfAllRolesIsSaidToBeOne) {
  TlsFlags flags;
  flags.folder = absl::StrCat(::testing::TempDir(), "/all");
  std::filesystem::create_directory(flags.folder);
  std::filesystem::rename(RoleFolder(NewAuthority(), TlsRole::kWorker),
                          flags.folder + "/worker");
  EXPECT_EQ(
      TransportSecurity::Open(flags, "", TlsRole::kWorker).status().message(),
      absl::StrCat("--tls=", flags.folder,
                   ": has a folder for each role; worker's is ", flags.folder,
                   "/worker"));
  EXPECT_THAT(std::string(TransportSecurity::Open(flags, "", TlsRole::kShard)
                              .status()
                              .message()),
              HasSubstr("/all/ca.crt: "))
      << "there is none for it";
}

TEST(TransportSecurityTest, TheFirstListThatComesWhileTheServerRunsIsInForce) {
  const Authority authority = NewAuthority();
  TlsFlags flags;
  flags.folder = RoleFolder(authority, TlsRole::kLead);
  const auto lead = TransportSecurity::Open(flags, "", TlsRole::kLead);
  ASSERT_TRUE(lead.ok()) << lead.status();
  Admitting service(*lead);
  const Server server(lead->ForServer(), &service);
  const TlsFiles worker = WriteRoleFiles(authority, TlsRole::kWorker, Now());
  const auto credentials = With(worker, TlsRole::kWorker).ToLead();
  const auto connection = server.NewConnection(credentials);
  EXPECT_TRUE(Server::Call(connection).ok());
  EXPECT_TRUE(Server::Call(connection).ok());  // As one that is known.

  const std::string list = flags.folder + "/ca.crl";
  std::filesystem::rename(WriteRevoked(authority, worker, Now()), list);
  EXPECT_FALSE(Server::Call(connection).ok());
  EXPECT_FALSE(Server::Call(server.NewConnection(credentials)).ok());
  // Nor does it revoke nobody again when it is gone.
  std::filesystem::remove(list);
  EXPECT_FALSE(Server::Call(connection).ok());
  EXPECT_FALSE(Server::Call(server.NewConnection(credentials)).ok());
  const auto other = As(authority, TlsRole::kWorker).ToLead();
  EXPECT_TRUE(Server::Call(server.NewConnection(other)).ok());
}

TEST(TransportSecurityTest, AListThatCannotBeLookedAtIsNotTakenForNone) {
  const Authority authority = NewAuthority();
  TlsFlags flags;
  flags.folder = RoleFolder(authority, TlsRole::kLead);
  const std::string list = flags.folder + "/ca.crl";
  std::filesystem::create_symlink(list, list);  // A loop.
  const auto lead = TransportSecurity::Open(flags, "", TlsRole::kLead);
  EXPECT_TRUE(absl::IsInvalidArgument(lead.status())) << lead.status();
  EXPECT_THAT(std::string(lead.status().message()), HasSubstr(list));
}

// So it is where somebody writes it as another user and then changes the owner:
// neither its size nor its time tell that it can be read now.
TEST(TransportSecurityTest, AListThatCouldNotBeReadIsInForceOnceItCanBe) {
  const Authority authority = NewAuthority();
  const TlsFiles files = WriteRoleFiles(authority, TlsRole::kLead, Now());
  const TransportSecurity lead = With(files, TlsRole::kLead);
  Admitting service(lead);
  const Server server(lead.ForServer(), &service);
  const TlsFiles worker = WriteRoleFiles(authority, TlsRole::kWorker, Now());
  const auto credentials = With(worker, TlsRole::kWorker).ToLead();
  const auto connection = server.NewConnection(credentials);
  EXPECT_TRUE(Server::Call(connection).ok());

  const std::string list = RevokedText(authority, worker, Now());
  std::ofstream(files.crl) << std::string(list.size(), 'x');
  const auto changed = std::filesystem::last_write_time(files.crl);
  EXPECT_TRUE(Server::Call(connection).ok());
  EXPECT_TRUE(Server::Call(server.NewConnection(credentials)).ok());
  std::ofstream(files.crl) << list;
  std::filesystem::last_write_time(files.crl, changed);
  EXPECT_FALSE(Server::Call(server.NewConnection(credentials)).ok());
  EXPECT_FALSE(Server::Call(connection).ok());
}

TEST(TransportSecurityTest, AServerThatIsRevokedIsRefused) {
  const Authority authority = NewAuthority();
  const TlsFiles lead = WriteRoleFiles(authority, TlsRole::kLead, Now());
  const Server server(With(lead, TlsRole::kLead).ForServer());
  TlsFiles worker = WriteRoleFiles(authority, TlsRole::kWorker, Now());
  worker.crl = WriteRevoked(authority, lead, Now());
  EXPECT_FALSE(server.Serves(With(worker, TlsRole::kWorker).ToLead()));
  EXPECT_THAT(server.last(), HasSubstr("is revoked"));
}

TEST(TransportSecurityTest, PlainTextStaysOnTheLoopbackUnlessInsecureIsSaid) {
  const TransportSecurity plain;
  EXPECT_TRUE(plain.Allow("--listen", "127.0.0.1:0").ok());
  EXPECT_TRUE(plain.Allow("--listen", "[::1]:0").ok());
  for (const char* address : {"[::]:7000", "0.0.0.0:0", "lead:7000"}) {
    const absl::Status refused = plain.Allow("--listen", address);
    EXPECT_TRUE(absl::IsInvalidArgument(refused));
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("--listen: ", address,
                                       " is not on the loopback")));
  }
  TlsFlags flags;
  flags.insecure = true;
  const auto insecure = TransportSecurity::Open(flags, "", TlsRole::kLead);
  ASSERT_TRUE(insecure.ok());
  EXPECT_TRUE(insecure->insecure());
  EXPECT_TRUE(insecure->Allow("--listen", "[::]:7000").ok());
  EXPECT_FALSE(insecure->Allow("--listen", "nonsense").ok());
  const Authority authority = NewAuthority();
  EXPECT_TRUE(
      As(authority, TlsRole::kLead).Allow("--listen", "[::]:7000").ok());
  flags.files = WriteRoleFiles(authority, TlsRole::kLead, Now());
  EXPECT_TRUE(absl::IsInvalidArgument(
      TransportSecurity::Open(flags, "", TlsRole::kLead).status()));
}

TEST(TlsFlagsTest, AFolderNamesItsFilesAndAFlagAnotherOne) {
  TlsFlags flags;
  EXPECT_EQ(*FilesOf(flags), std::nullopt);
  flags.folder = "/no/such";
  auto files = FilesOf(flags);
  ASSERT_TRUE(files.ok() && files->has_value());
  EXPECT_EQ((*files)->ca, "/no/such/ca.crt");
  EXPECT_EQ((*files)->certificate, "/no/such/tls.crt");
  EXPECT_EQ((*files)->key, "/no/such/tls.key");
  EXPECT_EQ((*files)->crl, "/no/such/ca.crl");
  EXPECT_TRUE((*files)->crl_may_come);
  flags.files.key = "/other.key";
  flags.files.crl = "/other.crl";
  files = FilesOf(flags);
  EXPECT_EQ((*files)->key, "/other.key");
  EXPECT_EQ((*files)->crl, "/other.crl");
  EXPECT_FALSE((*files)->crl_may_come);
  EXPECT_EQ((*files)->ca, "/no/such/ca.crt");
}

TEST(TlsFlagsTest, AFlagAloneIsNotEnough) {
  for (std::string TlsFiles::*file : {&TlsFiles::ca, &TlsFiles::certificate,
                                      &TlsFiles::key, &TlsFiles::crl}) {
    TlsFlags flags;
    flags.files.*file = "/file";
    EXPECT_TRUE(absl::IsInvalidArgument(FilesOf(flags).status()));
  }
}

}  // namespace
}  // namespace sluice

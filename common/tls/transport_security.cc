// gRPC verifies the chain and the proof of the key in the handshake, against
// the files that its watcher reads. What it cannot know, whom the certificate
// is for and which ones are revoked, PeerVerifier checks after the handshake
// and before the connection carries a call:
//
//   worker                                   shard 1
//     | -- certificate of .../linear/worker --> |  signed, valid: gRPC
//     | <-- certificate of .../linear/shard --- |  job, role, revoked: here
//
// The revocation list is not handed to gRPC: it would read the list only when
// a certificate changes, and would accept a peer in silence if there is none.
#include "common/tls/transport_security.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/stat.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/host_port.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/telemetry/log_pace.h"
#include "common/telemetry/log_value.h"
#include "common/telemetry/shared_counters.h"
#include "common/tls/access_counters.h"
#include "common/tls/certificate_counter.h"
#include "common/tls/pem.h"
#include "common/tls/tls_files.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

using ::grpc::experimental::FileWatcherCertificateProvider;

// How often gRPC looks whether the files have changed.
constexpr unsigned kWatchEveryS = 1;
// A line for each of a thousand refused connections would say nothing more.
constexpr absl::Duration kLineEvery = absl::Seconds(1);
// It is tried again with each call.
constexpr absl::Duration kUnreadableEvery = absl::Minutes(1);

// A certificate is to be renewed before this share of its lifetime is left.
constexpr double kWarnBelow = 0.2;
constexpr absl::Duration kWarnEvery = absl::Hours(1);
// A job has fewer certificates, also while they are being exchanged.
constexpr size_t kMostCallers = 256;

// What differs when a file has been replaced or written to.
struct FileStamp {
  ino_t inode = 0;
  off_t size = 0;
  timespec changed = {};

  static FileStamp Of(const std::string& path) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) return {};
    return {found.st_ino, found.st_size, found.st_mtim};
  }
  bool operator==(const FileStamp& other) const {
    return inode == other.inode && size == other.size &&
           changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

// The certificate with which the peer of a call has shown itself; empty: none.
std::string PeerCertificate(const grpc::ServerContextBase& call) {
  const auto found =
      call.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (found.size() != 1) return "";
  return std::string(found[0].data(), found[0].size());
}

// `sluice certs` makes a folder for each role in the one that it is given.
absl::Status CheckIsRoleFolder(const std::string& folder, TlsRole role) {
  const std::string own = absl::StrCat(folder, "/", TlsRoleName(role));
  const auto has_ca = [](const std::string& in) {
    return FileStamp::Of(absl::StrCat(in, "/ca.crt")).inode != 0;
  };
  if (folder.empty() || has_ca(folder) || !has_ca(own)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--tls=", folder, ": has a folder for each role; ",
                   TlsRoleName(role), "'s is ", own));
}

std::vector<TlsRole> EveryRole() {
  return {kTlsRoles.begin(), kTlsRoles.end()};
}

}  // namespace

// Whom the servers of this process have refused. Thread-safe.
class TransportSecurity::Refusals {
 public:
  // Of a peer (event=peer_refused), or of a call (event=call_refused).
  void Add(const char* event, int64_t AccessCounters::*counter,
           const absl::Status& why) {
    counters_.Add(counter);
    if (!line_.Due(Clock::Real()->Now())) return;
    spdlog::warn("event={} reason={} refused_total={}", event,
                 LogValue(why.message()), counters_.Get().*counter);
  }
  AccessCounters counters() const { return counters_.Get(); }

 private:
  SharedCounters<AccessCounters> counters_;
  LogPace line_{kLineEvery};
};

// The files of this process, for all its channels and servers. Thread-safe.
class TransportSecurity::WatchedFiles {
 public:
  WatchedFiles(TlsFiles files, Clock* clock)
      : files_(std::move(files)),
        clock_(*clock),
        provider_(std::make_shared<FileWatcherCertificateProvider>(
            files_.key, files_.certificate, files_.ca, kWatchEveryS)) {}

  const std::shared_ptr<FileWatcherCertificateProvider>& provider() const {
    return provider_;
  }

  // Reads the list of revoked certificates before the first Check.
  // kInvalidArgument: it cannot be read.
  absl::Status Open() {
    absl::MutexLock lock(&mu_);
    return ReadRevokedAgain();
  }

  // As CheckPeer, with the list of revoked certificates as it is now.
  absl::Status Check(const std::string& pem, const std::string& job,
                     const std::vector<TlsRole>& roles) {
    absl::Status unreadable;
    absl::Status checked;
    {
      absl::MutexLock lock(&mu_);
      unreadable = ReadRevokedAgain();
      checked = CheckPeer(pem, job, roles, revoked_.get());
    }
    if (!unreadable.ok() && unreadable_.Due(clock_.Now())) {
      spdlog::error("event=crl_unreadable error={}",
                    LogValue(unreadable.message()));
    }
    return checked;
  }

  // The holder of a certificate that has passed Check, as long as it passes.
  absl::StatusOr<Caller> CallerOf(const std::string& pem,
                                  const std::string& job) {
    const FileStamp stamp = FileStamp::Of(files_.crl);
    {
      absl::MutexLock lock(&mu_);
      if (!(stamp == callers_stamp_)) callers_.clear();
      callers_stamp_ = stamp;
      const auto known = callers_.find(pem);
      if (known != callers_.end()) return known->second;
    }
    SLUICE_RETURN_IF_ERROR(Check(pem, job, EveryRole()));
    SLUICE_ASSIGN_OR_RETURN(const auto certificates,
                            CertificatesFromPem("the peer", pem));
    SLUICE_ASSIGN_OR_RETURN(const TlsIdentity identity,
                            IdentityOf("the peer", certificates[0].get()));
    const Caller caller{identity.role, KeyDigest(certificates[0].get())};
    absl::MutexLock lock(&mu_);
    if (!(stamp == callers_stamp_) || !(stamp == stamp_)) return caller;
    if (callers_.size() >= kMostCallers) callers_.clear();
    callers_.emplace(pem, caller);
    return caller;
  }

  // As TransportSecurity::CountCertificate. No value: its file is unreadable
  // just now.
  std::optional<absl::Duration> CertificateLeft() {
    const absl::StatusOr<std::string> pem = ReadSmallFile(files_.certificate);
    if (!pem.ok()) return std::nullopt;
    const auto own = CertificatesFromPem(files_.certificate, *pem);
    if (!own.ok()) return std::nullopt;
    const X509* const certificate = own->front().get();
    const absl::Time expiry = ExpiryOf(certificate);
    const absl::Time now = clock_.Now();
    const absl::Duration left = expiry - now;
    if (left < (expiry - BeginOf(certificate)) * kWarnBelow &&
        warning_.Due(now)) {
      spdlog::warn("event=certificate_expires file={} seconds_left={}",
                   files_.certificate, absl::ToInt64Seconds(left));
    }
    return left;
  }

 private:
  // Reads the list if it has changed, or has come. An error: it cannot be read,
  // or is gone; the one before it stays in force.
  absl::Status ReadRevokedAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (files_.crl.empty()) return absl::OkStatus();
    const FileStamp stamp = FileStamp::Of(files_.crl);
    if (revoked_ != nullptr && stamp == stamp_) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(RevocationList list, ReadRevoked(files_));
    if (list == nullptr && revoked_ != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(files_.crl, ": is gone; what it revoked stays so"));
    }
    revoked_ = std::move(list);
    stamp_ = stamp;
    return absl::OkStatus();
  }

  // Constant after construction.
  const TlsFiles files_;
  Clock& clock_;
  const std::shared_ptr<FileWatcherCertificateProvider> provider_;
  LogPace warning_{kWarnEvery};
  LogPace unreadable_{kUnreadableEvery};

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  RevocationList revoked_ ABSL_GUARDED_BY(mu_);  // Null: there was none yet.
  FileStamp stamp_ ABSL_GUARDED_BY(mu_);  // Of the file that it was read from.
  // Who has passed Check, by certificate, while the list is that of
  // `callers_stamp_`: parsing one takes as long as a small call.
  absl::flat_hash_map<std::string, Caller> callers_ ABSL_GUARDED_BY(mu_);
  FileStamp callers_stamp_ ABSL_GUARDED_BY(mu_);
};

// Called by gRPC after each handshake, on threads of its own.
class TransportSecurity::PeerVerifier final
    : public grpc::experimental::ExternalCertificateVerifier {
 public:
  // `refusals`: where they are counted; null: in a client, which says them.
  PeerVerifier(std::shared_ptr<WatchedFiles> files, std::string job,
               std::vector<TlsRole> roles, std::shared_ptr<Refusals> refusals)
      : files_(std::move(files)),
        job_(std::move(job)),
        roles_(std::move(roles)),
        refusals_(std::move(refusals)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> callback,
              grpc::Status* sync_status) override {
    const grpc::string_ref pem = request->peer_cert();
    const absl::Status checked =
        files_->Check(std::string(pem.data(), pem.size()), job_, roles_);
    if (!checked.ok() && refusals_ != nullptr) {
      refusals_->Add("peer_refused", &AccessCounters::peers_refused, checked);
    }
    *sync_status = ToGrpcStatus(checked);
    return true;  // It has been decided.
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {
  }

 private:
  const std::shared_ptr<WatchedFiles> files_;
  const std::string job_;
  const std::vector<TlsRole> roles_;
  const std::shared_ptr<Refusals> refusals_;
};

TransportSecurity::TransportSecurity()
    : refusals_(std::make_shared<Refusals>()) {}

absl::StatusOr<TransportSecurity> TransportSecurity::Open(
    const TlsFlags& flags, const std::string& job, TlsRole role, Clock* clock) {
  TransportSecurity security;
  SLUICE_ASSIGN_OR_RETURN(const auto files, FilesOf(flags));
  if (!files.has_value()) {
    security.insecure_ = flags.insecure;
    return security;
  }
  if (flags.insecure) {
    return absl::InvalidArgumentError(
        "--insecure: stands for plain text, and there are certificates");
  }
  SLUICE_RETURN_IF_ERROR(CheckIsRoleFolder(flags.folder, role));
  SLUICE_ASSIGN_OR_RETURN(const TlsIdentity self,
                          CheckOwnFiles(*files, job, role, clock->Now()));
  security.job_ = self.job;
  security.files_ = std::make_shared<WatchedFiles>(*files, clock);
  SLUICE_RETURN_IF_ERROR(security.files_->Open());
  return security;
}

absl::Status TransportSecurity::Allow(const std::string& what,
                                      const std::string& address) const {
  const absl::StatusOr<HostPort> at = ParseHostPort(address);
  if (!at.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", at.status().message()));
  }
  if (tls() || insecure_ || at->IsLoopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": ", address,
      " is not on the loopback, and in plain text whoever reaches a port can "
      "take part in the run. Give --tls with certificates (`sluice certs` "
      "makes "
      "them), or --insecure if you trust everybody on this network"));
}

std::shared_ptr<grpc::ServerCredentials> TransportSecurity::ForServer() const {
  if (!tls()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(files_->provider());
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
          files_, job_, EveryRole(), refusals_));
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<Caller> TransportSecurity::Admit(
    const grpc::ServerContextBase& call, Rpc rpc) const {
  if (!tls()) return Caller();
  absl::StatusOr<Caller> caller = files_->CallerOf(PeerCertificate(call), job_);
  if (caller.ok() && !May(*caller->role, rpc)) {
    caller = absl::PermissionDeniedError(absl::StrCat(
        "the peer's certificate is for the role ", TlsRoleName(*caller->role),
        ", which may not call ", RpcName(rpc)));
  }
  if (!caller.ok()) return RefuseCall(caller.status());
  return caller;
}

absl::Status TransportSecurity::AdmitJoin(const Caller& caller,
                                          TlsRole role) const {
  if (!tls() || caller.role == role) return absl::OkStatus();
  return RefuseCall(absl::PermissionDeniedError(absl::StrCat(
      "the peer's certificate is for the role ", TlsRoleName(*caller.role),
      ", which may not join as ", TlsRoleName(role))));
}

absl::Status TransportSecurity::RefuseCall(const absl::Status& why) const {
  refusals_->Add("call_refused", &AccessCounters::calls_refused, why);
  return why;
}

void TransportSecurity::CountRefused(int64_t connections,
                                     CounterMap* counters) const {
  AccessCounters refused = refusals_->counters();
  refused.connections_refused = connections;
  refused.handshakes_failed = HandshakesFailed();
  PutCounters(kAccessCounters, refused, counters);
}

void TransportSecurity::CountCertificate(CounterMap* counters) const {
  if (!tls()) return;
  const std::optional<absl::Duration> left = files_->CertificateLeft();
  if (!left.has_value()) return;
  (*counters)[kCertificateSecondsLeft] = absl::ToInt64Seconds(*left);
}

std::shared_ptr<grpc::ChannelCredentials> TransportSecurity::ToLead() const {
  return To({TlsRole::kLead});
}

std::shared_ptr<grpc::ChannelCredentials> TransportSecurity::ToShards() const {
  return To({TlsRole::kLead, TlsRole::kShard});
}

std::shared_ptr<grpc::ChannelCredentials> TransportSecurity::ToWorkers() const {
  return To({TlsRole::kWorker});
}

std::shared_ptr<grpc::ChannelCredentials> TransportSecurity::To(
    std::vector<TlsRole> roles) const {
  if (!tls()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(files_->provider());
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // The role is checked instead of the name of the host.
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
          files_, job_, std::move(roles), /*refusals=*/nullptr));
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace sluice

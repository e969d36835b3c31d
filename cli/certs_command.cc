#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "common/clock.h"
#include "common/telemetry/json_text.h"
#include "common/tls/certificate_folder.h"
#include "common/tls/identity.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

struct CertsFlags {
  std::string folder;
  std::string job;
  std::vector<std::string> hosts;
  std::string lifetime = "90d";
  std::string ca_lifetime = "3650d";
  std::string revoke;
  bool renew = false;
  bool replace = false;
  bool json = false;
};

constexpr int kRefused = 2;

int Fail(const absl::Status& status) {
  std::cerr << "certs: " << status.message() << "\n";
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status)
             ? 1
             : kRefused;
}

int Refuse(const std::string& what) {
  return Fail(absl::InvalidArgumentError(what));
}

std::string CertificatesJson(const CertsFlags& flags) {
  nlohmann::ordered_json json = {{"ca_key", flags.folder + "/ca/ca.key"},
                                 {"ca_lifetime", flags.ca_lifetime}};
  json["certificates"] = nlohmann::json::array();
  for (const TlsRole role : kTlsRoles) {
    json["certificates"].push_back(
        {{"folder", absl::StrCat(flags.folder, "/", TlsRoleName(role))},
         {"identity", TlsIdentity{flags.job, role}.Uri()},
         {"lifetime", flags.lifetime}});
  }
  return JsonText(json, 2) + "\n";
}

// Prints what has been done: `text` or, with --json, {`key`: `value`}.
void Say(const CertsFlags& flags, const std::string& text,
         const std::string& key, const std::string& value) {
  std::cout << (flags.json ? JsonText({{key, value}}, 2) : text) << "\n";
}

// For whom each folder is, and that the authority's key stays here.
void Describe(const CertsFlags& flags) {
  if (flags.json) {
    std::cout << CertificatesJson(flags);
    return;
  }
  std::cout << flags.folder << "/ca/ca.key signs certificates; keep it here, "
            << "no daemon needs it (valid " << flags.ca_lifetime << ")\n";
  for (const TlsRole role : kTlsRoles) {
    std::cout << flags.folder << "/" << TlsRoleName(role) << " is for "
              << TlsIdentity{flags.job, role}.Uri() << " (valid "
              << flags.lifetime << ")\n";
  }
}

int Make(const CertsFlags& flags, absl::Duration lifetime, absl::Time now) {
  const auto ca_lifetime = ParseLifetime(flags.ca_lifetime);
  if (!ca_lifetime.has_value()) {
    return Refuse("--ca-lifetime: expected a duration as 3650d, 12h, 30m, 45s");
  }
  if (flags.job.empty() || flags.hosts.empty()) {
    return Refuse("new certificates need --job and --hosts");
  }
  const absl::Status made = MakeCertificates(flags.folder,
                                             {.job = flags.job,
                                              .hosts = flags.hosts,
                                              .lifetime = lifetime,
                                              .ca_lifetime = *ca_lifetime,
                                              .replace = flags.replace},
                                             now);
  if (!made.ok()) return Fail(made);
  Describe(flags);
  return 0;
}

int Certs(const CertsFlags& flags) {
  const absl::Time now = Clock::Real()->Now();
  const auto lifetime = ParseLifetime(flags.lifetime);
  if (!lifetime.has_value()) {
    return Refuse("--lifetime: expected a duration as 90d, 12h, 30m, 45s");
  }
  if (!flags.revoke.empty()) {
    const absl::Status done =
        RevokeCertificate(flags.folder, flags.revoke, now);
    if (!done.ok()) return Fail(done);
    Say(flags,
        absl::StrCat(flags.revoke, " is in the revocation lists of ",
                     flags.folder, " (ca.crl)"),
        "revoked", flags.revoke);
    return 0;
  }
  if (!flags.renew) return Make(flags, *lifetime, now);
  const absl::Status done =
      RenewCertificates(flags.folder, flags.hosts, *lifetime, now);
  if (!done.ok()) return Fail(done);
  Say(flags,
      absl::StrCat("the certificates in ", flags.folder, " are new (valid ",
                   flags.lifetime, ")"),
      "renewed", flags.folder);
  return 0;
}

}  // namespace

void AddCertsCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "certs", "Make, renew or revoke a job's TLS certificates");
  auto flags = std::make_shared<CertsFlags>();
  command
      ->add_option("dir", flags->folder,
                   "Gets a folder for the CA and for each role: lead, shard, "
                   "worker, evaluator, operator")
      ->required();
  auto* job = command->add_option("--job", flags->job, "The job's name");
  auto* hosts =
      command
          ->add_option(
              "--hosts", flags->hosts,
              "Names or IP addresses of the lead's and the shards' hosts, "
              "with commas between them")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->type_name("HOST,...");
  auto* lifetime =
      command
          ->add_option("--lifetime", flags->lifetime,
                       "How long certificates are valid: 90d, 12h, 30m, 45s")
          ->capture_default_str();
  auto* ca_lifetime =
      command
          ->add_option("--ca-lifetime", flags->ca_lifetime,
                       "The same for the CA, which no certificate outlives")
          ->capture_default_str();
  auto* renew = command->add_flag(
      "--renew", flags->renew,
      "New certificates from the CA that is there, for the same keys");
  auto* replace = command->add_flag(
      "--replace", flags->replace,
      "Write over the CA and the certificates that are there");
  auto* revoke =
      command->add_option("--revoke", flags->revoke,
                          "Add this certificate to the lists of revoked ones");
  for (auto* other : std::vector<CLI::Option*>{job, ca_lifetime, replace}) {
    renew->excludes(other);
    revoke->excludes(other);
  }
  for (auto* other : std::vector<CLI::Option*>{renew, hosts, lifetime}) {
    revoke->excludes(other);
  }
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Certs(*flags); });
}

}  // namespace sluice

#include "common/tls/tls_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"

namespace sluice {

void AddTlsFlags(CLI::App* app, TlsFlags* flags) {
  app->add_option("--tls", flags->folder,
                  "folder with ca.crt, tls.crt and tls.key (and ca.crl, if "
                  "certificates are revoked), as `sluice certs` makes one for "
                  "each role. Default: plain text");
  app->add_option("--tls-ca", flags->files.ca,
                  "file with the CA, instead of ca.crt in the folder");
  app->add_option("--tls-cert", flags->files.certificate,
                  "file with the certificate, instead of tls.crt");
  app->add_option("--tls-key", flags->files.key,
                  "file with its key, instead of tls.key");
  app->add_option("--crl", flags->files.crl,
                  "file with the CA's list of revoked certificates, instead "
                  "of ca.crl");
  app->add_flag("--insecure", flags->insecure,
                "allows plain text off the loopback: whoever reaches a port "
                "can take part in the run, read its weights and stop it");
}

absl::StatusOr<std::optional<TlsFiles>> FilesOf(const TlsFlags& flags) {
  TlsFiles files = flags.files;
  const bool any = !flags.folder.empty() || !files.ca.empty() ||
                   !files.certificate.empty() || !files.key.empty() ||
                   !files.crl.empty();
  if (!any) return std::nullopt;
  if (!flags.folder.empty()) {
    const auto fill = [&](const char* name, std::string* file) {
      if (file->empty()) *file = absl::StrCat(flags.folder, "/", name);
    };
    fill("ca.crt", &files.ca);
    fill("tls.crt", &files.certificate);
    fill("tls.key", &files.key);
    files.crl_may_come = files.crl.empty();
    fill("ca.crl", &files.crl);
  }
  const auto missing = [](const char* flag) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag,
                     ": is missing; TLS needs a CA, a certificate and "
                     "its key, or --tls with a folder of them"));
  };
  if (files.ca.empty()) return missing("--tls-ca");
  if (files.certificate.empty()) return missing("--tls-cert");
  if (files.key.empty()) return missing("--tls-key");
  return files;
}

}  // namespace sluice

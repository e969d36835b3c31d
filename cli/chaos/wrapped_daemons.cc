// Each program is a shell script that becomes the daemon (exec). So process
// number, signals and exit status are those of the daemon.
#include "cli/chaos/wrapped_daemons.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The flags say which part it is. The launcher lets every server listen on the
// loopback, which becomes the part's address, in plain text unless there are
// certificates: only the parts are in its network. $0: a line for each part;
// $1: what comes before the daemon; $2: the daemon.
constexpr char kScript[] = R"sh(#!/bin/sh
part=evaluator
insecure=--insecure
for word; do
  case $$word in
    --shard=*) part=ps_server-$${word#*=} ;;
    --worker=*) part=worker-$${word#*=} ;;
    --tls=*) insecure= ;;
  esac
done
case $$part in
$0esac
for word; do
  shift
  case $$word in --listen=127.0.0.1:*)
    word=--listen=$${address:-127.0.0.1}:$${word##*:} ;;
  esac
  set -- "$$@" "$$word"
done
exec $1 $2 "$$@" $${address:+$$insecure}
)sh";

std::string ShellQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace

absl::Status WrapDaemons(const std::string& folder, const std::string& bin_dir,
                         const std::vector<std::string>& parts,
                         const PartNetworks* networks,
                         const PartStorage* storage) {
  namespace fs = std::filesystem;
  std::string places;
  for (const std::string& part : parts) {
    if (networks == nullptr) break;
    absl::StrAppend(&places, "  ", part, ") network=", networks->PathOf(part),
                    " address=", networks->AddressOf(part), " ;;\n");
  }
  for (const char* daemon :
       {"ps_server/ps_server", "worker/worker", "worker/evaluator"}) {
    std::string before;
    if (networks != nullptr) before = "/usr/bin/nsenter --net=\"$network\"";
    if (storage != nullptr &&
        daemon == absl::string_view("ps_server/ps_server")) {
      absl::StrAppend(&before, " /usr/bin/env ",
                      ShellQuoted("LD_PRELOAD=" + storage->library()));
    }
    const fs::path program = fs::path(folder) / daemon;
    std::error_code error;
    const std::string real = fs::absolute(fs::path(bin_dir) / daemon, error);
    fs::create_directories(program.parent_path(), error);
    SLUICE_RETURN_IF_ERROR(WriteFileAtomically(
        program,
        {absl::Substitute(kScript, places, before, ShellQuoted(real))}));
    fs::permissions(program, fs::perms::owner_exec, fs::perm_options::add,
                    error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat(program.string(), ": ", error.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice

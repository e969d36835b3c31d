#include "common/tls/rpc_access.h"

namespace sluice {

absl::string_view RpcName(Rpc rpc) {
  switch (rpc) {
    case Rpc::kSession:
      return "Session";
    case Rpc::kGetStatus:
      return "GetStatus";
    case Rpc::kStop:
      return "Stop";
    case Rpc::kRequestCheckpoint:
      return "RequestCheckpoint";
    case Rpc::kReportDeath:
      return "ReportDeath";
    case Rpc::kPull:
      return "Pull";
    case Rpc::kPush:
      return "Push";
    case Rpc::kLink:
      return "Link";
    case Rpc::kShare:
      return "Share";
  }
  return "";
}

bool May(TlsRole role, Rpc rpc) {
  switch (rpc) {
    case Rpc::kSession:  // The lead's own is within its process.
      return role == TlsRole::kShard || role == TlsRole::kWorker ||
             role == TlsRole::kEvaluator;
    case Rpc::kGetStatus:
      return true;
    case Rpc::kStop:
    case Rpc::kRequestCheckpoint:
    case Rpc::kReportDeath:
      return role == TlsRole::kOperator;
    case Rpc::kPull:
    case Rpc::kShare:
      return role == TlsRole::kWorker || role == TlsRole::kEvaluator;
    case Rpc::kPush:
    case Rpc::kLink:
      return role == TlsRole::kWorker;
  }
  return false;
}

}  // namespace sluice

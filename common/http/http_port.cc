// libmicrohttpd rather than cpp-httplib: the latter reads any number of header
// lines into memory before a handler can object, and needs a thread for each
// viewer.
#include "common/http/http_port.h"

#include <microhttpd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/rpc/listening_sockets.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr size_t kConnectionBytes = 32 * 1024;
constexpr unsigned int kConnections = 64;
constexpr unsigned int kConnectionsOfOneAddress = 16;
constexpr unsigned int kIdleSeconds = 10;

MHD_Result Send(MHD_Connection* connection, const HttpAnswer& answer) {
  MHD_Response* response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()),
      MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          answer.type.c_str());
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(
      response, "Content-Security-Policy",
      "default-src 'none'; connect-src 'self'; img-src 'self' data:; "
      "script-src 'self'; style-src 'self'; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
  if (answer.code == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result queued = MHD_queue_response(
      connection, static_cast<unsigned int>(answer.code), response);
  MHD_destroy_response(response);
  return queued;
}

// Empty: there is none.
std::string Header(MHD_Connection* connection, const char* name) {
  const char* value =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

// With any port: a forwarded one differs.
bool IsOurs(const HttpPort& port, const std::string& host) {
  const std::vector<std::string>& names = port.access().hosts;
  return names.empty() ||
         std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return host == name || absl::StartsWith(host, name + ":");
         });
}

// Takes as long for any wrong token of the right length.
bool IsToken(const std::string& token, const std::string& sent) {
  if (sent.size() != token.size()) return false;
  int differ = 0;
  for (size_t i = 0; i < token.size(); ++i) differ |= token[i] ^ sent[i];
  return differ == 0;
}

// What a request asks for, and of whom: `target` is "/metrics", of the host in
// its header, or "http://host:8080/metrics" (RFC 9112, 3.2.2).
struct Target {
  std::string host;
  std::string path;
};
Target TargetOf(MHD_Connection* connection, absl::string_view target) {
  constexpr absl::string_view kScheme = "http://";
  if (!absl::StartsWithIgnoreCase(target, kScheme)) {
    return {Header(connection, MHD_HTTP_HEADER_HOST), std::string(target)};
  }
  target.remove_prefix(kScheme.size());
  const size_t end = std::min(target.find('/'), target.size());
  const absl::string_view path = target.substr(end);
  return {std::string(target.substr(0, end)),
          path.empty() ? "/" : std::string(path)};
}

HttpAnswer NoSuchPage(const std::map<std::string, HttpPage>& pages) {
  std::string body = "there is no such page; there are:\n";
  for (const auto& [known, unused] : pages) {
    absl::StrAppend(&body, known, "\n");
  }
  return {.code = MHD_HTTP_NOT_FOUND, .body = body};
}

HttpAnswer AnswerTo(const HttpPort& port, MHD_Connection* connection,
                    const std::string& asked, const std::string& method) {
  const HttpAccess& access = port.access();
  const auto [host, path] = TargetOf(connection, asked);
  const bool reads =
      method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD;
  if (!reads && (method != MHD_HTTP_METHOD_POST || access.actions.empty())) {
    return {.code = MHD_HTTP_METHOD_NOT_ALLOWED,
            .body = "expected GET or HEAD\n"};
  }
  if (!IsOurs(port, host)) {
    return {.code = MHD_HTTP_MISDIRECTED_REQUEST,
            .body = absl::StrCat("expected a Host of this port: ",
                                 absl::StrJoin(access.hosts, " or "), "\n")};
  }
  const auto& pages = reads ? port.pages() : access.actions;
  const auto page = pages.find(path);
  if (page == pages.end()) return NoSuchPage(pages);
  if (!access.token.empty() && absl::StartsWith(path, "/api/") &&
      !IsToken(access.token, Header(connection, "X-Sluice-Token"))) {
    return {.code = MHD_HTTP_FORBIDDEN,
            .body =
                "expected the token of this port in X-Sluice-Token: it is "
                "in the address that was printed\n"};
  }
  return page->second([connection](const std::string& name) -> std::string {
    const char* value = MHD_lookup_connection_value(
        connection, MHD_GET_ARGUMENT_KIND, name.c_str());
    return value == nullptr ? "" : value;
  });
}

// A request is answered when its headers are there; a body is never read.
MHD_Result OnRequest(void* port, MHD_Connection* connection, const char* path,
                     const char* method, const char* /*version*/,
                     const char* /*upload*/, size_t* /*upload_size*/,
                     void** /*request*/) {
  return Send(connection, AnswerTo(*static_cast<HttpPort*>(port), connection,
                                   path, method));
}

void OnConnection(void* port, MHD_Connection* connection,
                  void** /*of_connection*/,
                  MHD_ConnectionNotificationCode what) {
  SlowConnections& slow = static_cast<HttpPort*>(port)->slow();
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) return slow.End(connection);
  const MHD_ConnectionInfo* socket =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (socket != nullptr) slow.Begin(connection, socket->connect_fd);
}

}  // namespace

HttpPort::HttpPort(std::map<std::string, HttpPage> pages, HttpAccess access)
    : pages_(std::move(pages)),
      access_(std::move(access)),
      slow_(access_.request_limit) {}

HttpPort::~HttpPort() {
  for (MHD_Daemon* daemon : daemons_) MHD_stop_daemon(daemon);
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Open(
    const std::string& address, std::map<std::string, HttpPage> pages,
    HttpAccess access) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<int> sockets,
                          OpenListeningSockets(address));
  std::unique_ptr<HttpPort> port(
      new HttpPort(std::move(pages), std::move(access)));
  port->port_ = PortOfSocket(sockets.front());
  while (!sockets.empty()) {
    MHD_Daemon* daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, /*port=*/0, nullptr, nullptr, &OnRequest,
        port.get(), MHD_OPTION_LISTEN_SOCKET, sockets.back(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes,
        MHD_OPTION_CONNECTION_LIMIT, kConnections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, kConnectionsOfOneAddress,
        MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
        MHD_OPTION_NOTIFY_CONNECTION, &OnConnection, port.get(),
        MHD_OPTION_END);
    if (daemon == nullptr) {
      for (const int socket : sockets) close(socket);
      return absl::InternalError(
          absl::StrCat("cannot serve HTTP on ", address));
    }
    sockets.pop_back();
    port->daemons_.push_back(daemon);
  }
  return port;
}

}  // namespace sluice

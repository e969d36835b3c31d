#ifndef SLUICE_COMMON_HTTP_HTTP_PORT_H_
#define SLUICE_COMMON_HTTP_HTTP_PORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/slow_connections.h"

struct MHD_Daemon;

namespace sluice {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// The value of an argument after the "?" by its name; empty: there is none.
using HttpArguments = std::function<std::string(const std::string& name)>;

// Makes the answer of one path. Called on a thread of the port's, which answers
// nobody else meanwhile. There is one for each address of the host, as
// localhost has 127.0.0.1 and ::1: so from several threads at once.
using HttpPage = std::function<HttpAnswer(const HttpArguments& arguments)>;

// Whom a port answers. The default: whoever reaches it, and nothing can be
// changed through it.
struct HttpAccess {
  // What the header Host may say before the port: "localhost". Empty: anything.
  // So a page from elsewhere whose name has come to mean this machine is
  // refused.
  std::vector<std::string> hosts;
  // Paths that begin with "/api/" need it in the header X-Sluice-Token. Empty:
  // they need none, and there are no actions.
  std::string token;
  // What POST does, by path, "/api/stop"; a body is not read.
  std::map<std::string, HttpPage> actions;
  // What a request and its answer may take together.
  absl::Duration request_limit = absl::Seconds(30);
};

// A port that answers GET and HEAD in plain text.
//
// Nothing that a client sends makes it hold much: a connection has one request
// and 32 KiB for it, which fits a request line and headers and no body, ends
// after 10 s in which nothing arrives and after HttpAccess::request_limit, and
// for each address of the host there are at most 64 of them, 16 of one client's
// address. What exceeds that is closed.
// Browsers are told to load nothing from elsewhere and to keep nothing.
//
// Thread-safe.
class HttpPort {
 public:
  // Answers at "host:port" from here on; port 0: a free one. `pages`: by path,
  // "/metrics". Another path is 404, another method 405, a token that is not
  // `access`'s 403, another Host 421. Errors as OpenListeningSockets's.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Open(
      const std::string& address, std::map<std::string, HttpPage> pages,
      HttpAccess access = {});
  // Waits for the page that is being made, if any.
  ~HttpPort();

  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }
  // As opened with.
  const std::map<std::string, HttpPage>& pages() const { return pages_; }
  const HttpAccess& access() const { return access_; }
  SlowConnections& slow() { return slow_; }

 private:
  HttpPort(std::map<std::string, HttpPage> pages, HttpAccess access);

  // Constant after Open.
  const std::map<std::string, HttpPage> pages_;
  const HttpAccess access_;
  int port_ = 0;
  SlowConnections slow_;
  std::vector<MHD_Daemon*> daemons_;  // One for each of the host's addresses.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_HTTP_HTTP_PORT_H_

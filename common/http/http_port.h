#ifndef SLUICE_COMMON_HTTP_HTTP_PORT_H_
#define SLUICE_COMMON_HTTP_HTTP_PORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct MHD_Daemon;

namespace sluice {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// The value of an argument after the "?" by its name; empty: there is none.
using HttpArguments = std::function<std::string(const std::string& name)>;

// Makes the answer of one path. Called on the port's thread, one call at a
// time; nobody else is answered meanwhile.
using HttpPage = std::function<HttpAnswer(const HttpArguments& arguments)>;

// A port that answers GET and HEAD, in plain text, to whoever reaches it.
// Pages are for reading: what changes anything does not belong here.
//
// Nothing that a client sends makes it hold much: a connection has 32 KiB for
// what it asks, which fits a request line and headers and no body, ends after
// 10 s in which nothing arrives, and there are at most 64 of them, 16 of one
// address. What exceeds that is closed. Browsers are told to load nothing from
// elsewhere and to keep nothing.
//
// Thread-safe.
class HttpPort {
 public:
  // Answers at "host:port" from here on; port 0: a free one. `pages`: by path,
  // "/metrics". Another path is 404, another method 405. Errors as
  // OpenListeningSockets's.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Open(
      const std::string& address, std::map<std::string, HttpPage> pages);
  // Waits for the page that is being made, if any.
  ~HttpPort();

  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }
  const std::map<std::string, HttpPage>& pages() const { return pages_; }

 private:
  explicit HttpPort(std::map<std::string, HttpPage> pages);

  // Constant after Open.
  const std::map<std::string, HttpPage> pages_;
  int port_ = 0;
  std::vector<MHD_Daemon*> daemons_;  // One for each of the host's addresses.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_HTTP_HTTP_PORT_H_

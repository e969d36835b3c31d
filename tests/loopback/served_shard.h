#ifndef SLUICE_TESTS_LOOPBACK_SERVED_SHARD_H_
#define SLUICE_TESTS_LOOPBACK_SERVED_SHARD_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "gtest/gtest.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// A shard and its service on a free port, restored to version 0.
//
// Not thread-safe: call from the thread of the test.
class ServedShard {
 public:
  static constexpr char kSecret[] = "the secret of a test";

  explicit ServedShard(ShardOptions options)
      : shard_(std::move(options)), service_(&shard_, Clock::Real()) {
    grpc::ServerBuilder builder;
    int port = 0;
    ApplyServerOptions(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    service_.Register(&builder);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
    service_.Start();
    Execute(Restore{Generation(1), Version(0), kSecret});
  }
  ~ServedShard() {
    server_->Shutdown(std::chrono::system_clock::time_point());
    service_.Shutdown();
  }

  std::string address() const { return address_; }
  ExchangeCounters counters() const { return service_.counters(); }

  template <typename What>
  void Execute(What what) {
    absl::Notification executed;
    service_.Execute(
        {++number_, std::move(what)},
        [&](absl::StatusOr<Shard::Executed> outcome, int64_t, Version) {
          EXPECT_TRUE(outcome.ok()) << outcome.status();
          if (outcome.ok()) held_ = std::move(outcome->held);
          executed.Notify();
        });
    executed.WaitForNotification();
  }
  // Holds the newest version, like a Store.
  Shard::HeldVersion Hold(Version version) {
    Execute(Store{version});
    return *std::move(held_);
  }

 private:
  Shard shard_;  // Used by the exchange thread.
  ExchangeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int64_t number_ = 0;
  std::optional<Shard::HeldVersion> held_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_LOOPBACK_SERVED_SHARD_H_

#include "common/rpc/new_connections.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "common/process/named_thread.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"
#include "common/rpc/listener.h"
#include "common/rpc/polling.h"
#include "common/rpc/stream_service.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"

namespace sluice {
namespace {

// Before gRPC is used.
[[maybe_unused]] const bool kApart = (PollQueuesApart(), true);

// Far longer than any test takes.
constexpr absl::Duration kLong = absl::Seconds(30);

constexpr int kPull = 0, kPush = 1;

// A queue of a server and its thread, on which calls of one kind come. They are
// answered at once, or never.
class Queue {
 public:
  Queue(grpc::ServerBuilder* builder, StreamService* service, int kind,
        bool answers)
      : service_(*service),
        kind_(kind),
        answers_(answers),
        queue_(builder->AddCompletionQueue(/*is_frequently_polled=*/false)) {}
  // REQUIRES: the server's Shutdown has returned.
  ~Queue() {
    queue_->Shutdown();
    thread_.join();
  }

  void Start() {
    thread_ = StartThread("queue", [this] {
      id_ = static_cast<int>(syscall(SYS_gettid));
      started_.Notify();
      new Call(this);
      ServeQueue(queue_.get());
    });
    started_.WaitForNotification();
  }
  void AwaitCall() const {
    ASSERT_TRUE(called_.WaitForNotificationWithTimeout(kLong));
  }
  // How often the thread has slept and been woken.
  int64_t switches() const {
    std::ifstream status(absl::StrCat("/proc/self/task/", id_, "/status"));
    int64_t switches = -1;
    for (std::string line; std::getline(status, line);) {
      absl::string_view text = line;
      if (absl::ConsumePrefix(&text, "voluntary_ctxt_switches:")) {
        EXPECT_TRUE(absl::SimpleAtoi(text, &switches));
      }
    }
    return switches;
  }

 private:
  class Call final : public QueuedCall {
   public:
    explicit Call(Queue* queue) : queue_(*queue) {
      queue_.service_.Accept(queue_.kind_, &context_, &stream_,
                             queue_.queue_.get(), on_call_.Begin());
    }

   private:
    void OnCall(bool ok) {
      if (!ok) return;  // The server is shutting down.
      if (!queue_.called_.HasBeenNotified()) queue_.called_.Notify();
      new Call(&queue_);
      if (queue_.answers_) {
        stream_.Finish(grpc::Status::OK, on_finished_.Begin());
      } else {
        stream_.Read(&request_, on_finished_.Begin());
      }
    }
    void OnFinished(bool ok) {}

    Queue& queue_;
    grpc::ServerContext context_;
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{
        &context_};
    grpc::ByteBuffer request_;
    Tag<Call, &Call::OnCall> on_call_{this};
    Tag<Call, &Call::OnFinished> on_finished_{this};
  };

  StreamService& service_;
  const int kind_;
  const bool answers_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  absl::Notification started_, called_;
  int id_ = 0;
  std::thread thread_;
};

// Pulls are answered, pushes stay.
class Server {
 public:
  explicit Server(absl::Duration busy) {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    auto connections =
        Listener::AddTo(&builder, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    fresh_ = std::make_unique<NewConnections>(&builder, busy);
    pulls_ = std::make_unique<Queue>(&builder, &service_, kPull, true);
    pushes_ = std::make_unique<Queue>(&builder, &service_, kPush, false);
    server_ = builder.BuildAndStart();
    fresh_->Start();
    pulls_->Start();
    pushes_->Start();
    listener_->Serve(std::move(connections), fresh_.get());
  }
  ~Server() {
    listener_->Rest();
    server_->Shutdown(FromNow(absl::ZeroDuration()));
  }

  std::unique_ptr<proto::Exchange::Stub> Connect() const {
    return proto::Exchange::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", listener_->port()),
        grpc::InsecureChannelCredentials(), SessionChannelArguments()));
  }
  const Queue& pushes() const { return *pushes_; }

 private:
  const std::unique_ptr<Listener> listener_ =
      *Listener::Open("127.0.0.1:0");  // Outlives the server.
  StreamService service_{"/sluice.proto.Exchange/Pull",
                         "/sluice.proto.Exchange/Push"};
  std::unique_ptr<grpc::Server> server_;
  // Their queues end before the server goes, and after it is shut.
  std::unique_ptr<NewConnections> fresh_;
  std::unique_ptr<Queue> pulls_, pushes_;
};

grpc::Status Pull(proto::Exchange::Stub* stub) {
  grpc::ClientContext context;
  SetTimeout(kLong, &context);
  return stub->Pull(&context, proto::PullRequest())->Finish();
}

TEST(NewConnectionsTest, TheFirstCallOfAConnectionIsHeard) {
  const Server server(/*busy=*/kLong);
  const auto stub = server.Connect();
  EXPECT_TRUE(Pull(stub.get()).ok());
}

TEST(NewConnectionsTest, AFirstCallIsHeardAlsoBetweenTheTimesOfPolling) {
  const Server server(/*busy=*/absl::ZeroDuration());
  const auto stub = server.Connect();
  EXPECT_TRUE(Pull(stub.get()).ok());
}

// gRPC has it end on the queue where connections begin, and waits for the next.
TEST(NewConnectionsTest, ACallOfAMethodThatIsNotThereMayComeLast) {
  auto server = std::make_unique<Server>(/*busy=*/absl::ZeroDuration());
  const auto stub = server->Connect();
  ASSERT_TRUE(Pull(stub.get()).ok());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub->AsyncShare(&context, proto::ShareRequest(), &queue);
  proto::ShareReply reply;
  grpc::Status status;
  call->Finish(&reply, &status, &status);
  ASSERT_TRUE(Pull(stub.get()).ok());  // Behind it, so it has come.
  server.reset();
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(status.ok());
}

TEST(NewConnectionsTest, CallsWakeNoQueueButTheirOwn) {
  const Server server(/*busy=*/absl::ZeroDuration());
  const auto busy = server.Connect(), quiet = server.Connect();
  grpc::ClientContext context;
  proto::PushReply reply;
  const auto push = quiet->Push(&context, &reply);
  server.pushes().AwaitCall();
  ASSERT_TRUE(Pull(busy.get()).ok());
  const int64_t before = server.pushes().switches();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Pull(busy.get()).ok());
  EXPECT_LT(server.pushes().switches() - before, 100);
  context.TryCancel();
}

}  // namespace
}  // namespace sluice

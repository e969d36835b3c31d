#ifndef SLUICE_WORKER_EXCHANGE_FAKE_SHARD_H_
#define SLUICE_WORKER_EXCHANGE_FAKE_SHARD_H_

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/exchange.grpc.pb.h"

namespace sluice {

// A shard for tests, written with the generated service, as a stranger would
// write it: ordinary messages, protobuf's own encoding. Behaves as it is told,
// and sends weights in chunks of 64 floats. Start and Stop: from one thread.
//
// Thread-safe.
class FakeShard final : public proto::Exchange::Service {
 public:
  struct Behaviour {
    // Asked for each pull; OK: the weights are sent.
    std::function<grpc::Status(const proto::PullRequest&)> on_pull = nullptr;
    // Asked before the `i`-th chunk; not OK: the pull ends so.
    std::function<grpc::Status(int i)> before_pull_chunk = nullptr;
    // May spoil the `i`-th chunk that is about to be sent.
    std::function<void(int i, proto::PullChunk*)> on_pull_chunk = nullptr;
    // Asked behind the last chunk how the pull ends.
    std::function<grpc::Status()> after_pull_chunks = nullptr;
    // Told of a push before anything of it is asked for.
    std::function<void()> on_push = nullptr;
    // Asked for each chunk of a push that came; OK: it is taken.
    std::function<grpc::Status(const proto::PushChunk&)> on_push_chunk =
        nullptr;
    // Asked how a push ends whose caller has closed its side before all of the
    // gradient was here. Must not call the shard.
    std::function<grpc::Status()> after_part = nullptr;
    // Sends no chunk and says that all is well.
    bool silent = false;
    // Floats the reply says were staged, beyond what came.
    int64_t staged_too_many = 0;
  };

  // Holds `weights`, its range, at version `version`, and listens.
  FakeShard(std::vector<float> weights, int64_t version, int64_t chunk_floats);
  ~FakeShard() override;

  void set_behaviour(Behaviour behaviour);
  std::string address() const { return address_; }
  // Refuses connections from now on, until Start.
  void Stop();
  // Listens, at the same address as before.
  void Start();

  // The pushes that were staged whole, in the order in which they ended.
  struct Staged {
    proto::Key key;
    std::string grant;
    std::vector<float> values;
    std::vector<int64_t> offsets;  // In the order in which they came.
    std::string ready;
  };
  std::vector<Staged> staged() const;
  // Chunks that have been taken, of any push.
  int64_t chunks() const;
  // These two block; after 30 s they abort the test.
  void AwaitChunks(int64_t chunks) const;
  // Until a push has ended because the other side cancelled.
  void AwaitCancelledCall() const;

 private:
  grpc::Status Pull(grpc::ServerContext* context,
                    const proto::PullRequest* request,
                    grpc::ServerWriter<proto::PullChunk>* writer) override;
  grpc::Status Push(grpc::ServerContext* context,
                    grpc::ServerReader<proto::PushChunk>* reader,
                    proto::PushReply* reply) override;
  Behaviour behaviour() const;
  void Take(const proto::PushChunk& chunk) ABSL_LOCKS_EXCLUDED(mu_);

  // A gradient, which several calls may bring.
  struct Arriving {
    Staged gradient;
    int64_t floats = 0;
  };

  // Constant after construction.
  const std::vector<float> weights_;
  const int64_t version_;
  const int64_t chunk_floats_;

  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<grpc::Server> server_;

  mutable absl::Mutex mu_;
  Behaviour behaviour_ ABSL_GUARDED_BY(mu_);
  std::vector<Staged> staged_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Arriving> arriving_ ABSL_GUARDED_BY(mu_);  // By sequence.
  int64_t chunks_ ABSL_GUARDED_BY(mu_) = 0;
  bool saw_cancel_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_FAKE_SHARD_H_

#include "worker/exchange/fake_shard.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/channel_options.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Far longer than any test takes.
constexpr absl::Duration kLong = absl::Seconds(30);

}  // namespace

FakeShard::FakeShard(std::vector<float> weights, int64_t version,
                     int64_t chunk_floats)
    : weights_(std::move(weights)),
      version_(version),
      chunk_floats_(chunk_floats) {
  Start();
}

FakeShard::~FakeShard() {
  if (server_ != nullptr) Stop();
}

void FakeShard::Start() {
  grpc::ServerBuilder builder;
  ApplyServerOptions(&builder);
  int port = 0;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  SLUICE_CHECK(server_ != nullptr && port > 0);
  address_ = absl::StrCat("127.0.0.1:", port);
}

void FakeShard::Stop() {
  server_->Shutdown(std::chrono::system_clock::time_point());
  server_->Wait();
  server_.reset();
}

void FakeShard::set_behaviour(Behaviour behaviour) {
  absl::MutexLock lock(&mu_);
  behaviour_ = std::move(behaviour);
}

FakeShard::Behaviour FakeShard::behaviour() const {
  absl::MutexLock lock(&mu_);
  return behaviour_;
}

std::vector<FakeShard::Staged> FakeShard::staged() const {
  absl::MutexLock lock(&mu_);
  return staged_;
}

int64_t FakeShard::chunks() const {
  absl::MutexLock lock(&mu_);
  return chunks_;
}

void FakeShard::AwaitChunks(int64_t chunks) const {
  absl::MutexLock lock(&mu_);
  const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return chunks_ >= chunks;
  };
  SLUICE_CHECK(mu_.AwaitWithTimeout(absl::Condition(&there), kLong));
}

void FakeShard::AwaitCancelledCall() const {
  absl::MutexLock lock(&mu_);
  SLUICE_CHECK(mu_.AwaitWithTimeout(absl::Condition(&saw_cancel_), kLong));
}

grpc::Status FakeShard::Pull(grpc::ServerContext* context,
                             const proto::PullRequest* request,
                             grpc::ServerWriter<proto::PullChunk>* writer) {
  const Behaviour behaviour = this->behaviour();
  if (behaviour.on_pull != nullptr) {
    const grpc::Status status = behaviour.on_pull(*request);
    if (!status.ok()) return status;
  }
  if (behaviour.silent) return grpc::Status::OK;
  const int64_t size = static_cast<int64_t>(weights_.size());
  for (int64_t at = request->offset(); at < size; at += chunk_floats_) {
    const int index = static_cast<int>(at / chunk_floats_);
    if (behaviour.before_pull_chunk != nullptr) {
      const grpc::Status status = behaviour.before_pull_chunk(index);
      if (!status.ok()) return status;
    }
    const int64_t floats = std::min(chunk_floats_, size - at);
    proto::PullChunk chunk;
    chunk.set_version(version_);
    chunk.set_offset(at);
    chunk.set_type(proto::FP32);
    chunk.set_data(&weights_[at], floats * sizeof(float));
    chunk.set_checksum(XXH3_64bits(chunk.data().data(), chunk.data().size()));
    if (behaviour.on_pull_chunk != nullptr) {
      behaviour.on_pull_chunk(index, &chunk);
    }
    if (!writer->Write(chunk)) break;
  }
  if (behaviour.after_pull_chunks != nullptr) {
    return behaviour.after_pull_chunks();
  }
  return grpc::Status::OK;
}

grpc::Status FakeShard::Push(grpc::ServerContext* context,
                             grpc::ServerReader<proto::PushChunk>* reader,
                             proto::PushReply* reply) {
  const Behaviour behaviour = this->behaviour();
  if (behaviour.on_push != nullptr) behaviour.on_push();
  int64_t sequence = 0;
  proto::PushChunk chunk;
  while (reader->Read(&chunk)) {
    sequence = chunk.key().sequence();
    if (behaviour.on_push_chunk != nullptr) {
      const grpc::Status status = behaviour.on_push_chunk(chunk);
      if (!status.ok()) return status;
    }
    Take(chunk);
  }
  absl::MutexLock lock(&mu_);
  if (context->IsCancelled()) {
    saw_cancel_ = true;
    return grpc::Status::CANCELLED;
  }
  const Arriving& arriving = arriving_[sequence];
  reply->set_staged(arriving.floats + behaviour.staged_too_many);
  const auto whole = static_cast<int64_t>(weights_.size());
  if (arriving.floats < whole && behaviour.after_part != nullptr) {
    return behaviour.after_part();
  }
  if (arriving.floats == whole) {
    staged_.push_back(arriving.gradient);
    arriving_.erase(sequence);
  }
  return grpc::Status::OK;
}

void FakeShard::Take(const proto::PushChunk& chunk) {
  SLUICE_CHECK(chunk.checksum() ==
               XXH3_64bits(chunk.data().data(), chunk.data().size()));
  absl::MutexLock lock(&mu_);
  ++chunks_;
  Arriving& arriving = arriving_[chunk.key().sequence()];
  Staged& gradient = arriving.gradient;
  gradient.key = chunk.key();
  gradient.grant = chunk.grant();
  gradient.ready += chunk.ready();
  gradient.values.resize(weights_.size());
  std::memcpy(&gradient.values[chunk.offset()], chunk.data().data(),
              chunk.data().size());
  if (absl::c_linear_search(gradient.offsets, chunk.offset())) return;
  gradient.offsets.push_back(chunk.offset());
  arriving.floats += static_cast<int64_t>(chunk.data().size() / sizeof(float));
}

}  // namespace sluice

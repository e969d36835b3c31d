// A shard keeps training while a version is written, because `held` keeps that
// version's chunks alive. Holding a second version would cost as much memory
// again, so a second order is refused, not queued.
//
// The states of an order, under mu_:
//
//   Write     order_ is set, writing_ = true
//   Loop      takes order_, writes the file without mu_, releases `held`
//             writing_ = false, telling_ = true: the next Write is accepted
//             calls `done` without mu_
//             telling_ = false: Finish() returns
//
// writing_ ends before `done` is called, so that the coordinator, which hears
// of the end through `done`, may order the next checkpoint at once. Finish()
// waits for telling_ too, so that `done` never runs after the objects it uses
// are gone.
#include "ps_server/checkpoint/background_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/named_thread.h"
#include "common/process/process_name.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/shard/chunk_grid.h"
#include "third_party/spdlog.h"

namespace sluice {

BackgroundWriter::BackgroundWriter(std::string run_dir, FileOperations *files)
    : run_dir_(std::move(run_dir)),
      files_(files),
      thread_(StartThread("checkpoint", [this] { Loop(); })) {}

BackgroundWriter::~BackgroundWriter() {
  Cancel();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status BackgroundWriter::Write(ShardFileIdentity identity,
                                     Shard::HeldVersion held, Done done,
                                     std::optional<OwnDisk> own) {
  absl::MutexLock lock(&mu_);
  if (writing_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("version ", identity.version.value(),
                     " is to be written, but the one before it still is"));
  }
  writing_ = true;
  order_.emplace(Order{std::move(identity), std::move(held), std::move(done),
                       std::move(own)});
  return absl::OkStatus();
}

void BackgroundWriter::Loop() {
  while (true) {
    std::optional<Order> order;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &BackgroundWriter::Called));
      order.swap(order_);
    }
    if (!order.has_value()) return;  // Stopping, and no order is left.
    const absl::StatusOr<proto::CheckpointFile> file = Carry(*order);
    order->held = {};
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      telling_ = true;
    }
    order->done(file);
    absl::MutexLock lock(&mu_);
    telling_ = false;
  }
}

void BackgroundWriter::Finish() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &BackgroundWriter::Idle));
}

void BackgroundWriter::RemoveOlder(const OwnDisk &own) {
  const auto there = ListCheckpoints(own.folder, &files_);
  if (!there.ok()) return;  // None yet, or the next write tries again.
  for (const CheckpointId &id : *there) {
    if (id >= own.oldest) return;
    const absl::Status removed = RemoveCheckpoint(own.folder, id, &files_);
    if (removed.ok()) continue;
    spdlog::warn("event=checkpoint_not_removed version={} error={}",
                 id.version.value(), LogValue(removed.message()));
  }
}

absl::StatusOr<proto::CheckpointFile> BackgroundWriter::Carry(
    const Order &order) {
  const ShardFileIdentity &identity = order.identity;
  const CheckpointId id{identity.generation, identity.version};
  const bool own = order.own.has_value();
  const std::string &run_dir = own ? order.own->folder : run_dir_;
  if (own) {
    SLUICE_RETURN_IF_ERROR(files_.MakeFolder(run_dir));
    RemoveOlder(*order.own);
  }
  SLUICE_RETURN_IF_ERROR(MakeCheckpointFolder(run_dir, id, &files_));
  const ChunkGrid grid(identity.range.size(), identity.chunk_floats);
  std::vector<CheckpointArray> arrays;
  for (const Shard::HeldArray &held_array : order.held.arrays) {
    CheckpointArray &array = arrays.emplace_back();
    array.name = held_array.name;
    for (int i = 0; i < grid.count(); ++i) {
      array.chunks.emplace_back(held_array.chunks[i].data(), grid.size(i));
    }
  }
  const std::string folder = CheckpointFolder(run_dir, id);
  SLUICE_ASSIGN_OR_RETURN(proto::CheckpointFile file,
                          WriteShardFile(folder, identity, arrays, &files_));
  if (own) {
    file.set_host(HostName());
    file.set_path(absl::StrCat(folder, "/", file.name()));
  }
  return file;
}

}  // namespace sluice

#ifndef SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_TESTING_H_
#define SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_TESTING_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/checkpoint/shard_file.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// Checkpoints of 47 floats in two tensors, on two shards of 16 and 31 floats,
// in chunks of 16, with one array of optimizer state. Every float encodes its
// array, version and position.
class CheckpointTest : public ::testing::Test {
 protected:
  static constexpr int kShards = 2;
  static constexpr int kChunkFloats = 16;
  inline static const std::vector<std::string> kArrays = {"weights",
                                                          "velocity"};

  void SetUp() override { Clear(); }
  void Clear() const {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }

  static ParameterLayout Layout() {
    TensorSpec weight;
    weight.name = "fc.weight";
    weight.shape = {8, 5};
    TensorSpec bias;
    bias.name = "fc.bias";
    bias.shape = {7};
    return ParameterLayout({weight, bias}, kShards);
  }

  static std::vector<float> Floats(int array, CheckpointId id) {
    std::vector<float> floats;
    for (int64_t i = 0; i < Layout().size(); ++i) {
      floats.push_back(
          static_cast<float>(id.version.value() * 1000 + array * 100 + i) +
          0.5f);
    }
    return floats;
  }

  // Writes a complete checkpoint, as shards and coordinator do together.
  absl::Status Write(CheckpointId id, FileOperations* files) const {
    SLUICE_RETURN_IF_ERROR(MakeCheckpointFolder(run_, id, files));
    proto::CheckpointManifest manifest;
    manifest.set_job("name: \"test\"");
    manifest.set_job_fingerprint("of the job");
    DescribeLayout(Layout(), &manifest);
    manifest.set_generation(id.generation.value());
    manifest.set_version(id.version.value());
    manifest.mutable_array()->Assign(kArrays.begin(), kArrays.end());
    manifest.set_chunk_floats(kChunkFloats);
    manifest.mutable_state()->set_low_water_mark(3);
    manifest.mutable_state()->add_exception(5);
    for (int shard = 0; shard < kShards; ++shard) {
      SLUICE_ASSIGN_OR_RETURN(*manifest.add_file(),
                              WriteShard(shard, manifest, id, files));
    }
    return WriteManifest(CheckpointFolder(run_, id), manifest, files);
  }

  std::string Path(CheckpointId id, const std::string& name) const {
    return absl::StrCat(CheckpointFolder(run_, id), "/", name);
  }
  static std::string ReadBytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in),
            std::istreambuf_iterator<char>()};
  }
  static void WriteBytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Opens the checkpoint and reads everything.
  static absl::Status Examine(const std::string& folder) {
    const auto checkpoint = Checkpoint::Open(folder);
    return checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
  }

  // The name of a parameterised test has a slash.
  const std::string run_ = absl::StrCat(
      ::testing::TempDir(), "/",
      absl::StrReplaceAll(
          ::testing::UnitTest::GetInstance()->current_test_info()->name(),
          {{"/", "_"}}));

 private:
  absl::StatusOr<proto::CheckpointFile> WriteShard(
      int shard, const proto::CheckpointManifest& manifest, CheckpointId id,
      FileOperations* files) const {
    const ParameterRange range = Layout().range(ShardId(shard));
    const ShardFileIdentity identity = {
        .job_fingerprint = manifest.job_fingerprint(),
        .layout_fingerprint = manifest.layout_fingerprint(),
        .generation = id.generation,
        .version = id.version,
        .shard = ShardId(shard),
        .shards = kShards,
        .range = range,
        .chunk_floats = kChunkFloats};
    const ChunkGrid grid(range.size(), kChunkFloats);
    std::vector<std::vector<float>> floats;
    std::vector<CheckpointArray> arrays;
    for (int i = 0; i < kArrays.size(); ++i) floats.push_back(Floats(i, id));
    for (int i = 0; i < kArrays.size(); ++i) {
      CheckpointArray& array = arrays.emplace_back();
      array.name = kArrays[i];
      for (int chunk = 0; chunk < grid.count(); ++chunk) {
        array.chunks.push_back(absl::MakeConstSpan(floats[i]).subspan(
            range.begin + grid.begin(chunk), grid.size(chunk)));
      }
    }
    return WriteShardFile(CheckpointFolder(run_, id), identity, arrays, files);
  }
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_TESTING_H_

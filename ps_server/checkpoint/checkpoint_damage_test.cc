// Damaged files are refused, with a message that names the file, what was
// expected and what was found.

#include <filesystem>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/checkpoint_testing.h"
#include "ps_server/checkpoint/manifest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr CheckpointId kId{Generation(1), Version(10)};
constexpr CheckpointId kOther{Generation(1), Version(20)};
constexpr char kShard0[] = "shard-0.safetensors";
constexpr char kManifest[] = "manifest";

class DamageTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    FileOperations files;
    ASSERT_TRUE(Write(kId, &files).ok());
    ASSERT_TRUE(Write(kOther, &files).ok());
  }

  // Examines the checkpoint with `bytes` in place of the file's contents.
  absl::Status ExamineWith(const std::string& name,
                           const std::string& bytes) const {
    const std::string path = Path(kId, name);
    const std::string own = ReadBytes(path);
    WriteBytes(path, bytes);
    const absl::Status status = Examine(CheckpointFolder(run_, kId));
    WriteBytes(path, own);
    return status;
  }
  std::string Bytes(const std::string& name) const {
    return ReadBytes(Path(kId, name));
  }
  // The file's bytes with one text replaced by another of the same length.
  std::string Altered(const std::string& name, const std::string& from,
                      const std::string& to) const {
    EXPECT_EQ(from.size(), to.size());
    const std::string bytes = Bytes(name);
    EXPECT_NE(bytes.find(from), std::string::npos) << from;
    return absl::StrReplaceAll(bytes, {{from, to}});
  }
  void ExpectRefused(const std::string& name, const std::string& bytes,
                     absl::StatusCode code, const std::string& reason) const {
    const absl::Status status = ExamineWith(name, bytes);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith(Path(kId, name)), HasSubstr(reason)));
  }

  const std::vector<std::string> names_ = {kShard0, "shard-1.safetensors",
                                           kManifest};
};

TEST_F(DamageTest, AFlippedBitInAnyByteIsRefusedAndTheFileNamed) {
  for (const std::string& name : names_) {
    const std::string whole = Bytes(name);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string bytes = whole;
      bytes[i] ^= static_cast<char>(1 << i % 8);
      WriteBytes(Path(kId, name), bytes);
      const absl::Status status = Examine(CheckpointFolder(run_, kId));
      ASSERT_FALSE(status.ok()) << name << ", byte " << i;
      ASSERT_THAT(std::string(status.message()), StartsWith(Path(kId, name)))
          << "byte " << i;
    }
    WriteBytes(Path(kId, name), whole);
  }
  EXPECT_TRUE(Examine(CheckpointFolder(run_, kId)).ok());
}

TEST_F(DamageTest, AFileCutAnywhereIsRefusedAndNamed) {
  for (const std::string& name : names_) {
    const std::string whole = Bytes(name);
    for (size_t size = 0; size < whole.size(); ++size) {
      WriteBytes(Path(kId, name), whole.substr(0, size));
      const absl::Status status = Examine(CheckpointFolder(run_, kId));
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss)
          << name << " of " << size << ": " << status;
      ASSERT_THAT(std::string(status.message()),
                  AllOf(StartsWith(Path(kId, name)), HasSubstr("expected")));
    }
    WriteBytes(Path(kId, name), whole);
  }
}

TEST_F(DamageTest, AFileWithMoreAtItsEndIsRefused) {
  const std::string size = absl::StrCat(Bytes(kShard0).size());
  ExpectRefused(kShard0, Bytes(kShard0) + "x", absl::StatusCode::kDataLoss,
                "bytes, expected " + size);
  ExpectRefused(kManifest, Bytes(kManifest) + "x", absl::StatusCode::kDataLoss,
                "bytes of contents, expected ");
}

TEST_F(DamageTest, AFileThatWasTornIsRefused) {
  // The system wrote the end of the file but not the middle.
  std::string bytes = Bytes(kShard0);
  bytes.replace(bytes.size() - 96, 64, 64, '\0');
  ExpectRefused(kShard0, bytes, absl::StatusCode::kDataLoss,
                "chunk 0 of velocity has the checksum ");
}

TEST_F(DamageTest, AMissingFileIsNamed) {
  for (const std::string& name : names_) {
    const std::string own = Bytes(name);
    fs::remove(Path(kId, name));
    const absl::Status status = Examine(CheckpointFolder(run_, kId));
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), StartsWith(Path(kId, name)));
    WriteBytes(Path(kId, name), own);
  }
}

TEST_F(DamageTest, AForeignFileIsRefused) {
  const std::string text = "What a person put here, instead of a checkpoint.";
  ExpectRefused(kManifest, text, absl::StatusCode::kInvalidArgument,
                "begins with \"What a p\", expected \"SLUICECP\"");
  ExpectRefused(kShard0, text, absl::StatusCode::kDataLoss,
                "bytes, expected at most");
  // A .safetensors file that Sluice did not write.
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],)"
                             R"("data_offsets":[0,4]}})";
  ExpectRefused(kShard0,
                std::string(1, static_cast<char>(header.size())) +
                    std::string(7, '\0') + header + std::string(4, '\0'),
                absl::StatusCode::kInvalidArgument,
                "is no part of a checkpoint: its metadata have no "
                "\"sluice_checkpoint\", expected \"1\"");
}

TEST_F(DamageTest, AFileOfAnotherCheckpointIsRefused) {
  ExpectRefused(kShard0, ReadBytes(Path(kOther, kShard0)),
                absl::StatusCode::kInvalidArgument,
                "belongs to another checkpoint: version is \"20\", expected "
                "\"10\"");
  ExpectRefused(kShard0, Bytes("shard-1.safetensors"),
                absl::StatusCode::kInvalidArgument,
                "belongs to another checkpoint: begin is \"16\", expected "
                "\"0\"");
  // The same numbers, but of another run.
  ExpectRefused(kShard0, Altered(kShard0, "of the job", "of a model"),
                absl::StatusCode::kInvalidArgument,
                "belongs to another checkpoint: job_fingerprint is \"of a "
                "model\", expected \"of the job\"");
}

TEST_F(DamageTest, ANewerFormatIsRefused) {
  std::string bytes = Bytes(kManifest);
  bytes[8] = 3;
  ExpectRefused(kManifest, bytes, absl::StatusCode::kInvalidArgument,
                "has format 3 of a checkpoint, this program reads 2");
  ExpectRefused(kShard0,
                Altered(kShard0, "\"sluice_checkpoint\":\"1\"",
                        "\"sluice_checkpoint\":\"2\""),
                absl::StatusCode::kInvalidArgument,
                "has format 2 of a checkpoint, this program reads 1");
}

TEST_F(DamageTest, AnEarlierFormatIsNoDamageSoNothingOlderIsTakenInItsPlace) {
  std::string bytes = Bytes(kManifest);
  bytes[8] = 1;
  ExpectRefused(kManifest, bytes, absl::StatusCode::kFailedPrecondition,
                "has format 1 of a checkpoint, this program reads 2: an "
                "earlier version of Sluice wrote it");
  WriteBytes(Path(kOther, kManifest), bytes);
  EXPECT_EQ(OpenNewestCheckpoint(run_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(DamageTest, AManifestThatContradictsItselfIsRefused) {
  const auto manifest = DecodeManifest("manifest", Bytes(kManifest));
  ASSERT_TRUE(manifest.ok());
  const auto expect = [&](const auto& change, const std::string& reason) {
    proto::CheckpointManifest changed = *manifest;
    change(&changed);
    ExpectRefused(kManifest, EncodeManifest(changed),
                  absl::StatusCode::kDataLoss, reason);
  };
  using Manifest = proto::CheckpointManifest;
  expect([](Manifest* m) { m->mutable_file(1)->set_begin(17); },
         "shard-1.safetensors holds floats 17 to 47, expected them from 16");
  expect([](Manifest* m) { m->mutable_file()->RemoveLast(); },
         "its files hold 16 floats, expected 47");
  expect([](Manifest* m) { m->clear_file(); }, "names no files");
  expect([](Manifest* m) { m->set_chunk_floats(0); },
         "has chunks of 0 floats, expected 1 or more");
  expect([](Manifest* m) { m->mutable_tensor(0)->set_shape(0, -8); },
         "tensor fc.weight has a dimension -8");
  expect([](Manifest* m) { m->set_array(0, "velocity"); },
         "expected \"weights\"");
  // More floats than an int64 can count.
  expect(
      [](Manifest* m) { m->mutable_tensor(0)->set_shape(0, int64_t{1} << 62); },
      "tensor fc.weight has a dimension 5");
}

}  // namespace
}  // namespace sluice

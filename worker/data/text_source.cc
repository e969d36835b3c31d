// Samples lie next to each other and labels are the inputs shifted by one byte.
// With a length of 4, sample 1 of "to be or not" has the input "e or" and the
// labels " or ".
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/formats/text_file.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

class TextSource final : public DataSource {
 public:
  TextSource(std::vector<uint8_t> bytes, int64_t length)
      : bytes_(std::move(bytes)), length_(length) {}

  int64_t size() const override {
    return (static_cast<int64_t>(bytes_.size()) - 1) / length_;
  }

  std::string Digest() const override {
    // Includes the length, because it determines how the bytes form samples.
    Sha256 sha;
    sha.Update(absl::StrCat("text in samples of ", length_, "\n"));
    sha.Update(bytes_);
    return sha.Hex();
  }

  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(indices.size() * length_);
    batch->labels.resize(indices.size() * length_);
    batch->targets.clear();
    for (size_t i = 0; i < indices.size(); ++i) {
      SLUICE_CHECK(indices[i] >= 0 && indices[i] < size());
      const auto from = bytes_.begin() + indices[i] * length_;
      std::copy_n(from, length_, batch->inputs.begin() + i * length_);
      std::copy_n(from + 1, length_, batch->labels.begin() + i * length_);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<uint8_t> bytes_;
  const int64_t length_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenText(const proto::Text& text,
                                                     Split split) {
  const TextPaths& paths = split == Split::kTrain ? text.train() : text.test();
  // Reports files that are too short.
  SLUICE_RETURN_IF_ERROR(CountTextSamples(paths, text.length()).status());
  SLUICE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadTextFiles(paths));
  return std::make_unique<TextSource>(std::move(bytes), text.length());
}

}  // namespace sluice

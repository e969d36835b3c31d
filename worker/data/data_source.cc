#include "worker/data/data_source.h"

#include <utility>

#include "worker/data/readers.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const proto::Data& data, Split split, uint64_t seed, ReadOptions options) {
  switch (data.reader_case()) {
    case proto::Data::kIdx:
    case proto::Data::kCifar:
      return OpenImages(data, split);
    case proto::Data::kJpeg:
      return OpenJpeg(data, split, seed, std::move(options));
    case proto::Data::kText:
      return OpenText(data.text(), split);
    case proto::Data::kSyntheticImages:
      return MakeSyntheticImages(data.synthetic_images(), split, seed);
    case proto::Data::kLinearRegression:
      return MakeLinearRegression(data.linear_regression(), split, seed);
    case proto::Data::kExternal:
      return absl::InvalidArgumentError(
          "data.external: only the model process of a worker reads its "
          "samples");
    case proto::Data::READER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: names no reader (idx, cifar, jpeg, synthetic_images, text, "
      "linear_regression or external)");
}

}  // namespace sluice

#include "worker/data/data_source.h"

#include "worker/data/idx_source.h"
#include "worker/data/linear_regression.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const proto::Data& data, Split split, uint64_t seed) {
  switch (data.reader_case()) {
    case proto::Data::kIdx:
      return OpenIdx(data.idx(), split);
    case proto::Data::kLinearRegression:
      return MakeLinearRegression(data.linear_regression(), split, seed);
    case proto::Data::READER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: names no reader (idx or linear_regression)");
}

}  // namespace sluice

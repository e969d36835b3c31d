#include "common/job/any_number.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status Needed(absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(field, ": ", why,
                   ", so each worker needs a number of its own: start it "
                   "with --worker=N instead of --worker=any"));
}

}  // namespace

absl::Status CheckAnyNumber(const proto::Job& job) {
  if (job.data().sharding() == proto::Data::STATIC) {
    return Needed("data.sharding",
                  "with STATIC data a worker's number says which samples it "
                  "sees");
  }
  if (job.worker().gpus_size() > 1) {
    return Needed("worker.gpus",
                  "a worker's number says which of the GPUs it takes");
  }
  if (job.model().has_external()) {
    return Needed("model.external",
                  "the model process is told its worker's number when it "
                  "starts, before the worker joins");
  }
  if (job.worker().group().pipeline_stages() > 1) {
    return Needed("worker.group.pipeline_stages",
                  "the members of a group know each other by its number");
  }
  if (job.worker().group().slots() > 1) {
    return Needed("worker.group.slots",
                  "the slots of a group have theirs from its number");
  }
  return absl::OkStatus();
}

}  // namespace sluice

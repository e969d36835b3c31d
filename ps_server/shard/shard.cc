// A decision is executed whole or not at all: everything that can be wrong with
// it is looked at before anything changes (a Commit finds all its gradients
// first). One that cannot be executed is kept in `fault_`, and every later one
// is answered with it: the coordinator then begins another generation.
//
// Version 5 from the gradients of tasks 7 and 9, read by r1 at version 4:
//
//   Stage(7), Stage(9)       each chunk; true when all of a slice is here
//   Begin(Commit 5)          find both slices, close version 4 (r1 keeps it),
//                            publish version 5: returns reads that were ended
//                            and digests that are due
//   Make(0), Make(1)         sum and apply chunk by chunk, for whoever reads
//                            them; the last one frees both slices
//   Execute(Commit 5)        repeated: its number is known; nothing happens
//   Execute(Fold 6)          a gradient of version 6 goes into `sum_`, and its
//                            slice is free; the Commit adds what is missing
//   Pull(5)                  version 5; Pull(6) would have to wait
#include "ps_server/shard/shard.h"

#include <cmath>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/exchange_error.h"
#include "common/status_macros.h"
#include "ps_server/shard/tensor_digests.h"

namespace sluice {
namespace {

// How pushes are cut: as the members' parts lie in the range, too.
ChunkGrid PushGrid(const ShardOptions& options, const ParameterRange& range) {
  std::vector<int64_t> cuts;
  for (const int64_t cut : options.member_cuts) {
    cuts.push_back(cut - range.begin);
  }
  return ChunkGrid(range.size(), options.chunk_bytes / sizeof(float),
                   std::move(cuts));
}

}  // namespace

Shard::Shard(ShardOptions options)
    : options_(std::move(options)),
      range_(options_.layout.range(options_.id)),
      grid_(range_.size(), options_.chunk_bytes / sizeof(float)),
      wire_format_(options_.layout.statistics()),
      store_(grid_, options_.max_held, options_.shared_weights),
      staging_(&options_.layout, range_, PushGrid(options_, range_),
               options_.push_type, options_.staged_gradients),
      optimizer_(options_.optimizer, options_.layout, range_, grid_) {}

absl::Status Shard::Named(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("shard ", options_.id.value(),
                                                  ": ", status.message()));
}

absl::StatusOr<Shard::Executed> Shard::Execute(const Decision& decision) {
  absl::StatusOr<Executed> executed = Begin(decision);
  MakeAll();
  return executed;
}

absl::StatusOr<Shard::Executed> Shard::Begin(const Decision& decision) {
  if (!fault_.ok()) return fault_;
  if (decision.number <= executed_) return Executed();
  // A Discard does not look at the weights.
  if (!std::holds_alternative<Discard>(decision.what)) MakeAll();
  absl::StatusOr<Executed> executed = DoNext(decision);
  if (!executed.ok()) return fault_ = Named(executed.status());
  executed_ = decision.number;
  return executed;
}

absl::StatusOr<Shard::Executed> Shard::DoNext(const Decision& decision) {
  if (decision.number != executed_ + 1) {
    return absl::InternalError(absl::StrCat("decision ", decision.number,
                                            " came, expected ", executed_ + 1));
  }
  if (!restored() && !std::holds_alternative<Restore>(decision.what)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "decision ", decision.number, " came before the first Restore"));
  }
  return std::visit([this](const auto& what) { return Do(what); },
                    decision.what);
}

absl::StatusOr<Shard::Executed> Shard::Do(const Restore& restore) {
  if (restore.generation <= generation_) {
    return absl::FailedPreconditionError(
        absl::StrCat("generation ", restore.generation.value(),
                     " is to be restored, but it is at ", generation_.value()));
  }
  SLUICE_RETURN_IF_ERROR(LoadVersion(restore));
  staging_.Reset(restore.generation, restore.grant_secret);
  folded_.clear();
  generation_ = restore.generation;
  return Executed();
}

absl::Status Shard::LoadVersion(const Restore& restore) {
  if (restore.version == Version(0)) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<float> weights,
                            options_.initial_weights(range_));
    store_.Initialize(restore.version, weights);
    optimizer_.Reset();
    return absl::OkStatus();
  }
  if (!options_.stored_version) {
    return absl::UnimplementedError(
        absl::StrCat("version ", restore.version.value(),
                     " is to be restored, but there are no checkpoints"));
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::vector<float>> arrays,
                          options_.stored_version(restore, range_));
  store_.Initialize(restore.version, arrays.front());
  arrays.erase(arrays.begin());
  optimizer_.Restore(arrays);
  return absl::OkStatus();
}

absl::StatusOr<Shard::Executed> Shard::Do(const Commit& commit) {
  if (commit.version != version() + 1) {
    return absl::InternalError(
        absl::StrCat("version ", commit.version.value(),
                     " is to be made, but the newest is ", version().value()));
  }
  if (commit.entries.empty() || !std::isfinite(commit.learning_rate)) {
    return absl::InternalError(absl::StrCat(
        "version ", commit.version.value(), " is to be made of ",
        commit.entries.size(), " gradients at rate ", commit.learning_rate));
  }
  const auto entries = absl::MakeConstSpan(commit.entries);
  if (commit.folded != static_cast<int>(folded_.size()) ||
      entries.subspan(0, folded_.size()) != absl::MakeConstSpan(folded_)) {
    return absl::InternalError(
        absl::StrCat("version ", commit.version.value(), " is to be made with ",
                     commit.folded, " gradients that were folded, but ",
                     folded_.size(), " were, or others"));
  }
  double total = 0;
  for (const CommitEntry& entry : entries) total += entry.weight;
  SLUICE_ASSIGN_OR_RETURN(Addends of, FindAll(commit.version, total,
                                              entries.subspan(commit.folded)));
  folded_.clear();
  staging_.BeginTurn(0);
  Executed executed;
  executed.ended_reads = store_.Close();
  making_ = Making{commit, std::move(of), {}, 0};
  for (int chunk = 0; chunk < grid_.count(); ++chunk) {
    making_->pieces.push_back(store_.Prepare(chunk));
  }
  store_.Publish();
  executed.digests = DigestsIfDue();
  if (commit.pin) SLUICE_RETURN_IF_ERROR(store_.Pin(commit.version));
  return executed;
}

absl::StatusOr<Shard::Addends> Shard::FindAll(
    Version version, double total_weight,
    absl::Span<const CommitEntry> entries) const {
  Addends of;
  if (!folded_.empty()) of = {{sum_.get()}, {1}, {1}};
  for (const CommitEntry& entry : entries) {
    const auto floats = staging_.Find(entry.key);
    if (!floats.ok()) {
      return absl::InternalError(absl::StrCat("version ", version.value(), ": ",
                                              floats.status().message()));
    }
    if (absl::c_linear_search(of.gradients, *floats)) {
      return absl::InternalError(
          absl::StrCat("version ", version.value(), ": gradient ",
                       entry.key.ToString(), " is in it twice"));
    }
    of.gradients.push_back(*floats);
    of.factors.push_back(entry.weight);
    of.shares.push_back(Optimizer::ShareOf(entry.weight, total_weight));
  }
  return of;
}

absl::StatusOr<Shard::Executed> Shard::Do(const Fold& fold) {
  if (fold.version != version() + 1 || fold.entries.empty()) {
    return absl::InternalError(absl::StrCat(
        fold.entries.size(), " gradients are to be folded into version ",
        fold.version.value(), ", but the newest is ", version().value()));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const Addends of, FindAll(fold.version, fold.total_weight, fold.entries));
  if (sum_ == nullptr) sum_ = MakeAlignedFloats(range_.size());
  optimizer_.AddUp({fold.version, 0, of.gradients, of.factors, of.shares},
                   sum_.get());
  for (const CommitEntry& entry : fold.entries) {
    staging_.End(entry.key);
    folded_.push_back(entry);
  }
  staging_.BeginTurn(static_cast<int64_t>(folded_.size()));
  return Executed();
}

void Shard::Make(int chunk) {
  if (!making_.has_value() || !making_->pieces[chunk].has_value()) return;
  const WeightStore::Piece piece =
      *std::exchange(making_->pieces[chunk], std::nullopt);
  const Commit& commit = making_->commit;
  optimizer_.Apply({commit.version, commit.learning_rate, making_->of.gradients,
                    making_->of.factors, making_->of.shares},
                   chunk, piece.from.data(), piece.to);
  int& next = making_->next;
  while (next < grid_.count() && !making_->pieces[next].has_value()) ++next;
  if (next < grid_.count()) return;
  for (const CommitEntry& entry : commit.entries) staging_.End(entry.key);
  making_.reset();
}

void Shard::MakeAhead(int chunk) {
  const bool had_checksum = making_->pieces[chunk]->had_checksum;
  Make(chunk);
  if (had_checksum) store_.ComputeChecksum(chunk);
}

std::optional<int> Shard::unmade() const {
  if (!making_.has_value()) return std::nullopt;
  return making_->next;
}

void Shard::MakeAll() {
  while (const auto chunk = unmade()) Make(*chunk);
}

absl::StatusOr<Shard::Executed> Shard::Do(const Discard& discard) {
  for (const GradientKey& key : discard.keys) staging_.End(key);
  return Executed();
}

absl::StatusOr<Shard::Executed> Shard::Do(const Pin& pin) {
  SLUICE_RETURN_IF_ERROR(store_.Pin(pin.version));
  return Executed();
}

absl::StatusOr<Shard::Executed> Shard::Do(const Release& release) {
  SLUICE_RETURN_IF_ERROR(store_.Release(release.version));
  return Executed();
}

absl::StatusOr<Shard::Executed> Shard::Do(const Store& store) {
  if (store.version != version()) {
    return absl::InternalError(absl::StrCat(
        "version ", store.version.value(),
        " is to be stored, but the newest is ", version().value()));
  }
  Executed executed;
  executed.held = Hold();
  return executed;
}

bool Shard::Admits(const PushChunkHeader& header, absl::string_view holder) {
  if (!restored() || staging_.Admits(header, holder)) return true;
  MakeAll();
  return staging_.Admits(header, holder);
}

absl::StatusOr<bool> Shard::Stage(const PushChunkHeader& header,
                                  const Payload& payload,
                                  absl::string_view holder) {
  if (!restored()) {
    return Named(absl::FailedPreconditionError("not restored yet"));
  }
  absl::StatusOr<bool> staged = staging_.Stage(header, payload, holder);
  if (absl::IsResourceExhausted(staged.status()) && making_.has_value()) {
    MakeAll();  // The room of what is being applied has been granted anew.
    staged = staging_.Stage(header, payload, holder);
  }
  if (!staged.ok()) return Named(staged.status());
  return staged;
}

absl::StatusOr<std::optional<WeightStore::Read>> Shard::Pull(
    const PullQuery& query) {
  if (query.generation != generation_ || !restored()) {
    return Named(absl::FailedPreconditionError(
        absl::StrCat("the pull is of generation ", query.generation.value(),
                     ", expected ", generation_.value())));
  }
  if (query.version > version()) return std::nullopt;
  if (!query.exact) return store_.BeginRead();
  auto read = store_.BeginRead(query.version);
  if (read.has_value()) return read;
  return WithReason(proto::ExchangeError::VERSION_GONE,
                    Named(absl::AbortedError(absl::StrCat(
                        "version ", query.version.value(),
                        " was asked for, the newest is ", version().value()))));
}

std::vector<uint64_t> Shard::DigestsIfDue() {
  if (options_.digest_every <= 0 ||
      version().value() % options_.digest_every != 0) {
    return {};
  }
  MakeAll();
  const WeightStore::Read read = store_.BeginRead();
  std::vector<uint64_t> digests =
      TensorDigests(*read.snapshot, grid_, options_.layout, range_);
  store_.EndRead(read.id);
  return digests;
}

Shard::HeldVersion Shard::Hold() {
  MakeAll();
  const WeightStore::Read read = store_.BeginRead();
  HeldVersion held{version(), {{"weights", read.snapshot->chunks}}};
  store_.EndRead(read.id);
  const std::vector<std::string> names =
      Optimizer::StateNames(options_.optimizer);
  std::vector<std::vector<ChunkRef>> state = optimizer_.HoldState();
  for (size_t i = 0; i < state.size(); ++i) {
    held.arrays.push_back({names[i], std::move(state[i])});
  }
  return held;
}

}  // namespace sluice

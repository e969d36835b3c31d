// Whether a task's end counts is known only when later generations are. Two
// generations, the second from version 2 of the first:
//
//   generation 1   tasks a b c d; version 1 of a, 2 of b; then d is cancelled,
//                  and version 3 is made of c
//   generation 2   goes on from version 2; task e, version 3 of e
//
// Generation 1 rests on its records up to the commit of version 2, so a and b
// are applied, c and d lost, however they had ended: 4 = 2 + 2. Generation 2 is
// the newest, and all of it counts. The mini-batch of c may be in e: version 3
// of generation 1 is not in the lineage of e's update.
#include "ps_server/coordinator/log/ledger.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using Key = std::tuple<int64_t, int64_t, int64_t>;

// One task of a generation's log.
struct Task {
  int64_t first_batch = 0;
  int batches = 1;
  int ends = 0;
  proto::Outcome outcome = proto::OUTCOME_UNSPECIFIED;
  size_t ended_at = 0;  // Position of the record in the log.
};

// Mini-batch -> the version it went into.
using AppliedIn = absl::flat_hash_map<int64_t, int64_t>;

template <typename Message>
Key KeyOf(const Message& message) {
  return {message.worker(), message.incarnation(), message.sequence()};
}

// The first of them, and how many more there were.
class Errors {
 public:
  void Add(std::string what) {
    if (errors_.size() + 1 < kMostErrors) {
      errors_.push_back(std::move(what));
    } else {
      ++more_;
    }
  }
  std::vector<std::string> Take() {
    if (more_ > 0) errors_.push_back(absl::StrCat("and ", more_, " more"));
    return std::move(errors_);
  }

 private:
  std::vector<std::string> errors_;
  int64_t more_ = 0;
};

// The books of one generation's log.
class Book {
 public:
  Book(const CommitLog& log, Errors* errors) : errors_(*errors) {
    ledger_.generation = Generation(log.header.generation());
    ledger_.parent = Generation(log.header.parent_generation());
    ledger_.restored = Version(log.header.restored_version());
    ledger_.decided = ledger_.restored;
    ledger_.kept = ledger_.restored;
    for (const proto::LogRecord& record : log.records) {
      ++position_;
      if (record.has_task()) Issue(record.task());
      if (record.has_end()) {
        const int outcome = record.end().outcome();
        if (outcome == proto::APPLIED || !proto::Outcome_IsValid(outcome) ||
            outcome == proto::OUTCOME_UNSPECIFIED) {
          Error(absl::StrCat("a task ends with the outcome ", outcome));
        }
        End(KeyOf(record.end()), static_cast<proto::Outcome>(outcome));
      }
      if (record.has_commit()) Commit(record.commit());
    }
  }

  const GenerationLedger& ledger() const { return ledger_; }

  // Later generations rest on what there is up to `version`. False: there is
  // no such version here.
  bool Keep(Version version) {
    if (version < ledger_.restored || version > ledger_.decided) return false;
    ledger_.kept = version;
    return true;
  }
  // Nothing goes on from here; what is open is an error once the run `ended`.
  void KeepAll(bool ended) {
    ledger_.kept = ledger_.decided;
    for (const auto& [key, task] : tasks_) {
      if (!ended || task.ends > 0) continue;
      Error(absl::StrCat(Name(key), ", mini-batch ", task.first_batch,
                         ": has not ended"));
    }
    all_ = true;
  }

  // Counts every task, once it is known what was kept.
  void Count() {
    const size_t kept_to = all_ ? position_ : CommitOf(ledger_.kept);
    for (const auto& [key, task] : tasks_) {
      ++ledger_.tasks;
      const bool kept = task.ends > 0 && task.ended_at <= kept_to;
      ++*CounterOf(kept ? task.outcome : proto::LOST);
    }
  }

  // Adds the mini-batches and samples of its updates up to `last`. One that
  // was there already is an error, if `to_say` so.
  void AddTo(Version last, bool to_say, AppliedIn* applied,
             int64_t* samples) const {
    for (const Update& update : updates_) {
      if (update.version > last.value()) break;
      *samples += update.samples;
      for (const int64_t batch : update.batches) {
        const auto [it, inserted] = applied->insert({batch, update.version});
        if (inserted || !to_say) continue;
        Error(absl::StrCat("mini-batch ", batch, " is in the updates ",
                           it->second, " and ", update.version));
      }
    }
  }

 private:
  struct Update {
    int64_t version = 0;
    size_t position = 0;
    int64_t samples = 0;
    std::vector<int64_t> batches = {};
  };

  static std::string Name(const Key& key) {
    return absl::StrCat("task w", std::get<0>(key), "/i", std::get<1>(key),
                        "/s", std::get<2>(key));
  }
  void Error(const std::string& what) const {
    errors_.Add(
        absl::StrCat("generation ", ledger_.generation.value(), ": ", what));
  }

  void Issue(const proto::LogTask& issued) {
    const Key key = KeyOf(issued);
    Task task;
    task.first_batch = issued.first_batch();
    task.batches = std::max(issued.batches(), 1);
    if (!tasks_.insert({key, task}).second) {
      Error(absl::StrCat(Name(key), " is issued twice"));
    }
    const auto [live, first] = live_.insert({task.first_batch, key});
    if (!first) {
      Error(absl::StrCat("mini-batch ", task.first_batch, " is given to ",
                         Name(key), " while ", Name(live->second), " has it"));
      live->second = key;
    }
  }

  // The task, or null where none was issued; says so.
  Task* End(const Key& key, proto::Outcome outcome) {
    const auto found = tasks_.find(key);
    if (found == tasks_.end()) {
      Error(absl::StrCat(Name(key), " ends as ", proto::Outcome_Name(outcome),
                         " and was not issued"));
      return nullptr;
    }
    Task& task = found->second;
    if (++task.ends > 1) {
      Error(absl::StrCat(Name(key), ", mini-batch ", task.first_batch,
                         ": ends as ", proto::Outcome_Name(task.outcome),
                         " and again as ", proto::Outcome_Name(outcome)));
      return &task;
    }
    task.outcome = outcome;
    task.ended_at = position_;
    const auto live = live_.find(task.first_batch);
    if (live != live_.end() && live->second == key) live_.erase(live);
    return &task;
  }

  void Commit(const proto::LogCommit& commit) {
    const int64_t expected = ledger_.decided.value() + 1;
    if (commit.version() != expected) {
      Error(absl::StrCat("version ", commit.version(), " comes where ",
                         expected, " is expected"));
    }
    ledger_.decided = Version(commit.version());
    Update update{.version = commit.version(), .position = position_};
    for (const proto::LogEntry& entry : commit.entry()) {
      const int batches = std::max(entry.batches(), 1);
      const Task* task = End(KeyOf(entry), proto::APPLIED);
      if (task != nullptr && (task->first_batch != entry.first_batch() ||
                              task->batches != batches)) {
        Error(absl::StrCat(Name(KeyOf(entry)), " is applied as mini-batch ",
                           entry.first_batch(), " + ", batches, ", issued as ",
                           task->first_batch, " + ", task->batches));
      }
      update.samples += entry.samples();
      for (int i = 0; i < batches; ++i) {
        update.batches.push_back(entry.first_batch() + i);
      }
    }
    updates_.push_back(std::move(update));
  }

  // Position of the record that decided it; 0 where it was restored.
  size_t CommitOf(Version version) const {
    for (const Update& update : updates_) {
      if (update.version == version.value()) return update.position;
    }
    return 0;
  }

  int64_t* CounterOf(proto::Outcome outcome) {
    switch (outcome) {
      case proto::APPLIED:
        return &ledger_.applied;
      case proto::CANCELLED:
        return &ledger_.cancelled;
      case proto::DROPPED:
        return &ledger_.dropped;
      case proto::REJECTED:
        return &ledger_.rejected;
      default:
        return &ledger_.lost;
    }
  }

  Errors& errors_;
  GenerationLedger ledger_;
  bool all_ = false;
  size_t position_ = 0;  // Of the record, from 1.
  std::map<Key, Task> tasks_;
  absl::flat_hash_map<int64_t, Key> live_;  // By first mini-batch.
  std::vector<Update> updates_;
};

// The books of all generations, by their number.
using Books = std::map<Generation, Book>;

// The one that `of` goes on from, where it rests on one.
const Book* ParentOf(const Books& books, const GenerationLedger& of) {
  const auto found = books.find(of.parent);
  return of.restored == Version(0) || found == books.end() ? nullptr
                                                           : &found->second;
}

// Whether there is the version that `of` says it began with.
void CheckOrigin(const Books& books, const GenerationLedger& of,
                 Errors* errors) {
  if (of.restored == Version(0)) return;
  const auto parent = books.find(of.parent);
  if (parent == books.end() || of.parent >= of.generation) {
    return errors->Add(absl::StrCat("generation ", of.generation.value(),
                                    " goes on from generation ",
                                    of.parent.value(), ", which is not there"));
  }
  const GenerationLedger& from = parent->second.ledger();
  if (of.restored <= from.restored || of.restored > from.decided) {
    errors->Add(absl::StrCat("generation ", of.generation.value(),
                             " goes on from version ", of.restored.value(),
                             " of generation ", of.parent.value(),
                             ", which made ", from.restored.value() + 1, " to ",
                             from.decided.value()));
  }
}

// From the oldest generation that `of` rests on to itself, each with the
// version up to which it does.
std::vector<std::pair<const Book*, Version>> LineageOf(const Books& books,
                                                       const Book& of) {
  std::vector<std::pair<const Book*, Version>> lineage;
  const Book* book = &of;
  Version last = of.ledger().decided;
  while (book != nullptr && lineage.size() <= books.size()) {
    lineage.push_back({book, last});
    last = book->ledger().restored;
    book = ParentOf(books, book->ledger());
  }
  std::reverse(lineage.begin(), lineage.end());
  return lineage;
}

void CheckAllApplied(const AppliedIn& applied,
                     const LedgerExpectation& expected, Errors* errors) {
  if (!expected.mini_batches.has_value()) return;
  const int64_t all = *expected.mini_batches;
  int64_t missing = 0;
  std::string first;
  for (int64_t batch = 0; batch < all; ++batch) {
    if (applied.contains(batch)) continue;
    if (++missing <= 5) absl::StrAppend(&first, " ", batch);
  }
  if (missing != expected.left_out) {
    errors->Add(absl::StrCat(missing, " of ", all,
                             " mini-batches are in no update, expected ",
                             expected.left_out, "; the first:", first));
  }
  const int64_t beyond = static_cast<int64_t>(applied.size()) + missing - all;
  if (beyond > 0) {
    errors->Add(absl::StrCat(beyond, " mini-batches beyond the run's ", all,
                             " are in updates"));
  }
}

}  // namespace

GenerationLedger Ledger::Total() const {
  GenerationLedger total;
  for (const GenerationLedger& one : generations) {
    total.generation = one.generation;
    total.decided = one.decided;
    total.tasks += one.tasks;
    total.applied += one.applied;
    total.cancelled += one.cancelled;
    total.dropped += one.dropped;
    total.rejected += one.rejected;
    total.lost += one.lost;
  }
  return total;
}

Ledger BalanceLogs(const std::vector<CommitLog>& logs,
                   const LedgerExpectation& expected) {
  Ledger ledger;
  Errors errors;
  Books books;
  for (const CommitLog& log : logs) {
    books.emplace(Generation(log.header.generation()), Book(log, &errors));
  }
  if (books.empty()) return ledger;
  Book& newest = books.rbegin()->second;
  newest.KeepAll(expected.ended);
  for (const auto& [book, last] : LineageOf(books, newest)) {
    if (book != &newest) books.at(book->ledger().generation).Keep(last);
  }
  for (auto& [generation, book] : books) {
    book.Count();
    CheckOrigin(books, book.ledger(), &errors);
    AppliedIn applied;
    int64_t samples = 0;
    for (const auto& [of, last] : LineageOf(books, book)) {
      of->AddTo(last, /*to_say=*/of == &book, &applied, &samples);
    }
    ledger.generations.push_back(book.ledger());
    if (&book != &newest) continue;
    ledger.version = book.ledger().decided;
    ledger.mini_batches = static_cast<int64_t>(applied.size());
    ledger.samples = samples;
    CheckAllApplied(applied, expected, &errors);
  }
  ledger.errors = errors.Take();
  return ledger;
}

absl::StatusOr<Ledger> ReadLedger(const std::string& run_dir,
                                  const LedgerExpectation& expected) {
  SLUICE_ASSIGN_OR_RETURN(AllGenerations all, ReadAllGenerations(run_dir));
  Ledger ledger = BalanceLogs(all.logs, expected);
  ledger.never_began = std::move(all.never_began);
  for (const CommitLog& log : all.logs) {
    if (log.torn.has_value()) ledger.torn.push_back(*log.torn);
  }
  return ledger;
}

}  // namespace sluice

// Two sync blocks are the same choice if the shortest forms of what they come
// to (SameUpdates) are equal. The shortest form has only the fields that change
// the outcome of ResolveDefaults; K_SYNC with K = 8, for example, stays
// "policy: K_SYNC k: 8" whatever defaults the job's author has spelled out.
#include "sim/advice/choices.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/resolved_job.h"

namespace sluice {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

constexpr proto::Policy kPolicies[] = {
    proto::SYNC,  proto::K_SYNC,  proto::K_BATCH_SYNC,
    proto::ASYNC, proto::K_ASYNC, proto::K_BATCH_ASYNC};

bool HasK(proto::Policy policy) {
  return policy != proto::SYNC && policy != proto::ASYNC;
}

bool IsBatch(proto::Policy policy) {
  return policy == proto::K_BATCH_SYNC || policy == proto::K_BATCH_ASYNC;
}

template <typename T>
bool Contains(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// The Ks with which a policy is no other one.
struct KBounds {
  int least = 0;
  int most = 0;
};

KBounds KBoundsOf(proto::Policy policy, int workers) {
  // With K = 1 K_ASYNC and K_BATCH_ASYNC are ASYNC, and K_BATCH_SYNC is K_SYNC.
  // With K = P both K_SYNC and K_ASYNC are SYNC.
  return {policy == proto::K_SYNC ? 1 : 2,
          IsBatch(policy) ? 65536 : workers - 1};
}

bool Wanted(const ChoiceRange& range, proto::Policy policy) {
  return range.policies.empty() || Contains(range.policies, policy);
}

// The Ks of a policy that are worth trying.
std::vector<int> KsOf(proto::Policy policy, int workers,
                      const ChoiceRange& range) {
  std::vector<int> wanted = range.ks;
  if (wanted.empty()) {
    wanted = {workers / 4, workers / 2,
              IsBatch(policy) ? workers : 3 * workers / 4};
  }
  std::vector<int> ks;
  const auto [least, most] = KBoundsOf(policy, workers);
  for (const int k : wanted) {
    if (k >= least && k <= most && !Contains(ks, k)) ks.push_back(k);
  }
  return ks;
}

std::string NameOf(const proto::Sync& sync) {
  const std::string& policy = proto::Policy_Name(sync.policy());
  if (!HasK(sync.policy())) return policy;
  if (sync.k_schedule().has_adaptive()) {
    return absl::StrCat(policy, ", adaptive K from ", sync.k());
  }
  if (sync.k_schedule().has_by_version()) {
    return absl::StrCat(policy, ", K from ", sync.k(), " by version");
  }
  return absl::StrCat(policy, ", K ", sync.k());
}

// K never changes.
bool KeepsItsK(const proto::Sync& sync) {
  const proto::KSchedule& schedule = sync.k_schedule();
  return !schedule.has_by_version() &&
         (!schedule.has_adaptive() || schedule.adaptive().max_k() == sync.k());
}

// Returns the job with the policy that makes the same updates while no worker
// is lost, if there is another one (docs/policies.md, "What is the same").
proto::Job SameUpdates(const proto::Job& job) {
  proto::Job same = job;
  proto::Sync* sync = same.mutable_sync();
  const proto::Staleness& staleness = sync->staleness();
  if (sync->policy() == proto::K_BATCH_ASYNC &&
      staleness.action() == proto::Staleness::CANCEL &&
      staleness.bound() == 0) {
    sync->set_policy(proto::K_BATCH_SYNC);
  }
  const proto::Policy policy = sync->policy();
  if (!HasK(policy) || !KeepsItsK(*sync)) return same;
  sync->clear_k_schedule();
  const bool waits = policy == proto::K_SYNC || policy == proto::K_ASYNC;
  // In a warm start one worker makes a whole update of SYNC, and one gradient
  // of the others. Of STATIC data their last updates may differ.
  if (waits && sync->k() == job.cluster().workers() &&
      sync->warm_start_updates() == 0 &&
      job.data().sharding() != proto::Data::STATIC) {
    sync->set_policy(proto::SYNC);
    sync->set_gradients_per_update(sync->k());
  } else if (sync->k() == 1 && policy == proto::K_BATCH_SYNC) {
    sync->set_policy(proto::K_SYNC);
  } else if (sync->k() == 1 && policy != proto::K_SYNC) {
    sync->set_policy(proto::ASYNC);
  }
  return same;
}

// Returns the job with this policy instead of its own. k = 0: adaptive K.
proto::Job WithPolicy(const proto::Job& job, proto::Policy policy, int k) {
  proto::Job changed = job;
  proto::Sync* sync = changed.mutable_sync();
  sync->clear_k();
  sync->clear_gradients_per_update();
  sync->clear_k_schedule();
  sync->set_policy(policy);
  if (HasK(policy)) {
    const int workers = job.cluster().workers();
    sync->set_k(k > 0 ? k : std::max(1, workers / 8));
    if (k == 0) sync->mutable_k_schedule()->mutable_adaptive();
  }
  ResolveDefaults(&changed);
  return changed;
}

}  // namespace

proto::Sync ShortestSync(const proto::Job& job) {
  proto::Job shortest = job;
  proto::Sync* sync = shortest.mutable_sync();
  const proto::Policy policy = sync->policy();
  // These fields have no effect under the policy, so any value is dropped.
  if (!HasK(policy)) sync->clear_k();
  if (policy != proto::SYNC) sync->clear_gradients_per_update();
  proto::Job same = shortest;
  ResolveDefaults(&same);
  std::vector<const FieldDescriptor*> fields;
  sync->GetReflection()->ListFields(*sync, &fields);
  for (const FieldDescriptor* field : fields) {
    // A reader should not need to know the defaults of these two.
    if (field->name() == "policy" || (field->name() == "k" && HasK(policy))) {
      continue;
    }
    proto::Job without = shortest;
    proto::Sync* less = without.mutable_sync();
    less->GetReflection()->ClearField(less, field);
    proto::Job resolved = without;
    ResolveDefaults(&resolved);
    if (MessageDifferencer::Equals(resolved.sync(), same.sync())) {
      shortest = without;
      sync = shortest.mutable_sync();
    }
  }
  return shortest.sync();
}

std::vector<Choice> ChoicesFor(const proto::Job& job,
                               const ChoiceRange& range) {
  std::vector<Choice> choices;
  std::vector<proto::Sync> same_as;  // What each of the choices comes to.
  const auto add = [&](const proto::Job& with) {
    const proto::Sync same = ShortestSync(SameUpdates(with));
    for (const proto::Sync& other : same_as) {
      if (MessageDifferencer::Equals(other, same)) return;
    }
    same_as.push_back(same);
    choices.push_back({NameOf(with.sync()), ShortestSync(with)});
  };
  if (Wanted(range, job.sync().policy())) {
    add(job);
    choices[0].name += " (the job's)";
  }
  for (const proto::Policy policy : kPolicies) {
    if (!Wanted(range, policy)) continue;
    if (!HasK(policy)) {
      add(WithPolicy(job, policy, 1));
      continue;
    }
    const int workers = job.cluster().workers();
    for (const int k : KsOf(policy, workers, range)) {
      add(WithPolicy(job, policy, k));
    }
    if (range.ks.empty() && workers > 1) add(WithPolicy(job, policy, 0));
  }
  return choices;
}

absl::Status CheckKs(const proto::Job& job, const ChoiceRange& range) {
  const int workers = job.cluster().workers();
  for (const int k : range.ks) {
    bool tried = false;
    std::vector<std::string> takes;
    for (const proto::Policy policy : kPolicies) {
      if (!HasK(policy) || !Wanted(range, policy)) continue;
      const auto [least, most] = KBoundsOf(policy, workers);
      tried |= k >= least && k <= most;
      takes.push_back(absl::StrCat(
          proto::Policy_Name(policy), " is tried with ",
          most < least ? "none" : absl::StrCat(least, " to ", most)));
    }
    if (tried) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("K ", k, ": expected one that a policy is tried with; of ",
                     workers, " workers ",
                     takes.empty() ? "none of those asked for has a K"
                                   : absl::StrJoin(takes, ", ")));
  }
  return absl::OkStatus();
}

std::string FormatSyncBlock(const proto::Sync& sync) {
  proto::Job job;
  *job.mutable_sync() = sync;
  return FormatJob(job);
}

std::string FormatSyncLine(const proto::Sync& sync) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(sync, &text);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace sluice

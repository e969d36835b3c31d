"""The rules of shards, sessions and a worker's pulls, and mutations that break
them."""

from mutation import Core, Mutation

SHARD = "ps_server/shard/"
SESSION = "common/session/"
WORKER = "worker/"


def staging(rule, what, before, after):
    return Mutation(rule, what, SHARD + "staging.cc", before, after)


def weights(rule, what, before, after):
    return Mutation(rule, what, SHARD + "weight_store.cc", before, after)


def shard(rule, what, before, after):
    return Mutation(rule, what, SHARD + "shard.cc", before, after)


def digests(rule, what, before, after):
    return Mutation(rule, what, SHARD + "tensor_digests.cc", before, after)


def pull(rule, what, before, after):
    return Mutation(rule, what, WORKER + "exchange/pull_assembly.cc", before,
                    after)


def calls(rule, what, before, after):
    return Mutation(rule, what, WORKER + "exchange/shard_calls.cc", before,
                    after)


def retry(rule, what, before, after):
    return Mutation(rule, what, WORKER + "exchange/retry_policy.cc", before, after)


def queue(rule, what, before, after):
    return Mutation(rule, what, SESSION + "reliable_queue.h", before, after)


def session(rule, what, before, after):
    return Mutation(rule, what, SESSION + "client_session.cc", before, after)


MUTATIONS = [
    # ---- Staging: once, whole, and only what was granted ----
    staging("a repeated chunk counts once", "it counts again",
            "if (entry->here[chunk]) {", "if (false) {"),
    staging("a slice is staged when its last chunk is here", "one earlier",
            "if (missing == 0) return entry->second.floats.get();",
            "if (missing <= 1) return entry->second.floats.get();"),
    staging("a push may be repeated after a later task has ended",
            "it is refused",
            "if (entry != entries_.end() && entry->second.missing_in_all == 0) {",
            "if (false) {"),
    staging("an ungranted push is refused", "the grant is not looked at",
            "if (!grants_->Made(header.grant, key, holder)) {",
            "if (false) {"),
    staging("a grant is for the holder of one certificate", "for whoever has it",
            "grants_->Made(header.grant, key, holder)",
            "grants_->Made(header.grant, key)"),
    staging("a gradient comes in in its turn", "as it comes",
            "*turn < turn_ + max_gradients_ && held() < max_gradients_",
            "held() < max_gradients_"),
    staging("what ended holds its room until it is discarded", "it does not",
            "*turn < turn_ + max_gradients_ && held() < max_gradients_",
            "*turn < turn_ + max_gradients_"),
    staging("a turn without its grant is not waited for", "it is",
            "!CheckKey(header, holder).ok()", "false"),
    staging("a push of another generation is refused", "it is taken",
            "if (key.generation != generation_) {", "if (false) {"),
    staging("a slice of the wrong size is refused", "it is taken",
            "if (static_cast<int64_t>(payload.bytes()) != expected) {",
            "if (false) {"),
    staging("a chunk beside the grid is refused", "its offset is believed",
            "if (chunk < 0) {", "if (chunk < -2) {"),
    staging("NaN and infinity are refused", "they are staged",
            "if (wrong >= 0) return NotFinite(", "if (false) return NotFinite("),
    staging("every float is looked at", "not those in two pieces",
            "    looked_at = there;\n", "    looked_at = there + 1;\n"),
    staging("a chunk that was refused is not here", "it is",
            "  if (wrong >= 0) return NotFinite(header.key, chunk, wrong, "
            "floats[wrong]);\n"
            "  entry->here[chunk] = true;\n  --entry->missing_in_all;\n",
            "  entry->here[chunk] = true;\n  --entry->missing_in_all;\n"
            "  if (wrong >= 0) return NotFinite(header.key, chunk, wrong, "
            "floats[wrong]);\n"),
    staging("a Ready is handed on once", "again when its push is repeated",
            'std::exchange(entry.ready, "")', "entry.ready"),
    staging("a Ready is handed on with a whole gradient", "with any part",
            'entry.missing_in_all > 0 ? "" : ', ""),
    staging("a member's part is staged by itself", "with the first member's",
            "int& missing = entry->missing[grid_.PartOf(chunk)];",
            "int& missing = entry->missing[0];"),
    staging("late chunks of an ended task are refused", "they are staged",
            "key.sequence <= ended->second", "key.sequence < ended->second"),
    staging("an earlier end does not reopen a later task", "it does",
            "ended = std::max(ended, key.sequence);", "ended = key.sequence;"),
    staging("an end concerns one life of a worker", "all of its lives",
            "Sequence& ended = ended_[Life(key.worker, key.incarnation)];",
            "ended_[Life(key.worker, Incarnation(2))] = key.sequence;\n"
            "  Sequence& ended = ended_[Life(key.worker, key.incarnation)];"),
    staging("room is bounded", "one more fits",
            "if (held() >= max_gradients_) {", "if (held() > max_gradients_) {"),
    staging("an end frees its room", "the slice stays",
            "  entries_.erase(entry);\n", ""),
    staging("a new generation drops what was staged", "it is kept",
            "  entries_.clear();\n", ""),
    Mutation("a wrong checksum is noticed", "it is not", "common/wire/payload.cc",
             "if (checksum == checksum_) return absl::OkStatus();",
             "return absl::OkStatus();"),

    # ---- The weight store: whole versions ----
    weights("no read is torn", "a chunk that is being read is written to",
            "if (slot.IsUnique()) {", "if (true) {"),
    Mutation("no read of an old version is torn",
             "a retired chunk is used while it is read",
             SHARD + "chunk.h",
             "      if (!chunk.IsUnique()) continue;\n", ""),
    weights("an update that nobody watches is written in place",
            "it is copied", "if (current_.use_count() == 1) {", "if (false) {"),
    weights("only the newest and pinned versions can be read", "any held one",
            "if (hold == holds_.end() || hold->second.pins == 0) "
            "return std::nullopt;",
            "if (hold == holds_.end()) return std::nullopt;"),
    weights("at most max_held old versions are held", "one more",
            "holds_.size() > max_held_ &&", "holds_.size() > max_held_ + 1 &&"),
    weights("a pinned version is never ended", "it is",
            "if (it->second.pins > 0) {", "if (false) {"),
    weights("each pin has its own release", "the first releases all",
            "  --hold->second.pins;\n", "  hold->second.pins = 0;\n"),

    # ---- The shard: decisions in order, all or nothing ----
    shard("a decision is executed once", "a repeat is executed again",
          "  if (decision.number <= executed_) return Executed();\n", ""),
    shard("decisions are executed in order", "a gap is skipped",
          "if (decision.number != executed_ + 1) {", "if (false) {"),
    shard("a shard that cannot execute stops", "it takes the next",
          "if (!fault_.ok()) return fault_;", ""),
    shard("a Commit that names a missing slice is a fault", "it is left out",
          "    if (!floats.ok()) {\n",
          "    if (!floats.ok()) continue;\n    if (!floats.ok()) {\n"),
    shard("a gradient is in an update once", "twice",
          "if (absl::c_linear_search(of.gradients, *floats)) {",
          "if (false) {"),
    shard("a Commit makes the next version", "any",
          "if (commit.version != version() + 1) {", "if (false) {"),
    shard("an update sums in the order of its entries", "in reverse",
          "    of.gradients.push_back(*floats);\n",
          "    of.gradients.insert(of.gradients.begin(), *floats);\n"),
    shard("a Fold makes room for the turns that follow", "it does not",
          "  staging_.BeginTurn(static_cast<int64_t>(folded_.size()));\n", ""),
    shard("an update begins with the first turn", "where the last one ended",
          "  folded_.clear();\n  staging_.BeginTurn(0);\n",
          "  folded_.clear();\n"),
    shard("a Fold frees the room of its gradients", "they stay",
          "    staging_.End(entry.key);\n    folded_", "    folded_"),
    shard("what was folded is in the sum", "it is not",
          "if (!folded_.empty()) of = {{sum_.get()}, {1}, {1}};", ""),
    shard("a Commit is of what was folded", "of anything",
          "entries.subspan(0, folded_.size()) != "
          "absl::MakeConstSpan(folded_)", "false"),
    shard("a Fold is of the next version", "of any",
          "if (fold.version != version() + 1 || fold.entries.empty()) {",
          "if (false) {"),
    shard("a Commit frees the room of its gradients", "they stay",
          "  for (const CommitEntry& entry : commit.entries) "
          "staging_.End(entry.key);\n", ""),
    shard("a Commit's pin keeps its version", "it is forgotten",
          "  if (commit.pin) SLUICE_RETURN_IF_ERROR(store_.Pin(commit.version));"
          "\n", ""),
    shard("a Discard frees the room", "nothing happens",
          "  for (const GradientKey& key : discard.keys) staging_.End(key);\n",
          ""),
    shard("a fresh shard accepts only Restore", "any decision",
          "if (!restored() && !std::holds_alternative<Restore>(decision.what)) "
          "{", "if (false) {"),
    shard("a stored version brings the optimizer's state", "it is as at first",
          "  optimizer_.Restore(arrays);\n", ""),
    shard("a stored version has its number", "it is version 0",
          "store_.Initialize(restore.version, arrays.front());",
          "store_.Initialize(Version(0), arrays.front());"),
    shard("a pull of another generation is refused", "it is answered",
          "if (query.generation != generation_ || !restored()) {",
          "if (!restored()) {"),
    shard("an exact pull gets its version", "the newest",
          "if (!query.exact) return store_.BeginRead();",
          "return store_.BeginRead();"),
    shard("a pull waits for a version that is not there yet",
          "it gets an older one",
          "  if (query.version > version()) return std::nullopt;\n", ""),

    # ---- A worker's pull: one version ----
    pull("a slice is of one version", "a mixture is accepted",
         "if (received_ > 0 && version != version_) {", "if (false) {"),
    pull("an exact pull accepts its version only", "newer ones too",
         "(exact_ && version != wanted_)", "false"),
    pull("a pull accepts nothing older than asked for", "it does",
         "if (version < wanted_ || ", "if ("),
    pull("a slice has no gaps or repeats", "chunks are taken as they come",
         "if (offset != received_ || ", "if ("),
    pull("a slice that ends early is noticed", "it is not",
         "if (received_ == floats_) return absl::OkStatus();",
         "return absl::OkStatus();"),

    pull("a call that broke goes on where it broke off", "from the start",
         "return {version_, true, received_};",
         "return {wanted_, exact_, 0};"),
    pull("it goes on with the version that is here", "any newer one",
         "return {version_, true, received_};",
         "return {wanted_, exact_, received_};"),
    pull("a version that is gone meanwhile begins anew", "the task is over",
         "asked_at_ > 0 && !exact_) {", "false) {"),
    pull("a task's own version that is gone is its end", "it begins anew",
         "asked_at_ > 0 && !exact_) {", "asked_at_ > 0) {"),
    pull("what was refused at first is not begun anew", "it is, for ever",
         "asked_at_ > 0 && !exact_) {", "!exact_) {"),
    pull("a read that the shard ended begins anew", "it goes on",
         "  gone_ = absl::IsResourceExhausted(status);\n", ""),
    pull("what begins anew has nothing here", "it keeps its chunks",
         "  received_ = 0;\n", ""),
    pull("what is all here is all here", "until the shard says so",
         "  if (received_ == floats_) return absl::OkStatus();\n", ""),

    # ---- A worker's calls: given up in time, and not before ----
    calls("a call in which nothing moves is given up", "never",
          "return under_way ? *call.moved + limits_.stall",
          "return false ? *call.moved + limits_.stall"),
    calls("a call that moves is not given up", "its time runs on",
          "  calls_[shard].moved = now;\n  calls_[shard].retry.Reached();\n",
          "  calls_[shard].retry.Reached();\n"),
    calls("a call that rests does not stall", "it does", "call.moved.has_value() &&",
          "(call.moved.has_value() || true) &&"),
    calls("a stalled call is cancelled once", "again and again",
          "    calls_[i].stalled = true;\n", ""),
    calls("a stalled call is repeated", "it has failed",
          "cancelled ? Stalled(limits_.stall) : end",
          "cancelled ? absl::AbortedError(\"\") : end"),
    calls("a shard that is heard of gets the whole time again", "what is left",
          "  calls_[shard].retry.Reached();\n", ""),
    calls("time in which nobody drove the calls does not count", "it does",
          "    calls_[i].retry.LeftAlone(now - calls_[i].due);\n", ""),
    calls("a repeated call goes on from its progress", "it counts from nothing",
          "    calls_[i].state = State::kRunning;\n",
          "    calls_[i].state = State::kRunning;\n"
          "    calls_[i].progress = 0;\n"),
    calls("the shard that is cut off for longest is named", "the last one",
          "if (longest.has_value() && longest->since <= since) continue;", ""),
    retry("a shard that cannot be reached is given up in the end", "never",
             "  if (now - unreachable_since_ >= partition_timeout_) "
             "return std::nullopt;\n", ""),
    retry("a shard that ends a call is asked again", "that is final",
             " ||\n         absl::IsCancelled(status);", ";"),
    retry("who waits for a version waits without end", "as for a dead shard",
             "    Reached();\n    return now + kFirstBackoff;",
             "    return now + kFirstBackoff;"),

    # ---- Sessions: every message once and in order ----
    queue("a repeated message is recognised", "it is taken again",
          "if (number <= received_) return false;",
          "if (number <= received_) return true;"),
    queue("a gap in the messages is refused", "it is passed over",
          "if (number != received_ + 1) {", "if (false) {"),
    queue("what is unacknowledged is sent again", "it is lost",
          "void Reconnect() { sent_ = 0; }",
          "void Reconnect() { sent_ = kept_.size(); }"),
    queue("an acknowledgement of what was never sent is refused",
          "it is believed", "if (number > last()) {",
          "if (number > last()) number = last();\n    if (false) {"),
    queue("what a silent peer is owed is bounded", "it grows",
          "if (kept_.size() >= capacity_) {", "if (false) {"),
    session("who cannot be reached is given up and named", "never",
            "  if (now >= Deadline()) return Silent(now);\n", ""),
    session("a connection that is silent for a lease is cut", "it is kept",
            "  if (!contacted_) return Deadline();\n",
            "  return Deadline();\n"),
    session("the next connection has a lease, too", "it is cut at once",
            "std::max(last_heard_, last_connected_)", "last_heard_"),
    session("a refusal is final", "it is asked again for ever",
            "  if (IsFinal(status.code())) return Refuse(status);\n", ""),
    session("an incarnation that is over ends its session", "it goes on",
            "    if (welcomed_) return Refuse(status);\n", ""),
    session("a new life numbers its messages from one", "it goes on",
            "    queue_ = Queue(kQueueCapacity);\n", ""),
    session("a process that was stopped blames nobody", "it does",
            "    last_heard_ += now - last_awake_ - kAwakeEvery;\n", ""),
    session("the wait between two attempts is bounded", "it doubles for ever",
            "return std::min(kFirstBackoff * (1 << doublings), "
            "kLongestBackoff);",
            "return kFirstBackoff * (1 << doublings);"),

    session("whom a process cannot reach is said when it is new",
            "with the next heartbeat", "ack_due_ || reach_due_ ||", "ack_due_ ||"),
    session("it is said once", "again and again", "    reach_due_ = false;\n", ""),

    # ---- What replay compares with ----
    shard("digests are taken of every so-many-th version", "of every version",
          "version().value() % options_.digest_every != 0) {", "false) {"),
    shard("a Store is of the newest version", "of any",
          "  if (store.version != version()) {", "  if (false) {"),
    shard("reads that an update ended are named", "they are not",
          "  executed.ended_reads = store_.Close();\n", "  store_.Close();\n"),
    shard("an update that has begun is made by what comes next", "it is not",
          "  if (!std::holds_alternative<Discard>(decision.what)) MakeAll();\n",
          ""),
    shard("gradients stay until the last chunk is made", "until the first is",
          "  if (next < grid_.count()) return;\n", ""),
    shard("a chunk is made once", "each time that it is read",
          "*std::exchange(making_->pieces[chunk], std::nullopt);",
          "*making_->pieces[chunk];"),
    shard("room granted anew is there", "the push waits for the update",
          "    MakeAll();  // The room of what is being applied has been granted "
          "anew.\n", ""),
    shard("a version is whole when it is stored", "it has what is made by then",
          "Shard::HeldVersion Shard::Hold() {\n  MakeAll();\n",
          "Shard::HeldVersion Shard::Hold() {\n"),
    shard("digests are of the whole version", "of what is made by then",
          "  MakeAll();\n  const WeightStore::Read read = store_.BeginRead();\n"
          "  std::vector<uint64_t> digests",
          "  const WeightStore::Read read = store_.BeginRead();\n"
          "  std::vector<uint64_t> digests"),
    shard("a Store holds its version", "nothing",
          "  executed.held = Hold();\n", ""),
    digests("a digest is of the whole tensor", "of its first chunk",
            "      at += floats;\n", "      at = end;\n"),
    digests("a digest is of its tensor alone", "of all before it, too",
            "    XXH3_64bits_reset(state.get());\n",
            "    if (digests.empty()) XXH3_64bits_reset(state.get());\n"),
    digests("a digest is of what the shard holds", "it begins elsewhere",
            "std::max(tensor->offset, range.begin) - range.begin;",
            "std::max<int64_t>(tensor->offset - range.begin - 1, 0);"),
]

EXCHANGE = Core(
    sources=[SHARD + s + ".cc" for s in ("shard", "staging", "weight_store",
                                         "tensor_digests", "optimizer",
                                         "shared_chunks")] + [
        "common/" + p + ".cc" for p in (
            "grant", "parameter_layout", "process/shared_memory", "random",
            "secret", "telemetry/json_text", "wire/float_code", "wire/payload",
            "wire/wire_format")] + [
        "kernels/optimizer_kernels.cc", SESSION + "client_session.cc",
        SESSION + "reason.cc",
        WORKER + "exchange/pull_assembly.cc",
        WORKER + "exchange/retry_policy.cc", WORKER + "exchange/shard_calls.cc",
        "proto/checkpoint.pb.cc", "proto/coordinator.pb.cc", "proto/job.pb.cc",
        "proto/key.pb.cc", "proto/status_details.pb.cc",
    ] + [SHARD + t + "_test.cc" for t in (
        "staging", "weight_store", "tensor_digests", "shard",
        "folding_shard", "shard_restore")] + [WORKER + "exchange/pull_assembly_test.cc",
              WORKER + "exchange/retry_policy_test.cc",
              WORKER + "exchange/shard_calls_test.cc",
              SESSION + "client_session_test.cc",
              SESSION + "reliable_queue_test.cc"],
    headers=[SHARD + "*.h", SESSION + "*.h", WORKER + "exchange/*.h",
             "ps_server/decisions/*.h", "kernels/*.h", "common/*.h",
             "common/*/*.h"],
    protos=["proto/checkpoint.proto", "proto/coordinator.proto", "proto/job.proto",
            "proto/key.proto", "proto/status_details.proto"],
    # One instruction set is enough to notice a broken rule.
    flags=["-DHWY_COMPILE_ONLY_STATIC"],
    libraries=["-lhwy", "-lprotobuf", "-lcrypto", "-labsl_synchronization"],
    mutations=MUTATIONS)

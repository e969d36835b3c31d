"""The rules of recovery over a run's generations, and mutations that break
them.

The tests are those of the parts and, for rules that these do not cover, the
simulated cluster in which every process and every disk fails
(sim/faults_test).
"""

from mutation import Core, Mutation

COORDINATOR = "ps_server/coordinator/"
DECISIONS = "ps_server/decisions/"
CHECKPOINT = "ps_server/checkpoint/"
SHARD = "ps_server/shard/"
SESSION = "common/session/"
LIVES = "sim/testing/faulty_sessions.cc"


def change(rule, what, file, before, after):
    return Mutation(rule, what, file, before, after)


MUTATIONS = [
    # ---- Generations: one process takes each, and knows its own ----
    change("a generation is taken by one process", "by whoever comes",
           "common/files/file_operations.cc", "O_WRONLY | O_CREAT | O_EXCL |",
           "O_WRONLY | O_CREAT |"),
    change("an older lead proves nothing", "it takes its word for it",
           COORDINATOR + "log/run_claim.cc",
           "  if (!absl::IsNotFound(back)) return back;",
           "  return absl::OkStatus();"),
    change("who comes too late with its claim is told so", "it claims the run",
           COORDINATOR + "log/run_claim.cc",
           "  if (!taken.empty() && taken.back() > generation) {",
           "  if (false) {"),
    change("a run that another process has taken on is left to it",
           "it is taken back", "ps_server/resume.cc",
           "  if (known.generation > Generation(0) && "
           "newest > known.generation) {", "  if (false) {"),
    change("who takes a generation ends the earlier claims", "it does not",
           COORDINATOR + "log/run_claim.cc",
           "  SLUICE_RETURN_IF_ERROR(EndClaim(path, files));", ""),
    change("a log goes on in the file that says what came before",
           "it counts from nothing", COORDINATOR + "log/commit_log_file.cc",
           "past->set_tasks(past->tasks() + 1);", ""),
    change("a log without a gap goes on in its next file",
           "what came before may be lost with the power",
           COORDINATOR + "log/commit_log_file.cc",
           "  SLUICE_RETURN_IF_ERROR(Sync());\n", ""),
    change("a batch that does not fit is undone", "half of it is left",
           COORDINATOR + "log/commit_log_file.cc",
           "half_ = true;", ""),
    change("the next generation is above all that were taken",
           "above that of the checkpoint", "ps_server/resume.cc",
           "std::max(past.generations.back(), point.generation) + 1;",
           "point.generation + 1;"),
    change("a life of an earlier generation is over", "it goes on",
           COORDINATOR + "session/coordinator_sessions.cc",
           "if (join.incarnation() == 0 || here == there) return "
           "absl::OkStatus();", "return absl::OkStatus();"),
    change("what is stored by an earlier generation is nobody's", "it counts",
           COORDINATOR + "session/coordinator_sessions.cc",
           "      if (Generation(stored.generation()) != "
           "options_.generation) {\n        return absl::OkStatus();\n"
           "      }\n", ""),
    change("a generation's pulls are answered by it alone", "by any",
           SHARD + "shard.cc",
           "if (query.generation != generation_ || !restored()) {",
           "if (!restored()) {"),
    change("a generation's pushes are taken by it alone", "by any",
           SHARD + "staging.cc", "if (key.generation != generation_) {",
           "if (false) {"),
    change("what a restored generation had staged is dropped", "it stays",
           SHARD + "shard.cc",
           "  staging_.Reset(restore.generation, restore.grant_secret);\n", ""),

    # ---- In place: the process stays, and nothing that was in its memory ----
    change("a generation that is over is followed by the next one in place",
           "its shards end", "ps_server/next_generation.cc",
           "if (!absl::IsAborted(session.status())) return session.status();",
           "return session.status();"),
    change("a replaced coordinator ends", "it begins the next generation",
           "ps_server/next_generation.cc",
           "  if (std::holds_alternative<Superseded>(end)) {",
           "  if (std::holds_alternative<Superseded>(end)) return EarlierLife();\n"
           "  if (std::holds_alternative<Superseded>(end)) {"),
    change("generations that come no further are counted", "they are forgotten",
           "ps_server/next_generation.cc",
           "  earlier.recovery.fruitless = over.fruitless;\n", ""),
    change("the next generation knows who took part in the last one",
           "it forgets them", "ps_server/next_generation.cc",
           "  earlier.recovery.workers = over.workers;\n", ""),
    change("a stop that is asked for outlives its generation", "it is lost",
           "ps_server/next_generation.cc",
           "  earlier.recovery.stop = stop;\n", ""),
    change("everybody hears that the generation is over", "nobody does",
           COORDINATOR + "session/coordinator_sessions.cc",
           "  table_.EndAll(absl::AbortedError(absl::StrCat(\n"
           "      \"generation \", options_.generation.value(), "
           "\" is over: \", why)));\n", ""),
    change("a shard that is back without its memory ends the generation",
           "it takes part in it", COORDINATOR + "core/coordinator.cc",
           "      PeerLost(peer, \"restarted\");\n",
           "      if (peer.role != Role::kShard) PeerLost(peer, \"restarted\");\n"),
    change("a shard takes the weights of the checkpoint", "those of version 0",
           SHARD + "shard.cc",
           "  store_.Initialize(restore.version, arrays.front());\n",
           "  SLUICE_ASSIGN_OR_RETURN(const std::vector<float> weights,\n"
           "                          options_.initial_weights(range_));\n"
           "  store_.Initialize(restore.version, weights);\n"),
    change("a shard takes the optimizer's state of the checkpoint",
           "it begins with none", SHARD + "shard.cc",
           "  optimizer_.Restore(arrays);\n", "  optimizer_.Reset();\n"),
    # Mutations of the simulated processes, which act like ShardDaemon and
    # RunWorker. The checks must notice mistakes that a daemon could make.
    change("a shard that stays begins with an empty memory",
           "with its weights, and the pushes that it knows", LIVES,
           "  process.life.emplace();\n"
           "  const bool worker = IsWorker(index);\n"
           "  if (!worker) process.life->shard = NewShard(process.peer.id);\n",
           "  auto kept = process.life.has_value()\n"
           "      ? std::move(process.life->shard) : nullptr;\n"
           "  process.life.emplace();\n"
           "  const bool worker = IsWorker(index);\n"
           "  if (!worker) process.life->shard =\n"
           "      kept ? std::move(kept) : NewShard(process.peer.id);\n"),
    change("a worker that stays begins without tasks", "it keeps them", LIVES,
           "  process.life.emplace();\n",
           "  TaskQueue kept;\n"
           "  if (process.life.has_value()) "
           "kept = std::move(process.life->tasks);\n"
           "  process.life.emplace();\n"
           "  process.life->tasks = std::move(kept);\n"),
    change("a worker that stays begins without a gradient", "it goes on with it",
           LIVES, "  process.life.emplace();\n",
           "  auto kept = process.life.has_value()\n"
           "      ? std::exchange(process.life->work, {}) : std::nullopt;\n"
           "  process.life.emplace();\n"
           "  process.life->work = std::move(kept);\n"),

    # ---- Where a run goes on ----
    change("a run goes on from the newest checkpoint", "from the one before",
           CHECKPOINT + "checkpoint.cc",
           "  for (; !ids.empty(); ids.pop_back()) {\n",
           "  if (ids.size() > 1) ids.pop_back();\n"
           "  for (; !ids.empty(); ids.pop_back()) {\n"),
    change("newest is by generation, then version", "by version",
           CHECKPOINT + "checkpoint.cc",
           "  std::sort(ids.begin(), ids.end());\n",
           "  std::sort(ids.begin(), ids.end(), [](auto a, auto b) {\n"
           "    return a.version < b.version; });\n"),
    change("a damaged checkpoint is passed over", "it is gone on from",
           CHECKPOINT + "checkpoint.cc",
           "opened.ok() ? opened->Verify() : opened.status();",
           "opened.status();"),
    change("only what was read and is wrong is passed over",
           "what cannot be read, too", CHECKPOINT + "checkpoint.cc",
           "    if (!IsDamage(status)) return status;\n", ""),
    change("a file is missing only if its folder does not list it",
           "if opening it says so", CHECKPOINT + "checkpoint.cc",
           "  SLUICE_RETURN_IF_ERROR(ProveMissing(folder, name, files));\n"
           "  return status;\n", "  return status;\n"),
    change("a list of checkpoints that cannot be had is no empty one",
           "it is taken for one", CHECKPOINT + "checkpoint.cc",
           "  SLUICE_RETURN_IF_ERROR(names.status());\n"
           "  for (const std::string& name : *names) {\n"
           "    if (const auto id",
           "  if (!names.ok()) return ids;\n"
           "  for (const std::string& name : *names) {\n"
           "    if (const auto id"),
    change("a known run begins in no empty folder", "it begins there",
           "ps_server/resume.cc",
           "    if (!known.id.empty()) return NoRun(run_dir, known);\n", ""),
    change("a checkpoint that was whole is there or damaged", "it may be gone",
           "ps_server/resume.cc", "  if (found < stored &&\n",
           "  if (false && found < stored &&\n"),
    change("what cannot be read is tried again", "it is given up",
           "common/files/storage_retry.cc",
           "|| now >= until_) return", "|| true) return"),
    change("shards load the checkpoint of its generation", "of their own",
           COORDINATOR + "core/coordinator_phases.cc",
           "begins_.generation, options_.run_id",
           "options_.generation, options_.run_id"),
    change("tasks that were cut off are counted as lost", "they are forgotten",
           "ps_server/resume.cc", "  counts.lost = lost;\n", ""),

    # ---- What a checkpoint holds ----
    change("a checkpoint's exceptions are stored", "they are left out",
           COORDINATOR + "report/snapshot_conversion.cc",
           "    state.add_exception(block.value());\n", ""),
    change("the state that a Store holds stays", "updates write to it",
           SHARD + "optimizer.cc",
           "    if (array[chunk].IsUnique()) continue;\n", "    continue;\n"),
    change("the version that a Store holds stays", "updates write to it",
           SHARD + "weight_store.cc", "if (slot.IsUnique()) {",
           "if (true) {"),
    change("a file is on the disk before it has its name", "it may not be",
           "common/files/atomic_file.cc",
           "  if (status.ok()) status = files->Sync(file, path);\n", ""),

    # ---- Decisions that a generation must carry out ----
    change("a Discard drops what is staged", "nothing happens",
           SHARD + "shard.cc",
           "  for (const GradientKey& key : discard.keys) staging_.End(key);\n", ""),
    change("a Discard is of its own key", "of the worker's next",
           SHARD + "shard.cc", "staging_.End(key);\n",
           "{\n"
           "    GradientKey other = key;\n"
           "    other.sequence = other.sequence + 1;\n"
           "    staging_.End(other);\n"
           "  }\n"),
    change("late chunks of a discarded key are refused", "they are staged",
           SHARD + "staging.cc", "key.sequence <= ended->second",
           "key.sequence < ended->second"),
]

RECOVERY = Core(
    sources=[COORDINATOR + p + ".cc" for p in (
        "core/awake_clock", "core/coordinator", "core/coordinator_checkpoints",
        "core/coordinator_phases", "core/coordinator_state",
        "core/coordinator_tasks", "core/coordinator_updates",
        "core/task_table", "core/training_stats", "members/input_agreement",
        "members/instruction_agreement", "members/membership",
        "versions/check_resume_point", "versions/checkpoints",
        "versions/evaluations", "log/commit_log_file", "log/generations",
        "log/goodput", "log/manifest_writer", "log/run_claim", "log/run_files",
        "log/task_spans", "log/worker_time",
        "policy/batch_schedule", "policy/delivery_counts",
        "policy/k_schedule", "policy/policy_rules", "policy/round_fold",
        "policy/sync_policy",
        "policy/gradient_weights", "report/compute_times_writer",
        "report/metrics_writer", "report/rate_meter", "report/run_summary",
        "report/snapshot_conversion", "session/coordinator_sessions",
        "session/session_table", "testing/checkpoint_checker",
        "testing/invariant_checker", "testing/jobs")] + [
        DECISIONS + p + ".cc" for p in (
            "decision_stream", "event_conversion", "events")] + [
        CHECKPOINT + p + ".cc" for p in (
            "background_writer", "checkpoint", "manifest", "shard_file")] + [
        SHARD + p + ".cc" for p in (
            "optimizer", "shard", "shared_chunks", "staging",
            "tensor_digests", "weight_store")] + [
        "common/" + p + ".cc" for p in (
            "await_for", "batch_grid", "clock", "files/appended_file",
            "files/atomic_file", "files/file_mode", "files/file_operations",
            "files/input_file", "files/storage_retry", "formats/cifar_file",
            "formats/idx_file", "formats/image_list", "formats/safetensors",
            "formats/safetensors_header", "formats/tar_file",
            "formats/text_file", "grant", "host_port", "job/any_number",
            "job/data_shape", "job/data_validation", "job/delay_model",
            "job/delay_validation", "job/external_validation", "job/group",
            "job/initial_weights", "job/job_checker", "job/job_counts",
            "job/job_defaults", "job/job_difference", "job/job_learning_rate",
            "job/job_text", "job/job_validation", "job/learning_rate",
            "job/resolved_job", "job/stage_plan", "job/sync_validation",
            "job/tensor_groups", "layers/attention", "layers/batch_norm",
            "layers/conv2d", "layers/dense", "layers/elementwise",
            "layers/embedding", "layers/group_norm", "layers/layer_kind",
            "layers/layer_norm", "layers/model_plan", "layers/multiply_adds",
            "layers/pool", "layers/repeat", "layers/residual",
            "layers/shape_inference", "layers/weights", "parameter_layout",
            "process/process_name", "process/shared_memory", "random", "secret",
            "session/client_session", "session/reason", "sha256",
            "telemetry/json_text",
            "telemetry/log_value", "telemetry/logged_values",
            "testing/faulty_files", "testing/faulty_reads", "wire/float_code",
            "wire/payload", "wire/wire_format")] + [
        "kernels/optimizer_kernels.cc", "ps_server/next_generation.cc",
        "ps_server/resume.cc", "worker/rejoin_policy.cc",
        "worker/task/task_queue.cc",
        "proto/checkpoint.pb.cc", "proto/commit_log.pb.cc",
        "proto/coordinator.pb.cc", "proto/job.pb.cc", "proto/key.pb.cc",
        "proto/status_details.pb.cc",
    ] + ["sim/testing/" + p + ".cc" for p in (
        "chance", "faulty_cluster", "faulty_exchange", "faulty_job",
        "faulty_servers",
        "faulty_sessions", "faulty_storage", "lineage_checker",
        "reference_weights")] + [
        "common/files/storage_retry_test.cc",
        "ps_server/next_generation_test.cc", "ps_server/resume_test.cc",
        COORDINATOR + "log/commit_log_file_test.cc",
        COORDINATOR + "session/coordinator_sessions_test.cc",
        COORDINATOR + "log/run_claim_test.cc",
        COORDINATOR + "session/stored_generation_test.cc",
        CHECKPOINT + "checkpoint_test.cc",
        CHECKPOINT + "checkpoint_damage_test.cc",
        CHECKPOINT + "checkpoint_faults_test.cc",
        SHARD + "staging_test.cc", SHARD + "shard_test.cc",
        # Slow, so last.
        "sim/faults_test.cc"],
    headers=["third_party/spdlog.h", DECISIONS + "*.h", COORDINATOR + "*/*.h",
             CHECKPOINT + "*.h", SHARD + "*.h", SESSION + "*.h",
             "ps_server/*.h", "sim/*.h", "sim/testing/*.h", "common/*.h",
             "common/*/*.h", "kernels/*.h",
             "worker/rejoin_policy.h", "worker/task/task_queue.h"],
    protos=["proto/checkpoint.proto", "proto/commit_log.proto",
            "proto/coordinator.proto", "proto/job.proto", "proto/key.proto",
            "proto/status_details.proto"],
    # The unchanged tests take 20 s without optimisation.
    flags=["-DHWY_COMPILE_ONLY_STATIC", "-DSLUICE_SEEDS_PER_POLICY=100"],
    libraries=["-lspdlog", "-lfmt", "-lhwy", "-lprotobuf", "-lcrypto", "-lz",
               "-labsl_synchronization"],
    mutations=MUTATIONS)

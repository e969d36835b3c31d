#include "worker/run_evaluator.h"

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/named_thread.h"
#include "common/session/coordinator_client.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/daemon.h"
#include "worker/evaluator.h"
#include "worker/mailbox.h"
#include "worker/workbench.h"

namespace sluice {
namespace {

// Longer than the time between two evaluations of a small job, so that a line
// means something.
constexpr absl::Duration kLogEvery = absl::Seconds(10);

// Where the final version is written; nowhere without a run folder.
std::string WeightsPath(const ResolvedJob& job, const std::string& run_dir) {
  const std::string& folder =
      run_dir.empty() ? job.job.output().run_dir() : run_dir;
  return folder.empty() ? "" : absl::StrCat(folder, "/weights.safetensors");
}

void LogAnswer(const proto::Evaluated& answer) {
  if (!answer.error().empty()) {
    spdlog::warn("event=evaluation_failed version={} error=\"{}\"",
                 answer.version(), answer.error());
    return;
  }
  spdlog::info("event=evaluated version={} loss={:.6f} accuracy={} samples={}",
               answer.version(), answer.loss(),
               answer.has_accuracy() ? absl::StrCat(answer.accuracy()) : "none",
               answer.samples());
}

// Answers one request after the other until the run is over; returns how it
// ended, nothing when the session was lost first.
std::optional<proto::Finish> Serve(
    Mailbox<proto::FromCoordinator>* mailbox,
    const std::function<proto::Evaluated(const proto::Evaluate&)>& evaluate,
    const std::function<void(proto::ToCoordinator)>& send) {
  while (true) {
    const auto message = mailbox->Take(kLogEvery);
    if (!message.has_value()) {
      if (mailbox->closed()) return std::nullopt;
      spdlog::debug("event=waiting for=evaluation from=coordinator");
      continue;
    }
    if (message->has_finish()) return message->finish();
    if (!message->has_evaluate()) continue;
    proto::ToCoordinator answer;
    *answer.mutable_evaluated() = evaluate(message->evaluate());
    LogAnswer(answer.evaluated());
    send(std::move(answer));
  }
}

}  // namespace

absl::Status RunEvaluator(const ResolvedJob& job, const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const Workbench bench, MakeTestBench(job));
  Mailbox<proto::FromCoordinator> mailbox;
  CancelToken over;
  std::unique_ptr<GrpcExchange> exchange;
  std::unique_ptr<CoordinatorClient> client;
  LeaveOnSignal leave;

  CoordinatorClient::Options session = SessionOptions(job, proto::EVALUATOR, 0);
  session.on_message = [&](const proto::FromCoordinator& message) {
    mailbox.Put(message);
  };
  // Evaluations asked for in the old life are asked for again.
  session.on_new_life = [](const proto::Welcome&) {};
  SLUICE_ASSIGN_OR_RETURN(client,
                          CoordinatorClient::Connect(std::move(session)));
  SLUICE_ASSIGN_OR_RETURN(exchange,
                          OpenExchange(job, "evaluator", client->welcome()));
  leave.Joined([&](const std::string& reason) { client->Leave(reason); });

  Evaluator evaluator(EvaluatorOptionsFromJob(job, WeightsPath(job, run_dir)),
                      &job.layout, bench.data.get(), bench.model.get(),
                      exchange.get());
  std::optional<proto::Finish> finish;
  std::thread compute = StartThread("compute", [&] {
    bench.Enter();
    finish = Serve(
        &mailbox,
        [&](const proto::Evaluate& request) {
          return evaluator.Run(
              request, Generation(client->welcome().generation()), over);
        },
        [&](proto::ToCoordinator answer) { client->Send(std::move(answer)); });
  });
  const absl::Status ended = client->Wait();
  over.Cancel();
  exchange->Wake();
  mailbox.Close();
  compute.join();
  return RunOutcome(finish, absl::OkStatus(), ended);
}

}  // namespace sluice

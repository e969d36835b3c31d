// One task at a time is under way, so whatever comes on the socket concerns it.
// Compute sends TASK and then takes packets until one ends the task:
//
//   TASK 7 -->
//          <-- FINAL 7, 12       gradient.FinalFrom(12)
//          <-- FINAL 7, 0        gradient.FinalFrom(0)
//          <-- RESULT 7, 64, 0.3 returned
//
// Evaluate does the same with EVALUATE and EVALUATED. A cancel sends CANCEL
// once; the task is over when the process says so, with CANCELLED or with a
// RESULT that was on its way. So the next task finds a
// process that computes nothing, and memory that nobody writes.
//
// What holds:
//   * Packets come before ends: what a process said before it died is taken
//     first, so a FAILED is told rather than the exit that followed it.
//   * Each wait has a deadline, and looks at the socket, the process and Wake
//     together (Poll).
//   * `broken_` is set by whatever leaves the process in a state unknown.
#include "worker/external/model_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/telemetry/logged_values.h"
#include "worker/external/packet.h"

namespace sluice {
namespace {

using model_protocol::Kind;

// From the end of its socket to the end of a process: the time of an exit.
constexpr absl::Duration kExit = absl::Seconds(2);
constexpr char kNotReady[] = "before it was ready";

}  // namespace

absl::StatusOr<std::unique_ptr<ModelProcess>> ModelProcess::Start(
    Options options) {
  using Others = SharedMemory::Others;
  const ModelDescription& model = options.description;
  const int64_t bytes = model.parameters * sizeof(float);
  std::vector<SharedMemory> weights;
  for (int i = 0; i < kWeights; ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        SharedMemory memory,
        SharedMemory::Create(absl::StrCat("sluice weights ", i), bytes,
                             Others::kRead));
    weights.push_back(std::move(memory));
  }
  SLUICE_ASSIGN_OR_RETURN(
      SharedMemory gradient,
      SharedMemory::Create("sluice gradient", bytes, Others::kWrite));
  SLUICE_ASSIGN_OR_RETURN(
      SharedMemory indices,
      SharedMemory::Create(
          "sluice indices",
          (options.most_batches + options.most_indices) * sizeof(int64_t),
          Others::kRead));
  const std::string json = model.ToJson();
  SLUICE_ASSIGN_OR_RETURN(
      SharedMemory description,
      SharedMemory::Create("sluice job", json.size(), Others::kRead));
  std::copy(json.begin(), json.end(), description.As<char>().begin());

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError(
        absl::StrCat("a socket for the model process: ", strerror(errno)));
  }
  // OpenMP, OpenBLAS and MKL would take all processors. They read it when they
  // are loaded, before the program knows its job.
  auto process = Subprocess::Start(
      options.command, sockets[1], model_protocol::kSocketVariable,
      {{"OMP_NUM_THREADS", absl::StrCat(options.description.threads)}});
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  close(sockets[1]);
  if (!process.ok() || wake < 0) {
    const int error = errno;
    close(sockets[0]);
    if (wake >= 0) close(wake);
    return absl::Status(
        process.ok() ? absl::StatusCode::kUnavailable : process.status().code(),
        absl::StrCat("the model process: ", process.ok()
                                                ? strerror(error)
                                                : process.status().message()));
  }
  std::unique_ptr<ModelProcess> made(new ModelProcess(
      std::move(options), std::move(weights), std::move(gradient),
      std::move(indices), std::move(description), sockets[0], wake,
      *std::move(process)));
  SLUICE_RETURN_IF_ERROR(made->SayHello());
  SLUICE_RETURN_IF_ERROR(made->AwaitReady());
  return made;
}

ModelProcess::ModelProcess(Options options, std::vector<SharedMemory> weights,
                           SharedMemory gradient, SharedMemory indices,
                           SharedMemory description, int socket, int wake,
                           std::unique_ptr<Subprocess> process)
    : options_(std::move(options)),
      weights_(std::move(weights)),
      gradient_(std::move(gradient)),
      indices_(std::move(indices)),
      description_(std::move(description)),
      socket_(socket),
      wake_(wake),
      name_(absl::StrCat("the model process ", process->name())),
      process_(std::move(process)) {}

void ModelProcess::LetEnd() {
  Send(model_protocol::Stop{});
  process_->EndWithin(options_.end_limit);
}

ModelProcess::~ModelProcess() {
  Send(model_protocol::Stop{});
  process_->EndWithin(options_.stop_limit);
  close(socket_);
  close(wake_);
}

absl::Status ModelProcess::SayHello() {
  std::vector<int> descriptors;
  for (const SharedMemory& memory : weights_) {
    descriptors.push_back(memory.descriptor());
  }
  descriptors.push_back(gradient_.descriptor());
  descriptors.push_back(indices_.descriptor());
  descriptors.push_back(description_.descriptor());

  const model_protocol::Hello hello = {
      .weights = static_cast<uint32_t>(weights_.size()), .gradients = 1};
  if (SendHello(socket_, hello, descriptors)) return absl::OkStatus();
  if (errno == EPIPE || errno == ECONNRESET) return Ended(kNotReady);
  return Break(absl::UnavailableError(
      absl::StrCat(name_, " cannot be sent HELLO: ", strerror(errno))));
}

absl::Status ModelProcess::AwaitReady() {
  const std::string during = kNotReady;
  Wait wait = {.during = during, .limit = options_.start_limit};
  wait.Begin(options_.clock->Now());
  std::string packet;
  while (packet.empty()) {
    SLUICE_ASSIGN_OR_RETURN(Event event, Next(wait));
    if (auto* came = std::get_if<std::string>(&event)) packet = *came;
  }
  if (KindOf(packet) == Kind::kFailed) return Failed(packet, during);
  if (KindOf(packet) != Kind::kReady) {
    return Garbage(
        absl::StrCat(KindName(KindOf(packet)), ", expected READY or FAILED"),
        during);
  }
  absl::StatusOr<std::string> own_input = ParseReady(packet);
  if (!own_input.ok()) {
    return Garbage(std::string(own_input.status().message()), during);
  }
  own_input_ = *std::move(own_input);
  return absl::OkStatus();
}

// One thing that was asked of the process, from its first message to its end.
class ModelProcess::Running {
 public:
  virtual ~Running() = default;

  // Waits for its end. OK: the process has done it. Errors as Compute.
  absl::Status Await();

 protected:
  // `during`: "in task 7".
  Running(ModelProcess* process, uint64_t number, std::string during,
          const CancelToken* cancel)
      : process_(*process),
        number_(number),
        cancel_(*cancel),
        wait_({.during = std::move(during),
               .limit = process->options_.silence_limit}) {}

  // A packet that has to do with what was asked; whether that is over.
  virtual absl::StatusOr<bool> TakeOwn(absl::string_view packet) = 0;
  // Parses a message, which must be of this task.
  template <typename Message>
  absl::StatusOr<Message> ParseOwn(absl::string_view packet);
  // Asks the process to stop; `why` is what the task ends with.
  void Stop(absl::Status why);
  bool stopped() const { return !stopped_.ok(); }
  // What the process has logged so far.
  const LoggedValues& logged() const { return logged_; }
  absl::Status Garbage(const std::string& what) {
    return process_.Garbage(what, wait_.during);
  }

 private:
  // Whether it is over.
  absl::StatusOr<bool> Take(absl::string_view packet);
  absl::StatusOr<bool> TakeCancelled(absl::string_view packet);
  absl::Status TakeLog(absl::string_view packet);
  // Nobody waits for longer than stop_limit from now on.
  void Hurry();
  absl::Time Now() const { return process_.options_.clock->Now(); }

  // Constant after construction.
  ModelProcess& process_;
  const uint64_t number_;
  const CancelToken& cancel_;

  Wait wait_;             // For the next packet; once stopped it only ends.
  absl::Status stopped_;  // Not OK: CANCEL was sent.
  bool hurries_ = false;
  LoggedValues logged_;
};

absl::Status ModelProcess::Running::Await() {
  wait_.Begin(Now());
  while (true) {
    const bool abandoned = process_.abandoned_;
    if (stopped_.ok() && (abandoned || cancel_.cancelled())) {
      Stop(absl::AbortedError("the task was cancelled"));
    }
    if (abandoned) Hurry();
    SLUICE_ASSIGN_OR_RETURN(const Event event, process_.Next(wait_));
    const auto* packet = std::get_if<std::string>(&event);
    if (packet == nullptr) continue;
    SLUICE_ASSIGN_OR_RETURN(const bool over, Take(*packet));
    if (over) return stopped_;
    if (stopped_.ok()) {
      wait_.Begin(Now());
    } else if (Now() >= wait_.deadline) {
      return process_.Overdue(wait_, "has not answered CANCEL within");
    }
  }
}

void ModelProcess::Running::Stop(absl::Status why) {
  stopped_ = std::move(why);
  process_.Send(model_protocol::Cancel{.task = number_});
}

void ModelProcess::Running::Hurry() {
  if (std::exchange(hurries_, true)) return;
  const absl::Duration limit = process_.options_.stop_limit;
  if (wait_.deadline < Now() + limit) return;
  wait_.limit = limit;
  wait_.Begin(Now());
}

absl::StatusOr<bool> ModelProcess::Running::Take(absl::string_view packet) {
  switch (KindOf(packet)) {
    case Kind::kCancelled:
      return TakeCancelled(packet);
    case Kind::kFailed:
      return process_.Failed(packet, wait_.during);
    case Kind::kLog:
      SLUICE_RETURN_IF_ERROR(TakeLog(packet));
      return false;
    default:
      return TakeOwn(packet);
  }
}

template <typename Message>
absl::StatusOr<Message> ModelProcess::Running::ParseOwn(
    absl::string_view packet) {
  const absl::StatusOr<Message> message = ParsePacket<Message>(packet);
  if (!message.ok()) return Garbage(std::string(message.status().message()));
  if (message->task == number_) return message;
  return Garbage(absl::StrCat(KindName(message->kind), " of task ",
                              message->task, ", expected ", number_));
}

absl::StatusOr<bool> ModelProcess::Running::TakeCancelled(
    absl::string_view packet) {
  SLUICE_RETURN_IF_ERROR(ParseOwn<model_protocol::Cancelled>(packet).status());
  if (stopped()) return true;
  return Garbage("CANCELLED of a task that nobody has cancelled");
}

absl::Status ModelProcess::Running::TakeLog(absl::string_view packet) {
  const size_t head = std::min(packet.size(), sizeof(model_protocol::Log));
  SLUICE_ASSIGN_OR_RETURN(const auto message, ParseOwn<model_protocol::Log>(
                                                  packet.substr(0, head)));
  const absl::Status added =
      AddLogged(packet.substr(head), message.value, &logged_);
  return added.ok() ? added : Garbage(std::string(added.message()));
}

// From TASK on.
class ModelProcess::RunningTask final : public Running {
 public:
  RunningTask(ModelProcess* process, const model_protocol::Task& task,
              GradientSink* gradient, const CancelToken* cancel)
      : Running(process, task.number, absl::StrCat("in task ", task.number),
                cancel),
        samples_(task.indices),
        gradient_(*gradient),
        final_from_(gradient->values().size()) {}

  const Model::Result& result() const { return result_; }

 private:
  absl::StatusOr<bool> TakeOwn(absl::string_view packet) override;
  absl::Status TakeFinal(int64_t from);
  absl::Status TakeResult(const model_protocol::Result& message);

  // Constant after construction.
  const int64_t samples_;
  GradientSink& gradient_;

  int64_t final_from_;
  Model::Result result_;
};

absl::StatusOr<bool> ModelProcess::RunningTask::TakeOwn(
    absl::string_view packet) {
  switch (KindOf(packet)) {
    case Kind::kFinal: {
      SLUICE_ASSIGN_OR_RETURN(const auto message,
                              ParseOwn<model_protocol::Final>(packet));
      SLUICE_RETURN_IF_ERROR(TakeFinal(message.from));
      return false;
    }
    case Kind::kResult: {
      SLUICE_ASSIGN_OR_RETURN(const auto message,
                              ParseOwn<model_protocol::Result>(packet));
      SLUICE_RETURN_IF_ERROR(TakeResult(message));
      return true;
    }
    default:
      return Garbage(absl::StrCat(KindName(KindOf(packet)),
                                  ", expected FINAL, LOG, RESULT, CANCELLED or "
                                  "FAILED"));
  }
}

absl::Status ModelProcess::RunningTask::TakeFinal(int64_t from) {
  if (from < 0 || from > final_from_) {
    return Garbage(absl::StrCat("FINAL from float ", from, ", expected 0 to ",
                                final_from_));
  }
  // The same again says only that it is alive.
  if (from == final_from_ || stopped()) return absl::OkStatus();
  final_from_ = from;
  absl::Status taken = gradient_.FinalFrom(final_from_);
  if (!taken.ok()) Stop(std::move(taken));
  return absl::OkStatus();
}

absl::Status ModelProcess::RunningTask::TakeResult(
    const model_protocol::Result& message) {
  if (stopped()) return absl::OkStatus();  // It was on its way.
  if (final_from_ != 0) {
    return Garbage(
        absl::StrCat("RESULT where the gradient is final from float ",
                     final_from_, " on, expected 0"));
  }
  if (message.samples != samples_) {
    return Garbage(absl::StrCat("RESULT of ", message.samples,
                                " samples, expected ", samples_));
  }
  result_.samples = message.samples;
  result_.loss = message.loss;
  result_.logged = logged();
  return absl::OkStatus();
}

absl::StatusOr<Model::Result> ModelProcess::Compute(
    const Task& task, absl::Span<const float> weights, GradientSink& gradient,
    const CancelToken& cancel) {
  SLUICE_CHECK(gradient.values().data() == this->gradient().data());
  SLUICE_RETURN_IF_ERROR(broken_);
  SLUICE_RETURN_IF_ERROR(CheckRoom(task));
  WriteIndices(task);
  const model_protocol::Task message = {
      .weights = BufferOf(weights.data()),
      .gradient = 0,
      .batches = static_cast<uint32_t>(task.batches.sizes.size()),
      .number = ++tasks_,
      .first_batch = task.batches.first.value(),
      .rate = task.rate,
      .indices = static_cast<int64_t>(task.batches.indices.size()),
      .next_indices = static_cast<int64_t>(task.next.indices.size()),
      .next_first_batch = task.next.first.value(),
      .next_batches = static_cast<uint32_t>(task.next.sizes.size())};
  Send(message);
  RunningTask running(this, message, &gradient, &cancel);
  SLUICE_RETURN_IF_ERROR(running.Await());
  return running.result();
}

// From EVALUATE on.
class ModelProcess::RunningEvaluation final : public Running {
 public:
  RunningEvaluation(ModelProcess* process,
                    const model_protocol::Evaluate& asked,
                    const CancelToken* cancel)
      : Running(process, asked.number,
                absl::StrCat("in the evaluation of version ", asked.version),
                cancel),
        samples_(asked.samples) {}

  const Measurement& measured() const { return measured_; }

 private:
  absl::StatusOr<bool> TakeOwn(absl::string_view packet) override;

  const int64_t samples_;  // Constant after construction.

  Measurement measured_;
};

absl::StatusOr<bool> ModelProcess::RunningEvaluation::TakeOwn(
    absl::string_view packet) {
  if (KindOf(packet) != Kind::kEvaluated) {
    return Garbage(absl::StrCat(KindName(KindOf(packet)),
                                ", expected LOG, EVALUATED, CANCELLED or "
                                "FAILED"));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto message,
                          ParseOwn<model_protocol::Evaluated>(packet));
  if (stopped()) return true;  // It was on its way.
  if (message.samples != samples_) {
    return Garbage(absl::StrCat("EVALUATED of ", message.samples,
                                " samples, expected ", samples_));
  }
  if (message.accuracy < 0 || message.accuracy > 1) {
    return Garbage(absl::StrCat("EVALUATED with accuracy ", message.accuracy,
                                ", expected 0 to 1, or NaN for none"));
  }
  measured_.samples = message.samples;
  measured_.loss = message.loss;
  measured_.logged = logged();
  if (!std::isnan(message.accuracy)) measured_.accuracy = message.accuracy;
  return true;
}

absl::StatusOr<Measurement> ModelProcess::Evaluate(
    Version version, absl::Span<const float> weights,
    const CancelToken& cancel) {
  SLUICE_RETURN_IF_ERROR(broken_);
  const model_protocol::Evaluate message = {
      .weights = BufferOf(weights.data()),
      .number = ++tasks_,
      .version = version.value(),
      .samples = options_.description.test_samples};
  Send(message);
  RunningEvaluation running(this, message, &cancel);
  SLUICE_RETURN_IF_ERROR(running.Await());
  return running.measured();
}

absl::Status ModelProcess::CheckRoom(const Task& task) const {
  const int64_t batches = task.batches.sizes.size() + task.next.sizes.size();
  const int64_t indices =
      task.batches.indices.size() + task.next.indices.size();
  if (batches <= options_.most_batches && indices <= options_.most_indices) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a task and what is likely to follow it have ", batches,
                   " mini-batches and ", indices, " samples, expected at most ",
                   options_.most_batches, " and ", options_.most_indices));
}

void ModelProcess::WriteIndices(const Task& task) const {
  auto to = indices_.As<int64_t>().begin();
  for (const std::vector<int64_t>* part :
       {&task.batches.sizes, &task.next.sizes, &task.batches.indices,
        &task.next.indices}) {
    to = std::copy(part->begin(), part->end(), to);
  }
}

uint32_t ModelProcess::BufferOf(const float* weights) const {
  const auto found = std::find_if(weights_.begin(), weights_.end(),
                                  [&](const SharedMemory& memory) {
                                    return memory.As<float>().data() == weights;
                                  });
  SLUICE_CHECK(found != weights_.end());
  return static_cast<uint32_t>(found - weights_.begin());
}

void ModelProcess::Wake() {
  const uint64_t one = 1;
  // It can fail only where 2^64 - 2 of them wait already.
  (void)!write(wake_, &one, sizeof one);
}

absl::StatusOr<ModelProcess::Event> ModelProcess::Next(const Wait& wait) {
  while (true) {
    const Heard heard = Poll(wait.deadline);
    char packet[model_protocol::kLongestMessage + 1];
    const ssize_t bytes = recv(socket_, packet, sizeof packet, MSG_DONTWAIT);
    if (bytes > model_protocol::kLongestMessage) {
      return Garbage(absl::StrCat("a message of more than ",
                                  model_protocol::kLongestMessage, " bytes"),
                     wait.during);
    }
    if (bytes > 0) return std::string(packet, bytes);
    // An empty packet looks the same; it is not of the protocol.
    if (bytes == 0) return Ended(wait.during);
    // Comes once, before the packets of a process that ended and left some of
    // this side's unread.
    if (errno == ECONNRESET) continue;
    if (heard.ended) return Ended(wait.during);
    if (heard.woken) return Woken{};
    if (!heard.in_time) return Overdue(wait, "has said nothing for");
  }
}

void ModelProcess::Abandon() {
  abandoned_ = true;
  Wake();
}

ModelProcess::Heard ModelProcess::Poll(absl::Time deadline) const {
  const absl::Duration left = deadline - options_.clock->Now();
  const timespec timeout =
      absl::ToTimespec(std::max(left, absl::ZeroDuration()));
  pollfd polled[] = {
      {.fd = socket_, .events = POLLIN, .revents = 0},
      {.fd = process_->ended_descriptor(), .events = POLLIN, .revents = 0},
      {.fd = wake_, .events = POLLIN, .revents = 0}};
  const int ready = ppoll(polled, 3, &timeout, nullptr);
  if (ready < 0) return {};  // Interrupted; the caller comes again.
  Heard heard = {.ended = polled[1].revents != 0,
                 .woken = polled[2].revents != 0,
                 .in_time = ready > 0};
  uint64_t wakes;
  if (heard.woken) (void)!read(wake_, &wakes, sizeof wakes);
  return heard;
}

void ModelProcess::Send(const void* message, size_t bytes) const {
  (void)!send(socket_, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

absl::Status ModelProcess::Failed(absl::string_view packet,
                                  const std::string& during) {
  // It ends by itself, in its own way; the destructor waits for that.
  broken_ = absl::UnavailableError(
      absl::StrCat(name_, " failed ", during, ": ", TextOfFailed(packet)));
  return broken_;
}

absl::Status ModelProcess::Overdue(const Wait& wait, const std::string& what) {
  return Break(absl::DeadlineExceededError(
      absl::StrCat(name_, " ", what, " ", absl::FormatDuration(wait.limit), " ",
                   wait.during, " and was killed")));
}

absl::Status ModelProcess::Ended(const std::string& during) {
  const std::string how =
      process_->AwaitEnd(kExit)
          ? process_->how_it_ended() + " " + during
          : "closed its socket " + during + " and was killed";
  return Break(absl::UnavailableError(absl::StrCat(name_, " ", how)));
}

absl::Status ModelProcess::Garbage(const std::string& what,
                                   const std::string& during) {
  return Break(absl::InvalidArgumentError(
      absl::StrCat(name_, " sent ", what, " ", during, ", and was killed")));
}

absl::Status ModelProcess::Break(absl::Status why) {
  broken_ = std::move(why);
  process_->Kill();
  return broken_;
}

}  // namespace sluice

#ifndef SLUICE_WORKER_EXTERNAL_MODEL_PROCESS_H_
#define SLUICE_WORKER_EXTERNAL_MODEL_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/process/shared_memory.h"
#include "worker/compute/version_measure.h"
#include "worker/external/model_description.h"
#include "worker/external/model_protocol.h"
#include "worker/external/subprocess.h"
#include "worker/model/model.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"

namespace sluice {

// A process of the user's that computes gradients, or measures versions, as
// docs/model_process.md tells. Weights and gradients lie in memory that it and
// this process share.
//
// After an error other than kAborted and what a GradientSink says, the process
// is gone or about to be: each later call returns that error.
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from one thread at a time.
class ModelProcess {
 public:
  // Weights can be written into one while the process reads the other.
  static constexpr int kWeights = 2;

  struct Options {
    std::vector<std::string> command;  // At least one word.
    ModelDescription description;
    // Of a task and of what comes next, together.
    int64_t most_indices = 1;
    int64_t most_batches = 1;
    // Until it is READY. Libraries are imported and data is opened by then.
    absl::Duration start_limit = absl::Minutes(5);
    // Within a task, from its last word on; once a task is cancelled, from its
    // last word before that until its answer.
    absl::Duration silence_limit = absl::Minutes(10);
    // From STOP to its end, where the run goes on without it or has failed.
    absl::Duration stop_limit = absl::Seconds(5);
    // The same where the run has ended well.
    absl::Duration end_limit = absl::Seconds(30);
    Clock* clock = Clock::Real();
  };

  // Starts it and waits until it is ready. Errors name it by number and
  // command:
  //   kInvalidArgument    the command cannot be run, or it sent what it must
  //                       not: says what was expected and what came
  //   kUnavailable        it ended, says how, or has failed, with its own text
  //   kDeadlineExceeded   it has said nothing for start_limit
  //   kResourceExhausted  no shared memory is left
  // Blocks. REQUIRES: the calling thread lives as long as the process is to.
  static absl::StatusOr<std::unique_ptr<ModelProcess>> Start(Options options);
  // Asks it to stop, and kills it if it has not ended after stop_limit, of
  // which the log tells.
  ~ModelProcess();
  // The same before, with end_limit. REQUIRES: no other call follows.
  void LetEnd();

  pid_t pid() const { return process_->pid(); }
  // Whether every call from now on returns the error of one before.
  bool broken() const { return !broken_.ok(); }
  // What it has said in READY.
  const std::string& own_input() const { return own_input_; }
  // The flat vectors in shared memory, all zeros at first.
  // REQUIRES: 0 <= `buffer` < kWeights.
  absl::Span<float> weights(int buffer) const {
    return weights_[buffer].As<float>();
  }
  const SharedMemory& gradient_memory() const { return gradient_; }
  absl::Span<float> gradient() const { return gradient_.As<float>(); }

  // Consecutive mini-batches.
  struct Batches {
    BatchId first = BatchId(0);
    std::vector<int64_t> sizes = {};    // Samples of each.
    std::vector<int64_t> indices = {};  // Their samples, one after the other.
  };
  struct Task {
    Batches batches;
    double rate = 0;    // Of the steps of plain SGD between them.
    Batches next = {};  // Likely to come then.
  };

  // Has the process compute the gradient of `task` at `weights`, which is one
  // of weights(), into `gradient`, whose values are gradient(). Blocks.
  // Errors as of Start, with the task's number, and silence_limit; and
  //   kAborted          `cancel` was set, and the process has stopped
  //   kInvalidArgument  the task has more than the indices have room for (the
  //                     process goes on)
  // What `gradient` says ends the task like a cancel, and is returned.
  absl::StatusOr<Model::Result> Compute(const Task& task,
                                        absl::Span<const float> weights,
                                        GradientSink& gradient,
                                        const CancelToken& cancel);

  // Has the process measure its test split, which has description.test_samples,
  // at `weights` (one of weights()), those of `version`. Blocks. Errors as of
  // Compute, with the version's number. REQUIRES: the process was started for
  // an evaluator.
  absl::StatusOr<Measurement> Evaluate(Version version,
                                       absl::Span<const float> weights,
                                       const CancelToken& cancel);

  // Makes what is under way look at its cancel token. From any thread.
  void Wake();
  // Nobody will ask for anything more: cancels what is under way, and kills the
  // process if it does not answer within stop_limit, of which the task's error
  // tells. From any thread.
  void Abandon();

 private:
  class Running;
  class RunningTask;
  class RunningEvaluation;
  struct Woken {};
  using Event = std::variant<std::string, Woken>;  // A packet.

  ModelProcess(Options options, std::vector<SharedMemory> weights,
               SharedMemory gradient, SharedMemory indices,
               SharedMemory description, int socket, int wake,
               std::unique_ptr<Subprocess> process);

  absl::Status SayHello();
  absl::Status AwaitReady();
  // A wait for the process.
  struct Wait {
    std::string during;    // "in task 7"
    absl::Duration limit;  // From Begin on.
    absl::Time deadline = absl::InfinitePast();

    void Begin(absl::Time now) { deadline = now + limit; }
  };
  // A packet or a Wake, whichever comes first. Errors end the process.
  absl::StatusOr<Event> Next(const Wait& wait);
  // Waits until the socket or the process may have something to say.
  struct Heard {
    bool ended = false, woken = false, in_time = true;
  };
  Heard Poll(absl::Time deadline) const;
  // OK, too, where the process no longer reads: what it says last, or how it
  // ended, is found by Next.
  void Send(const void* message, size_t bytes) const;
  template <typename Message>
  void Send(const Message& message) const {
    Send(&message, sizeof message);
  }
  // Which of weights() they are.
  uint32_t BufferOf(const float* weights) const;
  absl::Status CheckRoom(const Task& task) const;
  void WriteIndices(const Task& task) const;
  absl::Status Failed(absl::string_view packet, const std::string& during);
  // The wait is over; `what` is "has said nothing for".
  absl::Status Overdue(const Wait& wait, const std::string& what);
  absl::Status Ended(const std::string& during);
  absl::Status Garbage(const std::string& what, const std::string& during);
  // Kills the process; `why` is what every call says from now on.
  absl::Status Break(absl::Status why);

  // Constant after construction.
  const Options options_;
  const std::vector<SharedMemory> weights_;
  const SharedMemory gradient_, indices_, description_;
  const int socket_, wake_;
  const std::string name_;  // "the model process (pid 123, ...)"
  std::string own_input_;   // Constant after Start.

  const std::unique_ptr<Subprocess> process_;
  absl::Status broken_;  // Why nothing more can be asked of it.
  uint64_t tasks_ = 0;   // Numbers given.
  std::atomic<bool> abandoned_ = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_MODEL_PROCESS_H_

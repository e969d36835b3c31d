// A model process that does one thing wrong: faulty_model WHAT. The table below
// says what there is.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <variant>

#include "worker/external/testing/process_end.h"

namespace sluice {
namespace {

namespace protocol = model_protocol;
using protocol::Task;

// Nothing ever comes of it.
void Hang() {
  for (;;) pause();
}

std::string FailedText(uint64_t task, const std::string& text) {
  const protocol::Failed failed{.task = task};
  return std::string(reinterpret_cast<const char*>(&failed), sizeof failed) +
         text;
}

std::string LogText(uint64_t task, double value, const std::string& name) {
  const protocol::Log log{.task = task, .value = value};
  return std::string(reinterpret_cast<const char*>(&log), sizeof log) + name;
}

std::string ReadyText(const std::string& own_input) {
  const protocol::Ready ready;
  return std::string(reinterpret_cast<const char*>(&ready), sizeof ready) +
         own_input;
}

// Instead of READY.
const std::map<std::string, std::function<void(ProcessEnd*)>> kAtStart = {
    {"exit", [](ProcessEnd*) { _exit(3); }},
    {"silence", [](ProcessEnd*) { Hang(); }},
    {"other-protocol",
     [](ProcessEnd* worker) { worker->Say(protocol::Ready{.protocol = 2}); }},
    {"fail-unheard",  // Ends without having read the first TASK.
     [](ProcessEnd* worker) {
       worker->Say(protocol::Ready{});
       worker->AwaitPacket();
       worker->Say(protocol::Final{.task = 1, .from = 0});
       worker->SayBytes(FailedText(1, "out of memory"));
       _exit(5);
     }},
    {"own-input",
     [](ProcessEnd* worker) { worker->SayBytes(ReadyText("frozen 17")); }},
    {"long-input",
     [](ProcessEnd* worker) {
       worker->SayBytes(ReadyText(std::string(257, 'x')));
     }},
    {"unprintable-input",
     [](ProcessEnd* worker) { worker->SayBytes(ReadyText("\n")); }},
    {"result-first",
     [](ProcessEnd* worker) { worker->Say(protocol::Result{}); }},
};

// In each task, which is not answered otherwise.
const std::map<std::string, std::function<void(ProcessEnd*, const Task&)>>
    kInTask = {
        {"wait",  // Gives half of a gradient, and waits for CANCEL.
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number,
                                       .from = worker->parameters() / 2});
           worker->AwaitCancel(task.number);
           worker->Say(protocol::Cancelled{.task = task.number});
         }},
        {"result-after-cancel",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           worker->AwaitCancel(task.number);
           worker->Say(protocol::Result{.task = task.number});
         }},
        {"deaf",  // To CANCEL.
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           Hang();
         }},
        {"chatter",  // Goes on saying that it is alive.
         [](ProcessEnd* worker, const Task& task) {
           for (;;) {
             worker->Say(protocol::Final{.task = task.number, .from = 1});
           }
         }},
        {"exit-in-task", [](ProcessEnd*, const Task&) { _exit(4); }},
        {"close",
         [](ProcessEnd* worker, const Task&) {
           worker->Close();
           Hang();
         }},
        {"fail-and-exit",
         [](ProcessEnd* worker, const Task& task) {
           worker->SayBytes(
               FailedText(task.number, "'out of memory'\non \"device 0\""));
           _exit(5);
         }},
        {"exit-and-leave-socket",  // To a process of its own.
         [](ProcessEnd*, const Task&) {
           if (fork() != 0) _exit(4);
           Hang();
         }},
        {"unknown-kind",
         [](ProcessEnd* worker, const Task&) {
           worker->SayBytes(std::string(8, '\x7f'));
         }},
        {"text",
         [](ProcessEnd* worker, const Task&) { worker->SayBytes("hi"); }},
        {"long-message",
         [](ProcessEnd* worker, const Task&) {
           worker->SayBytes(std::string(protocol::kLongestMessage + 1, 'x'));
         }},
        {"short-result",
         [](ProcessEnd* worker, const Task&) {
           worker->SayBytes(std::string("\x05\0\0\0ab", 6));
         }},
        {"other-task",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number + 1, .from = 0});
         }},
        {"final-grows",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 1});
           worker->Say(protocol::Final{.task = task.number, .from = 2});
         }},
        {"final-below-0",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = -1});
         }},
        {"result-too-soon",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 1});
           worker->Say(
               protocol::Result{.task = task.number, .samples = task.indices});
         }},
        {"fewer-samples",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           worker->Say(protocol::Result{.task = task.number,
                                        .samples = task.indices - 1});
         }},
        {"tell-next",  // Not a fault: its loss is what is likely to come next.
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           worker->Say(protocol::Result{
               .task = task.number,
               .samples = task.indices,
               .loss = static_cast<double>(task.next_first_batch)});
         }},
        {"log",  // Not a fault: 1 and then 2 as "a", 3 as "b".
         [](ProcessEnd* worker, const Task& task) {
           worker->SayBytes(LogText(task.number, 1, "a"));
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           worker->SayBytes(LogText(task.number, 3, "b"));
           worker->SayBytes(LogText(task.number, 2, "a"));
           worker->Say(
               protocol::Result{.task = task.number, .samples = task.indices});
         }},
        {"log-once",  // Nor this: in the first task only.
         [](ProcessEnd* worker, const Task& task) {
           if (task.number == 1) worker->SayBytes(LogText(1, 1, "a"));
           worker->Say(protocol::Final{.task = task.number, .from = 0});
           worker->Say(
               protocol::Result{.task = task.number, .samples = task.indices});
         }},
        {"log-no-name",
         [](ProcessEnd* worker, const Task& task) {
           worker->SayBytes(LogText(task.number, 1, "a b"));
         }},
        {"log-too-much",
         [](ProcessEnd* worker, const Task& task) {
           for (int i = 0; i < 65; ++i) {
             worker->SayBytes(LogText(task.number, 1, "v" + std::to_string(i)));
           }
         }},
        {"log-short",
         [](ProcessEnd* worker, const Task& task) {
           worker->SayBytes(LogText(task.number, 1, "").substr(0, 20));
         }},
        {"log-of-another-task",
         [](ProcessEnd* worker, const Task& task) {
           worker->SayBytes(LogText(task.number + 1, 1, "a"));
         }},
        {"cancelled-unasked",
         [](ProcessEnd* worker, const Task& task) {
           worker->Say(protocol::Cancelled{.task = task.number});
         }},
};

// In each evaluation.
const std::map<std::string,
               std::function<void(ProcessEnd*, const protocol::Evaluate&)>>
    kInEvaluation = {
        {"wait-in-evaluation",  // For CANCEL.
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->AwaitCancel(asked.number);
           worker->Say(protocol::Cancelled{.task = asked.number});
         }},
        {"evaluated-after-cancel",
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->AwaitCancel(asked.number);
           worker->Say(protocol::Evaluated{.task = asked.number});
         }},
        {"exit-in-evaluation",
         [](ProcessEnd*, const protocol::Evaluate&) { _exit(4); }},
        {"no-accuracy",  // Which is no fault.
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->Say(protocol::Evaluated{.task = asked.number,
                                           .samples = asked.samples,
                                           .loss = 0.5,
                                           .accuracy = std::nan("")});
         }},
        {"log-in-evaluation",  // Which is no fault either.
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->SayBytes(LogText(asked.number, 7, "f1"));
           worker->Say(protocol::Evaluated{.task = asked.number,
                                           .samples = asked.samples});
         }},
        {"result-in-evaluation",
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->Say(protocol::Result{.task = asked.number});
         }},
        {"evaluated-fewer",
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->Say(protocol::Evaluated{.task = asked.number,
                                           .samples = asked.samples - 1});
         }},
        {"accuracy-above-1",
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->Say(protocol::Evaluated{.task = asked.number,
                                           .samples = asked.samples,
                                           .accuracy = 1.5});
         }},
        {"evaluated-another",
         [](ProcessEnd* worker, const protocol::Evaluate& asked) {
           worker->Say(protocol::Evaluated{.task = asked.number + 1});
         }},
};

void ServeEvaluations(
    const std::function<void(ProcessEnd*, const protocol::Evaluate&)>& fault,
    ProcessEnd* evaluator) {
  evaluator->Say(protocol::Ready{});
  while (const auto asked = evaluator->NextAsked()) {
    fault(evaluator, std::get<protocol::Evaluate>(*asked));
  }
}

void Serve(const std::string& what) {
  ProcessEnd worker;
  if (const auto fault = kAtStart.find(what); fault != kAtStart.end()) {
    fault->second(&worker);
    Hang();
  }
  if (const auto fault = kInEvaluation.find(what);
      fault != kInEvaluation.end()) {
    return ServeEvaluations(fault->second, &worker);
  }
  const auto fault = kInTask.find(what);
  if (fault == kInTask.end()) _exit(9);
  worker.Say(protocol::Ready{});
  while (const auto asked = worker.NextAsked()) {
    fault->second(&worker, std::get<Task>(*asked));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) _exit(9);
  sluice::Serve(argv[1]);
}

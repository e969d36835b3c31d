#include "bench/exchange_team.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "bench/exchange_link.h"

namespace sluice::bench {
namespace {

// For a round, and for a process to end.
constexpr absl::Duration kDeadline = absl::Minutes(10);

double CpuSecondsOf(pid_t process) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(process, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    Fail("no CPU time of a process");
  }
  return time.tv_sec + time.tv_nsec * 1e-9;
}

}  // namespace

ParameterLayout LayoutOf(const ExchangePlan& plan) {
  TensorSpec tensor;
  tensor.name = "weights";
  tensor.shape = {plan.floats};
  tensor.initializer.value = 1;
  return ParameterLayout({tensor}, plan.shards);
}

void Verify(const ExchangePlan& plan, int64_t round,
            const std::vector<float>& weights) {
  // BF16 has 8 bits of significand, FP16 has 11.
  const float rounding = plan.type == FloatType::kFp32 ? 0 : 0x1p-8f;
  for (int64_t i = 0; i < plan.floats; ++i) {
    const float after = WeightAt(plan.workers, round, i);
    const float before =
        plan.at_once ? WeightAt(plan.workers, round - 1, i) : after;
    const float least = after - rounding * std::abs(after);
    const float most = before + rounding * std::abs(before);
    if (!(least <= weights[i] && weights[i] <= most)) {
      Fail(absl::StrCat("weight ", i, " is ", weights[i], " after round ",
                        round, ", expected ", least, " to ", most));
    }
  }
}

Bodies ProgramSide(const std::string& program) {
  const auto become = [program](const std::string& role) {
    return [program, role](const ExchangePlan& plan, int index,
                           const Control& control) {
      const std::vector<std::string> words = {
          program,
          role,
          absl::StrCat(index),
          absl::StrCat(control.fd()),
          absl::StrCat(plan.workers),
          absl::StrCat(plan.shards),
          absl::StrCat(plan.floats),
          absl::StrCat(plan.chunk_bytes),
          absl::StrCat(plan.at_once ? 1 : 0)};
      std::vector<char*> arguments;
      for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));
      }
      arguments.push_back(nullptr);
      execv(program.c_str(), arguments.data());
      Fail(absl::StrCat("cannot run ", program));
    };
  };
  return {become("shard"), become("worker")};
}

Team::Team(const ExchangePlan& plan, const Bodies& bodies) : plan_(plan) {
  for (int i = 0; i < plan_.shards; ++i) {
    shards_.push_back(Start(bodies.shard, i));
  }
  for (int i = 0; i < plan_.workers; ++i) {
    workers_.push_back(Start(bodies.worker, i));
  }
  for (const Control& shard : shards_) {
    Note port = shard.Receive();
    if (plan_.round_trip > absl::ZeroDuration()) {
      port.number = StartLink(static_cast<int>(port.number));
    }
    for (const Control& worker : workers_) worker.Send(port);
  }
  for (const Control& worker : workers_) worker.Receive();
}

int Team::StartLink(int port) {
  LongLink link(port, plan_.round_trip);
  const pid_t process = fork();
  if (process < 0) Fail("no fork");
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    link.Run();
  }
  links_.push_back(process);
  return link.port();
}

Control Team::Start(const Body& body, int index) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) Fail("no socketpair");
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) Fail("no fork");
  if (process == 0) {
    // A child must not outlive a parent that is killed.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) std::_Exit(1);
    body(plan_, index, Control(ends[1]));
    std::_Exit(0);
  }
  close(ends[1]);
  processes_.push_back(process);
  return Control(ends[0]);
}

Team::~Team() {
  for (const auto* controls : {&workers_, &shards_}) {
    for (const Control& control : *controls) {
      control.Send({.kind = Note::Kind::kStop});
    }
  }
  for (const pid_t process : processes_) {
    int status = 0;
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(kDeadline)));
    waitpid(process, &status, 0);
    alarm(0);  // Else it has ended this process, and so all of them.
    if (status != 0) Fail("a process of the benchmark failed");
  }
  for (const pid_t link : links_) {
    kill(link, SIGKILL);
    waitpid(link, nullptr, 0);
  }
  for (const auto* controls : {&workers_, &shards_}) {
    for (const Control& control : *controls) close(control.fd());
  }
}

Note Team::Round(bool verify) {
  ++round_;
  std::vector<pollfd> polled;
  for (const Control& worker : workers_) {
    worker.Send({.kind = Note::Kind::kGo, .number = round_, .verify = verify});
    polled.push_back({worker.fd(), POLLIN, 0});
  }
  for (const Control& shard : shards_) polled.push_back({shard.fd(), 0, 0});
  Note slowest;
  int pushed = 0, done = 0;
  while (done < plan_.workers) {
    if (poll(polled.data(), polled.size(),
             static_cast<int>(absl::ToInt64Milliseconds(kDeadline))) <= 0) {
      Fail(absl::StrCat("a round has not ended after ",
                        absl::FormatDuration(kDeadline)));
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      const pollfd& one = polled[i];
      if (one.revents == 0) continue;
      if (i >= workers_.size()) Fail("a shard has ended");
      const Note note = Control(one.fd).Receive();
      if (note.kind == Note::Kind::kDone) {
        ++done;
        slowest.push_seconds =
            std::max(slowest.push_seconds, note.push_seconds);
        slowest.pull_seconds =
            std::max(slowest.pull_seconds, note.pull_seconds);
        slowest.seconds = std::max(slowest.seconds, note.seconds);
      } else if (++pushed == plan_.workers) {
        const Note commit = {.kind = Note::Kind::kCommit, .number = round_};
        for (const Control& shard : shards_) shard.Send(commit);
        for (const Control& s : shards_) s.Receive();
        const Note applied = {.kind = Note::Kind::kApplied, .number = round_};
        for (const Control& worker : workers_) worker.Send(applied);
      }
    }
  }
  return slowest;
}

double Team::CpuSeconds() const {
  double sum = 0;
  for (const pid_t process : processes_) sum += CpuSecondsOf(process);
  return sum;
}

}  // namespace sluice::bench

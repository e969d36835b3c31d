// ps-lite's part of bench/exchange.cc: workers push a gradient and pull weights
// in parts of a chunk each, servers apply a part when it comes and answer with
// the weights from where they lie. bench/peers/ps_lite.sh compiles it with the
// sources of dmlc/ps-lite, or of what has grown from it.
//
//   PROGRAM worker|shard INDEX FD WORKERS SHARDS FLOATS CHUNK_BYTES AT_ONCE
//
// FD is the control connection (bench/exchange_peer.h). In turn: push all
// parts, wait, pull all parts. At once: a call for each part pushes it and
// brings its weights, where the folder's ps-lite has such a call (ZPushPull),
// or else two calls that are under way at the same time.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "bench/exchange_peer.h"
#include "common/rpc/malloc_tuning.h"
#include "ps/ps.h"

namespace sluice::bench {
namespace {

struct Plan {
  int workers, shards;
  int64_t floats, chunk_floats;
  bool at_once;
};

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// Of `floats`, those of shard s, cut as evenly as Sluice does.
int64_t BeginOf(const Plan& plan, int s) {
  return plan.floats * s / plan.shards;
}

void SetUp(const char* role, const Plan& plan) {
  // All processes of a run have one parent; each has its own port.
  const int port = 10000 + getppid() % 20000;
  setenv("DMLC_ROLE", role, 1);
  setenv("DMLC_NUM_WORKER", std::to_string(plan.workers).c_str(), 1);
  setenv("DMLC_NUM_SERVER", std::to_string(plan.shards).c_str(), 1);
  setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
  setenv("DMLC_PS_ROOT_PORT", std::to_string(port).c_str(), 1);
  setenv("DMLC_NODE_HOST", "127.0.0.1", 1);
}

// Starts the process that ps-lite's others find each other by.
pid_t StartScheduler(const Plan& plan) {
  const pid_t parent = getpid();
  SetUp("scheduler", plan);
  const pid_t scheduler = fork();
  if (scheduler != 0) return scheduler;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);
  ps::Start(0);
  ps::Finalize(0, true);
  std::_Exit(0);
}

// ---- The server ----

template <typename Meta>
bool WantsWeights(const Meta& meta) {
  if constexpr (requires { meta.pull; }) {
    return meta.pull;
  } else {
    return !meta.push;
  }
}

void RunServer(const Plan& plan, int index, const Control& control) {
  control.Send({.kind = Note::Kind::kPort});
  const pid_t scheduler = index == 0 ? StartScheduler(plan) : 0;
  SetUp("server", plan);
  ps::Start(0);
  const int rank = ps::MyRank();
  const int64_t count = BeginOf(plan, rank + 1) - BeginOf(plan, rank);
  std::vector<float> weights(count, 1.0f);
  const ps::Key first =
      ps::Postoffice::Get()->GetServerKeyRanges()[rank].begin();
  auto* const server = new ps::KVServer<float>(0);
  const float factor = kRate / static_cast<float>(plan.workers);
  server->set_request_handle([&](const ps::KVMeta& meta,
                                 const ps::KVPairs<float>& data,
                                 ps::KVServer<float>* from) {
    const int64_t begin =
        static_cast<int64_t>(data.keys[0] - first) * plan.chunk_floats;
    const int64_t size = std::min(plan.chunk_floats, count - begin);
    float* const part = &weights[begin];
    if (meta.push) {
      const float* const gradient = data.vals.data();
      for (int64_t i = 0; i < size; ++i) part[i] -= factor * gradient[i];
    }
    ps::KVPairs<float> answer;
    if (WantsWeights(meta)) {
      answer.keys = data.keys;
      answer.vals.reset(part, size, [](float*) {});
      answer.lens = ps::SArray<int>(1, static_cast<int>(size));
    }
    from->Response(meta, answer);
  });
  while (control.Receive().kind == Note::Kind::kCommit) {
    control.Send({.kind = Note::Kind::kApplied});
  }
  ps::Finalize(0, true);
  // The next run's needs its port.
  if (scheduler > 0) waitpid(scheduler, nullptr, 0);
}

// ---- The worker ----

struct Part {
  ps::SArray<ps::Key> key;
  ps::SArray<int> length;
  ps::SArray<float> gradient, weights;  // Of the vectors, not copied.
};

template <typename Client>
void PushAndPull(Client* client, Part* part, std::vector<int>* calls) {
  if constexpr (requires {
                  client->ZPushPull(part->key, part->gradient, &part->weights,
                                    &part->length);
                }) {
    calls->push_back(client->ZPushPull(part->key, part->gradient,
                                       &part->weights, &part->length));
  } else {
    calls->push_back(client->ZPush(part->key, part->gradient, part->length));
    calls->push_back(client->ZPull(part->key, &part->weights, &part->length));
  }
}

class Worker {
 public:
  Worker(const Plan& plan, int index)
      : plan_(plan), gradient_(plan.floats), weights_(plan.floats) {
    for (int64_t i = 0; i < plan.floats; ++i) {
      gradient_[i] = GradientAt(index, i);
    }
    const auto& ranges = ps::Postoffice::Get()->GetServerKeyRanges();
    for (int s = 0; s < plan.shards; ++s) {
      ps::Key key = ranges[s].begin();
      for (int64_t at = BeginOf(plan, s); at < BeginOf(plan, s + 1); ++key) {
        const int64_t size =
            std::min(plan.chunk_floats, BeginOf(plan, s + 1) - at);
        Part& part = parts_.emplace_back();
        part.key = ps::SArray<ps::Key>(1, key);
        part.length = ps::SArray<int>(1, static_cast<int>(size));
        part.gradient.reset(&gradient_[at], size, [](float*) {});
        part.weights.reset(&weights_[at], size, [](float*) {});
        at += size;
      }
    }
  }

  void Round(const Note& go, const Control& control) {
    std::vector<int> calls;
    const auto wait = [&] {
      for (const int call : calls) client_.Wait(call);
      calls.clear();
    };
    const double start = Seconds();
    const auto since_start = [&] { return Seconds() - start; };
    Note done = {.kind = Note::Kind::kDone};
    if (plan_.at_once) {
      for (Part& part : parts_) PushAndPull(&client_, &part, &calls);
      wait();
    } else {
      for (const Part& part : parts_) {
        calls.push_back(client_.ZPush(part.key, part.gradient, part.length));
      }
      wait();
      done.push_seconds = since_start();
      if (plan_.workers > 1) {  // Waits until the others' are applied as well.
        control.Send({.kind = Note::Kind::kPushed});
        control.Receive();
      }
      for (Part& part : parts_) {
        calls.push_back(client_.ZPull(part.key, &part.weights, &part.length));
      }
      wait();
      done.pull_seconds = since_start() - done.push_seconds;
    }
    done.seconds = since_start();
    if (go.verify) Verify(go.number);
    control.Send(done);
  }

 private:
  // At once, the others' gradients of this round may be missing.
  void Verify(int64_t round) const {
    for (int64_t i = 0; i < plan_.floats; ++i) {
      const float after = WeightAt(plan_.workers, round, i);
      const float before =
          plan_.at_once ? WeightAt(plan_.workers, round - 1, i) : after;
      if (!(after <= weights_[i] && weights_[i] <= before)) {
        Fail("ps-lite: weight " + std::to_string(i) + " is " +
             std::to_string(weights_[i]) + " after round " +
             std::to_string(round) + ", expected " + std::to_string(after));
      }
    }
  }

  const Plan plan_;
  std::vector<float> gradient_, weights_;
  std::vector<Part> parts_;
  ps::KVWorker<float> client_{0, 0};
};

void RunWorker(const Plan& plan, int index, const Control& control) {
  for (int s = 0; s < plan.shards; ++s) control.Receive();
  SetUp("worker", plan);
  ps::Start(0);
  {
    Worker worker(plan, index);
    control.Send({.kind = Note::Kind::kReady});
    while (true) {
      const Note note = control.Receive();
      if (note.kind == Note::Kind::kStop) break;
      worker.Round(note, control);
    }
  }
  ps::Finalize(0, true);
}

int Main(char** argv) {
  const std::string role = argv[1];
  const int index = std::atoi(argv[2]);
  const Control control(std::atoi(argv[3]));
  const Plan plan = {.workers = std::atoi(argv[4]),
                     .shards = std::atoi(argv[5]),
                     .floats = std::atoll(argv[6]),
                     .chunk_floats = std::atoll(argv[7]) / 4,
                     .at_once = std::atoi(argv[8]) != 0};
  TuneMallocForChunks();
  role == "worker" ? RunWorker(plan, index, control)
                   : RunServer(plan, index, control);
  std::_Exit(0);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  if (argc != 9) sluice::bench::Fail("ps_lite is started by bench exchange");
  return sluice::bench::Main(argv);
}

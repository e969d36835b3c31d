// How fast do gradients and weights move between workers and shards, compared
// with the sockets underneath?
//
// Expected from arithmetic: on loopback any program has its bytes copied into
// and out of the kernel, and that is most of the time. Sluice adds a pass or
// two over bytes in the cache (checksum, check for NaN, the copy to the place
// where a gradient waits for its commit). So it should reach at least 0.75 of
// what a minimal program over plain sockets reaches in the same run, at 64 MiB.
// A call with 4 KiB costs a few more wake-ups than on a plain socket, 60 to 90
// us.
//
// A row's rate is that of each direction: the bytes of the vector divided by
// the time in which it was pushed, applied, pulled and stored. The two sides
// take turns, in an order drawn for each round.
//
// BF16 has half of FP32's bytes, FP16 has 17/32. So a vector takes less time,
// but must be converted. These rows are compared with FP32, in turn with it,
// times the quotient of the bytes. Their rates count the vector's bytes as
// FP32.
//
// With --stream a minimal program takes turns too that moves the chunks over
// one gRPC stream: what gRPC itself takes, of one worker and one shard, in
// turn.
//
// With --shared-memory worker and shard map each other's memory, and calls say
// only where floats lie. A minimal program that does so moves each float three
// times: copied and checked, applied, copied away. Sluice has the same passes,
// so of 64 MiB it should reach 0.8 of that program's rate; a few calls of gRPC
// are the rest.
//
// With --tls the same is measured over TLS, beside Sluice in plain text and
// beside a minimal program that moves the chunks over one gRPC stream with TLS.
// Each byte is then encrypted and decrypted (AES-GCM, 2 to 5 GB/s for a core)
// and copied once more on each side, so plain text's rate is halved at most:
// 0.4 of it is expected, and 0.8 of the minimal program's.

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/exchange_memory.h"
#include "bench/exchange_plain.h"
#include "bench/exchange_sluice.h"
#include "bench/exchange_stream.h"
#include "bench/exchange_team.h"
#include "bench/report.h"
#include "bench/scratch_folder.h"
#include "common/clock.h"
#include "common/process/lock_order.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/tls/certificate_folder.h"
#include "common/wire/float_code.h"
#include "third_party/spdlog.h"

namespace sluice::bench {
namespace {

struct Options {
  bool json = false;
  bool tiny = false;
  bool untuned_malloc = false;
  bool tls = false;
  bool stream = false;
  bool shared_memory = false;
  std::string beside;  // A program of another system. Empty: none.
  double round_trip_ms = 0;
  std::string congestion;  // Empty: the machine's default.
  double seconds = 1.5;    // Time of measuring, for each row and side.
  int64_t chunk_kib = 1024;
  std::vector<int64_t> kib = {4, 1 << 10, 16 << 10, 64 << 10, 256 << 10};
  std::vector<int> pairs = {1, 2};
};

// Gives this process and its children their own loopback, on which `algorithm`
// is the default. gRPC has no option for it.
void SetCongestionControl(const std::string& algorithm) {
  ifreq loopback = {};
  std::strncpy(loopback.ifr_name, "lo", IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  if (unshare(CLONE_NEWNET) != 0 ||
      ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &loopback) != 0) {
    Fail("no network namespace of its own; that takes root");
  }
  std::ofstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  file << algorithm << std::flush;
  if (!file) {
    Fail(absl::StrCat("the kernel refuses ", algorithm, " in a namespace; see ",
                      "/proc/sys/net/ipv4/tcp_allowed_congestion_control"));
  }
}

std::string CongestionControl() {
  char name[16] = {};
  socklen_t size = sizeof(name);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size);
  close(fd);
  return name;
}

// The results of one side's turns.
struct Side {
  explicit Side(const ExchangePlan& plan, const Bodies& bodies)
      : team(std::make_unique<Team>(plan, bodies)) {}

  void Turn(bool verify) { rounds.push_back(team->Round(verify)); }

  // The `share` quantile of `value` over the rounds.
  double Quantile(double share, double Note::*value) const {
    std::vector<double> values;
    for (const Note& round : rounds) values.push_back(round.*value);
    const size_t at =
        std::min(values.size() - 1, static_cast<size_t>(share * values.size()));
    std::nth_element(values.begin(), values.begin() + at, values.end());
    return values[at];
  }

  std::unique_ptr<Team> team;
  std::vector<Note> rounds;
  double cpu_seconds = 0;
};

void MeasureInTurns(int64_t bytes, const Options& options,
                    const std::vector<Side*>& sides) {
  // A side that always came after another with the same code, say, would always
  // find it in the caches.
  std::vector<Side*> order = sides;
  std::minstd_rand random;
  const auto turns = [&](bool verify) {
    std::shuffle(order.begin(), order.end(), random);
    for (Side* side : order) side->Turn(verify);
  };
  // Two rounds of warm-up touch the memory and open TCP's windows.
  const int warm_up = options.tiny ? 1 : bytes < 16 << 20 ? 50 : 2;
  for (int i = 0; i < warm_up; ++i) turns(i == 0);
  for (Side* side : sides) {
    side->rounds.clear();
    side->cpu_seconds = -side->team->CpuSeconds();
  }
  const size_t least = options.tiny ? 2 : 9;
  double seconds = 0;
  while (sides[0]->rounds.size() < least ||
         (!options.tiny && seconds < options.seconds)) {
    turns(false);
    seconds += sides[0]->rounds.back().seconds;
  }
  for (Side* side : sides) side->cpu_seconds += side->team->CpuSeconds();
  turns(true);
  for (Side* side : sides) side->rounds.pop_back();
}

std::string SizeName(int64_t bytes) {
  return bytes < 1 << 20 ? absl::StrCat(bytes >> 10, " KiB")
                         : absl::StrCat(bytes >> 20, " MiB");
}

// What Sluice is compared with.
struct Peer {
  std::string name;
  const Side& side;
};

void AddRates(const ExchangePlan& plan, const std::string& name,
              const Side& sluice, const Peer& peer, Report* report) {
  const double moved = plan.floats * sizeof(float) * plan.workers;
  const auto rate = [&](const Side& side, double Note::*seconds) {
    return moved / side.Quantile(0.5, seconds) / 1e9;
  };
  Row row = {.what = name,
             .unit = "GB/s each way",
             .expected_from = peer.name,
             .expected = rate(peer.side, &Note::seconds),
             .measured = rate(sluice, &Note::seconds)};
  // CPU seconds per GB, both directions counted.
  const auto cpu = [&](const Side& side) {
    return side.cpu_seconds / (2 * moved * side.rounds.size() / 1e9);
  };
  row.more = {{"cpu_s_per_gb", cpu(sluice)},
              {"beside_cpu_s_per_gb", cpu(peer.side)}};
  if (!plan.at_once) {
    row.more["push_gb_s"] = rate(sluice, &Note::push_seconds);
    row.more["pull_gb_s"] = rate(sluice, &Note::pull_seconds);
    row.more["beside_push_gb_s"] = rate(peer.side, &Note::push_seconds);
    row.more["beside_pull_gb_s"] = rate(peer.side, &Note::pull_seconds);
  }
  report->Add(row);
}

void AddLatency(const std::string& name, double Note::*seconds,
                const Side& sluice, const Peer& peer, Report* report) {
  const auto micros = [&](const Side& side, double share) {
    return side.Quantile(share, seconds) * 1e6;
  };
  report->Add({.what = name,
               .unit = "calls/s",
               .expected_from = peer.name,
               .expected = 1e6 / micros(peer.side, 0.5),
               .measured = 1e6 / micros(sluice, 0.5),
               .more = {{"p50_us", micros(sluice, 0.5)},
                        {"p99_us", micros(sluice, 0.99)},
                        {"beside_p50_us", micros(peer.side, 0.5)},
                        {"beside_p99_us", micros(peer.side, 0.99)}}});
}

void AddRows(const ExchangePlan& plan, const Side& sluice, const Peer& peer,
             Report* report) {
  const int64_t bytes = plan.floats * sizeof(float);
  const std::string pairs = absl::StrCat(plan.workers, "x", plan.shards);
  const std::string size = SizeName(bytes);
  const std::string name =
      absl::StrCat(pairs, plan.at_once ? " at once " : " in turn ", size);
  if (bytes >= 1 << 20) return AddRates(plan, name, sluice, peer, report);
  AddLatency(name, &Note::seconds, sluice, peer, report);
  if (plan.at_once) return;
  AddLatency(absl::StrCat(pairs, " push ", size), &Note::push_seconds, sluice,
             peer, report);
  AddLatency(absl::StrCat(pairs, " commit, pull ", size), &Note::pull_seconds,
             sluice, peer, report);
}

void Compare(const ExchangePlan& plan, const Options& options, Report* report) {
  Side sluice(plan, SluiceSide());
  Side plain(plan, PlainSide());
  std::vector<Side*> sides = {&sluice, &plain};
  std::optional<Side> other;
  if (!options.beside.empty()) {
    sides.push_back(&other.emplace(plan, ProgramSide(options.beside)));
  }
  std::optional<Side> stream;
  if (options.stream && plan.workers == 1 && !plan.at_once) {
    sides.push_back(&stream.emplace(plan, StreamSide()));
  }
  MeasureInTurns(plan.floats * sizeof(float), options, sides);
  AddRows(plan, sluice, {"plain sockets", plain}, report);
  if (stream) AddRows(plan, sluice, {"a gRPC stream", *stream}, report);
  if (!other) return;
  AddRows(plan, sluice,
          {std::filesystem::path(options.beside).filename(), *other}, report);
}

// Vectors in 16 bits, compared with FP32.
void CompareTypes(ExchangePlan plan, const Options& options, Report* report) {
  Side fp32(plan, SluiceSide());
  plan.type = FloatType::kBf16;
  Side bf16(plan, SluiceSide());
  plan.type = FloatType::kFp16;
  Side fp16(plan, SluiceSide());
  const int64_t bytes = plan.floats * sizeof(float);
  MeasureInTurns(bytes, options, {&fp32, &bf16, &fp16});
  const double before = fp32.Quantile(0.5, &Note::seconds);
  const auto add = [&](FloatType type, const Side& side) {
    const double seconds = side.Quantile(0.5, &Note::seconds);
    const double fewer = static_cast<double>(bytes) /
                         static_cast<double>(EncodedBytes(type, plan.floats));
    const double moved = static_cast<double>(bytes) * plan.workers / 1e9;
    report->Add(
        {.what = absl::StrCat(plan.workers, "x", plan.shards, " in turn ",
                              SizeName(bytes), ", ", NameOf(type)),
         .unit = "GB/s each way",
         .expected_from = "FP32 by bytes",
         .expected = moved / before * fewer,
         .measured = moved / seconds,
         .more = {{"of_fp32", before / seconds},
                  {"seconds", seconds},
                  {"fp32_seconds", before}}});
  };
  add(FloatType::kBf16, bf16);
  add(FloatType::kFp16, fp16);
}

// Over TLS, compared with plain text and with a minimal program over TLS.
void CompareTls(const ExchangePlan& plan, const Options& options,
                const std::string& certificates, Report* report) {
  Side tls(plan, SluiceSide(certificates));
  Side plain_text(plan, SluiceSide());
  Side stream(plan, StreamSide(certificates));
  const int64_t bytes = plan.floats * sizeof(float);
  MeasureInTurns(bytes, options, {&tls, &plain_text, &stream});
  const double moved = static_cast<double>(bytes) / 1e9;
  const auto add = [&](const std::string& beside, const Side& side) {
    report->Add({.what = absl::StrCat("1x1 in turn ", SizeName(bytes), ", TLS"),
                 .unit = "GB/s each way",
                 .expected_from = beside,
                 .expected = moved / side.Quantile(0.5, &Note::seconds),
                 .measured = moved / tls.Quantile(0.5, &Note::seconds)});
  };
  add("plain text", plain_text);
  add("a gRPC stream over TLS", stream);
}

// With memory that both map, compared with gRPC and with a minimal program.
void CompareMemory(ExchangePlan plan, const Options& options, Report* report) {
  Side sent(plan, SluiceSide());
  plan.shares_memory = true;
  Side shared(plan, SluiceSide());
  Side least(plan, MemorySide(plan));
  const int64_t bytes = plan.floats * sizeof(float);
  MeasureInTurns(bytes, options, {&shared, &sent, &least});
  const double moved = static_cast<double>(bytes) / 1e9;
  const auto add = [&](const std::string& beside, const Side& side) {
    const auto cpu = [&](const Side& of) {
      return of.cpu_seconds /
             (2 * moved * static_cast<double>(of.rounds.size()));
    };
    report->Add(
        {.what = absl::StrCat("1x1 in turn ", SizeName(bytes), ", memory"),
         .unit = "GB/s each way",
         .expected_from = beside,
         .expected = moved / side.Quantile(0.5, &Note::seconds),
         .measured = moved / shared.Quantile(0.5, &Note::seconds),
         .more = {
             {"p50_us", shared.Quantile(0.5, &Note::seconds) * 1e6},
             {"push_us", shared.Quantile(0.5, &Note::push_seconds) * 1e6},
             {"beside_p50_us", side.Quantile(0.5, &Note::seconds) * 1e6},
             {"beside_push_us", side.Quantile(0.5, &Note::push_seconds) * 1e6},
             {"cpu_s_per_gb", cpu(shared)},
             {"beside_cpu_s_per_gb", cpu(side)}}});
  };
  add("gRPC alone", sent);
  add("a minimal program", least);
}

void RunMemory(const Options& options, Report* report) {
  for (const int64_t kib : options.kib) {
    CompareMemory({.floats = (kib << 10) / static_cast<int64_t>(sizeof(float)),
                   .chunk_bytes = options.chunk_kib << 10},
                  options, report);
  }
}

void RunTls(const Options& options, Report* report) {
  const ScratchFolder folder("/tmp", "sluice_certificates");
  const absl::Status made = MakeCertificates(folder.path(),
                                             {.job = "bench",
                                              .hosts = {"localhost"},
                                              .lifetime = absl::Hours(24),
                                              .ca_lifetime = absl::Hours(48)},
                                             Clock::Real()->Now());
  if (!made.ok()) Fail(std::string(made.message()));
  for (const int64_t kib : options.kib) {
    const ExchangePlan plan = {
        .floats = (kib << 10) / static_cast<int64_t>(sizeof(float)),
        .chunk_bytes = options.chunk_kib << 10};
    CompareTls(plan, options, folder.path(), report);
  }
}

void RunPlainText(const Options& options, Report* report) {
  for (const int pairs : options.pairs) {
    for (const bool at_once : {false, true}) {
      for (const int64_t kib : options.kib) {
        const ExchangePlan plan = {
            .workers = pairs,
            .shards = pairs,
            .floats = (kib << 10) / static_cast<int64_t>(sizeof(float)),
            .at_once = at_once,
            .chunk_bytes = options.chunk_kib << 10,
            .round_trip = absl::Milliseconds(options.round_trip_ms)};
        Compare(plan, options, report);
        if (!at_once && kib >= 1024 && options.beside.empty())
          CompareTypes(plan, options, report);
      }
    }
  }
}

void Run(const Options& options) {
  spdlog::set_level(spdlog::level::warn);
  if (!options.untuned_malloc) TuneMallocForChunks();
  LeaveLockOrderUnwatched();
  PollQueuesApart();
  if (!options.congestion.empty()) SetCongestionControl(options.congestion);
  Report report("exchange",
                "How fast do gradients and weights move between workers and "
                "shards, beside plain sockets?");
  if (options.tls) {
    RunTls(options, &report);
  } else if (options.shared_memory) {
    RunMemory(options, &report);
  } else {
    RunPlainText(options, &report);
  }
  report.Note(absl::StrCat(
      "WxS: W workers and S shards, each a process; TCP over loopback with ",
      CongestionControl(), " on both sides; chunks of ", options.chunk_kib,
      " KiB; glibc's malloc ",
      options.untuned_malloc ? "as it is" : "tuned as in the daemons"));
  report.Print(options.json);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Speed of pushes and pulls, beside plain sockets");
  sluice::bench::Options options;
  app.add_flag("--json", options.json, "Print the results as JSON");
  app.add_flag("--tiny", options.tiny, "Small and few, for tests");
  auto* tls =
      app.add_flag("--tls", options.tls,
                   "Over TLS, beside plain text and a gRPC stream over TLS");
  auto* stream =
      app.add_flag("--stream", options.stream, "Beside a gRPC stream as well");
  app.add_flag("--shared-memory", options.shared_memory,
               "With memory that worker and shard share, beside gRPC and a "
               "minimal program over shared memory")
      ->excludes(tls)
      ->excludes(stream);
  tls->excludes(stream);
  app.add_flag("--untuned-malloc", options.untuned_malloc,
               "Leave malloc as it is; the daemons tune it");
  app.add_option("--beside", options.beside,
                 "Another system's program, such as bench/peers/ps_lite.sh "
                 "builds");
  app.add_option("--round-trip-ms", options.round_trip_ms,
                 "Length of the way between workers and shards and back")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--congestion", options.congestion,
                 "TCP congestion control of both sides, in a network "
                 "namespace of its own (root); default: the machine's");
  app.add_option("--seconds", options.seconds,
                 "Seconds of measuring, for each row and side")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--chunk-kib", options.chunk_kib, "limits.chunk_bytes / 1024")
      ->check(CLI::PositiveNumber);
  app.add_option("--kib", options.kib, "KiB of weights to exchange")
      ->check(CLI::PositiveNumber);
  app.add_option("--pairs", options.pairs, "Workers, and as many shards")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.tiny) options.kib = {4, 1024};
  sluice::bench::Run(options);
  return 0;
}

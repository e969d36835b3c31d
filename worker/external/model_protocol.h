#ifndef SLUICE_WORKER_EXTERNAL_MODEL_PROTOCOL_H_
#define SLUICE_WORKER_EXTERNAL_MODEL_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

// The messages between a worker, or an evaluator, and a model process, as they
// lie on their socket: one message is one packet of a SOCK_SEQPACKET socket,
// little-endian, without padding. docs/model_process.md says what they mean and
// what follows from one that was not expected.
//
// A process in C++17 can include this header, which needs nothing else.
namespace sluice::model_protocol {

// The one that this header describes.
inline constexpr uint32_t kProtocol = 1;
// Names the socket's number in the process's environment.
inline constexpr char kSocketVariable[] = "SLUICE_MODEL_SOCKET";
// Longest packet that the process may send, in bytes.
inline constexpr int64_t kLongestMessage = 4096;

enum class Kind : uint32_t {
  kHello = 1,       // worker to process
  kReady = 2,       // process to worker
  kTask = 3,        // worker to process
  kFinal = 4,       // process to worker
  kResult = 5,      // process to worker
  kFailed = 6,      // process to worker
  kCancel = 7,      // worker to process
  kCancelled = 8,   // process to worker
  kStop = 9,        // worker to process
  kEvaluate = 10,   // evaluator to process
  kEvaluated = 11,  // process to evaluator
  kLog = 12,        // process to worker or evaluator
};

// With it come the descriptors of `weights` + `gradients` + 2 memfds: of the
// weights, the gradients, the sample indices and the description.
struct Hello {
  Kind kind = Kind::kHello;
  uint32_t protocol = kProtocol;
  uint32_t weights = 0;    // Buffers of weights.
  uint32_t gradients = 0;  // Buffers of gradients.
};
static_assert(sizeof(Hello) == 16);

// What the program has beside the job that all of a run must have follows, up
// to the end of the packet: kMostOwnInput printable characters of ASCII, or
// none.
struct Ready {
  Kind kind = Kind::kReady;
  uint32_t protocol = kProtocol;
};
static_assert(sizeof(Ready) == 8);
inline constexpr size_t kMostOwnInput = 256;

// The memfd of indices then holds 64-bit integers: the sizes of the `batches`
// mini-batches and of the `next_batches` that are likely to come next, and then
// the `indices` and `next_indices` samples that they consist of.
struct Task {
  Kind kind = Kind::kTask;
  uint32_t weights = 0;   // Number of the buffer to read.
  uint32_t gradient = 0;  // Number of the buffer to write.
  uint32_t batches = 0;   // 1 or more.
  uint64_t number = 0;    // From 1.
  int64_t first_batch = 0;
  double rate = 0;  // Of the steps of SGD between the mini-batches.
  int64_t indices = 0;
  int64_t next_indices = 0;
  int64_t next_first_batch = 0;
  uint32_t next_batches = 0;  // 0: nothing is known of them.
  uint32_t reserved = 0;
};
static_assert(sizeof(Task) == 72);

struct Final {
  Kind kind = Kind::kFinal;
  uint32_t reserved = 0;
  uint64_t task = 0;
  int64_t from = 0;  // Floats; the gradient from here on is final.
};
static_assert(sizeof(Final) == 24);

struct Result {
  Kind kind = Kind::kResult;
  uint32_t reserved = 0;
  uint64_t task = 0;
  int64_t samples = 0;
  double loss = 0;  // Mean over the samples.
};
static_assert(sizeof(Result) == 32);

// A text in UTF-8 follows, up to the end of the packet.
struct Failed {
  Kind kind = Kind::kFailed;
  uint32_t reserved = 0;
  uint64_t task = 0;  // 0: before it was ready.
};
static_assert(sizeof(Failed) == 16);

struct Cancel {
  Kind kind = Kind::kCancel;
  uint32_t reserved = 0;
  uint64_t task = 0;
};
static_assert(sizeof(Cancel) == 16);

struct Cancelled {
  Kind kind = Kind::kCancelled;
  uint32_t reserved = 0;
  uint64_t task = 0;
};
static_assert(sizeof(Cancelled) == 16);

struct Stop {
  Kind kind = Kind::kStop;
  uint32_t reserved = 0;
};
static_assert(sizeof(Stop) == 8);

// The other thing that is asked of a process: a task without a gradient.
struct Evaluate {
  Kind kind = Kind::kEvaluate;
  uint32_t weights = 0;  // Number of the buffer to read.
  uint64_t number = 0;   // As a task's.
  int64_t version = 0;   // Whose weights they are.
  int64_t samples = 0;   // Of the test split.
};
static_assert(sizeof(Evaluate) == 32);

struct Evaluated {
  Kind kind = Kind::kEvaluated;
  uint32_t reserved = 0;
  uint64_t task = 0;
  int64_t samples = 0;
  double loss = 0;      // Mean over the samples.
  double accuracy = 0;  // Share of them, 0 to 1; NaN: there is none.
};
static_assert(sizeof(Evaluated) == 40);

// A name in UTF-8 follows, up to the end of the packet.
struct Log {
  Kind kind = Kind::kLog;
  uint32_t reserved = 0;
  uint64_t task = 0;
  double value = 0;
};
static_assert(sizeof(Log) == 24);

}  // namespace sluice::model_protocol

#endif  // SLUICE_WORKER_EXTERNAL_MODEL_PROTOCOL_H_

#ifndef SLUICE_PS_SERVER_SHARD_SHARED_LINKS_H_
#define SLUICE_PS_SERVER_SHARD_SHARED_LINKS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/process/shared_memory.h"
#include "common/wire/chunk_header.h"
#include "ps_server/shard/shared_chunks.h"

namespace sluice {

// What a process of this host shares with the shard, for as long as their
// socket lasts: memory in which it makes gradients. Nobody can change its size,
// but its owner what it holds, at any time.
//
// Immutable, therefore thread-safe.
class SharedLink {
 public:
  SharedLink(std::string holder, std::vector<SharedView> memories)
      : holder_(std::move(holder)), memories_(std::move(memories)) {}

  // Whose certificate it is for (Caller::key).
  const std::string& holder() const { return holder_; }
  // kInvalidArgument: the link has no such floats.
  absl::StatusOr<absl::Span<const uint8_t>> Find(
      const SharedFloats& floats) const;

 private:
  const std::string holder_;
  const std::vector<SharedView> memories_;
};

// The links of one shard. A Unix socket in the abstract namespace takes whoever
// says a secret that Invite has drawn: it hands over its memory and gets the
// shard's, to be read. A link ends with its socket, so with its process.
//
// Thread-safe.
class SharedLinks {
 public:
  // Invitations that nobody has taken yet; then the oldest is forgotten.
  static constexpr size_t kMostInvited = 1024;
  // Links at once; whoever comes then is closed, and sends its floats.
  static constexpr size_t kMostLinks = 4096;

  // `weights` must outlive it. A guest's memories may have `most_bytes` each.
  // Errors are the system's.
  static absl::StatusOr<std::unique_ptr<SharedLinks>> Open(
      const SharedChunks* weights, int64_t most_bytes);
  // Ends all links; the memory of those that are in use stays until then.
  ~SharedLinks();

  // What whoever has `holder`'s certificate needs to link: the socket's name,
  // and a secret that counts once.
  std::string Invite(absl::string_view holder);
  const std::string& socket_name() const { return name_; }

  // nullptr: there is no such link, or not any more, or it is another holder's.
  std::shared_ptr<const SharedLink> Find(uint64_t link,
                                         absl::string_view holder) const;
  int count() const;

 private:
  struct Guest;

  SharedLinks(const SharedChunks* weights, int64_t most_bytes, std::string name,
              Descriptor socket, Descriptor stop, Descriptor events);
  void Serve();
  void Accept();
  // Closes the stranger that came first, where there are too many.
  void MakeRoom();
  // What came on the socket of a guest; false: it is to be closed.
  bool Hear(Guest* guest);

  // Constant after construction.
  const SharedChunks& weights_;
  const int64_t most_bytes_;
  const std::string name_;
  const Descriptor socket_, stop_, events_;

  // Of the thread.
  absl::flat_hash_map<int, std::unique_ptr<Guest>> guests_;  // By socket.
  int64_t came_ = 0;

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::flat_hash_map<std::string, std::string> invited_
      ABSL_GUARDED_BY(mu_);                               // Holders, by secret.
  std::deque<std::string> secrets_ ABSL_GUARDED_BY(mu_);  // In order; some are
                                                          // taken.
  absl::flat_hash_map<uint64_t, std::shared_ptr<const SharedLink>> links_
      ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SHARED_LINKS_H_

#ifndef SLUICE_COMMON_RPC_POLLING_H_
#define SLUICE_COMMON_RPC_POLLING_H_

namespace sluice {

// Makes each thread that serves a gRPC completion queue, or waits in a call,
// poll only the sockets of its own calls. By default one thread of the process
// polls all sockets. It then wakes for another thread's socket, hands the event
// over, and wakes a third thread to poll in the meantime. In a daemon with two
// such threads (sessions and bulk data) that doubles the context switches, and
// an update without delays takes a quarter longer.
//
// A wake-up costs about 0.1 us for each socket that the thread has. That is
// fine for hundreds of connections to a process, but not for tens of thousands.
//
// Call in `main`, before other threads exist and before gRPC is used. A value
// of gRPC's own GRPC_POLL_STRATEGY that the user has set is kept.
void PollQueuesApart();

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_POLLING_H_

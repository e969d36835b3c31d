#ifndef SLUICE_COMMON_RPC_POLLING_H_
#define SLUICE_COMMON_RPC_POLLING_H_

namespace sluice {

// Has each thread that serves a gRPC completion queue, or waits in a call,
// listen to the sockets of its own calls only. Unless told otherwise gRPC lets
// one thread of the process listen to all sockets: it wakes for what is
// another's, hands that over, and wakes a third thread to listen meanwhile. In
// daemons of two such threads (sessions and bulk data) this takes twice the
// context switches, and an update without delays a quarter longer.
//
// What a wake-up costs grows with the sockets that a thread has, by some 0.1 us
// each: for hundreds of connections to a process, no longer for tens of
// thousands.
//
// Call in `main`, before other threads exist and gRPC is used. Somebody who
// sets gRPC's own GRPC_POLL_STRATEGY has it so.
void PollQueuesApart();

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_POLLING_H_

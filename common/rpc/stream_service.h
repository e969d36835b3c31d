#ifndef SLUICE_COMMON_RPC_STREAM_SERVICE_H_
#define SLUICE_COMMON_RPC_STREAM_SERVICE_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include <initializer_list>

namespace sluice {

// A gRPC service of which every call is served as a stream in both directions,
// whatever its .proto file says; the bytes on the wire are the same. gRPC reads
// the request of a call that it knows to have one before it tells anybody of
// the call, up to the largest message there is; a stream it does not read
// unasked. So the caller can be judged first.
//
//   StreamService service{"/sluice.proto.Coordinator/Stop"};
//   builder.RegisterService(&service);
//   service.Accept(0, &context, &stream, queue, tag);
//
// Thread-safe.
class StreamService : public grpc::Service {
 public:
  // "/package.Service/Method" of each call; the first is number 0.
  StreamService(std::initializer_list<const char*> methods) {
    using grpc::internal::RpcMethod;
    int number = 0;
    for (const char* method : methods) {
      AddMethod(new grpc::internal::RpcServiceMethod(
          method, RpcMethod::BIDI_STREAMING, /*handler=*/nullptr));
      MarkMethodAsync(number++);
    }
  }

  // `tag` comes when a client makes the call of this number; false: the server
  // is shutting down. `stream` is a grpc::ServerAsyncReaderWriter on `context`.
  void Accept(int number, grpc::ServerContext* context,
              grpc::internal::ServerAsyncStreamingInterface* stream,
              grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(number, context, stream, queue, queue, tag);
  }
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_STREAM_SERVICE_H_

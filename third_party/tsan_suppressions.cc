// What ThreadSanitizer is not to report, each with its reason.

extern "C" {

const char* __tsan_default_suppressions() {
  return
      // Within these libraries the sanitizer sees calls of malloc and memcpy,
      // and nothing of what orders them.
      "called_from_lib:libabsl_cord.so\n"
      "called_from_lib:libabsl_cord_internal.so\n"
      "called_from_lib:libabsl_graphcycles_internal.so\n"
      "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
      "called_from_lib:libabsl_status.so\n"
      "called_from_lib:libabsl_strings.so\n"
      "called_from_lib:libabsl_synchronization.so\n"
      "called_from_lib:libabsl_time.so\n"
      "called_from_lib:libcrypto.so\n"
      "called_from_lib:libdnnl.so\n"
      "called_from_lib:libgpr.so\n"
      "called_from_lib:libgrpc++.so\n"
      "called_from_lib:libgrpc.so\n"
      "called_from_lib:libprotobuf.so\n"
      "called_from_lib:libssl.so\n"
      "called_from_lib:libupb.so\n"
      // The last to have an error frees its words, by a count within the
      // library.
      "race:Status::Unref\n"
      // gRPC lets go of a slice in whichever thread was the last to use it, by
      // a reference count that is not seen.
      "race:grpc_core::NewSliceRefcount::Destroy\n"
      // The words of an error are made in whichever thread of gRPC's notices it,
      // and read where the call ends.
      "race:grpc::internal::CallOpClientRecvStatus::FinishOp\n"
      // It destroys a finished stream in whichever thread ended its last
      // operation, by a count that is decremented within the library too. This
      // hides what a reactor's OnDone does as well.
      "race:ServerCallbackReaderWriterImpl::CallOnDone\n"
      "race:ServerCallbackReaderWriterImpl::~ServerCallbackReaderWriterImpl\n";
}
}

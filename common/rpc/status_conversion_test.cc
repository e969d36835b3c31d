#include "common/rpc/status_conversion.h"

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exchange_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"

namespace sluice {
namespace {

TEST(StatusConversionTest, EveryCodeAndItsMessageSurviveTheWayThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status) << code;
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), code);
  }
}

TEST(StatusConversionTest, AReasonSurvivesTheWay) {
  const absl::Status status = WithReason(proto::ExchangeError::VERSION_GONE,
                                         absl::AbortedError("version 7"));
  const absl::Status received = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(received, status);
  EXPECT_EQ(ReasonOf(received), proto::ExchangeError::VERSION_GONE);
  EXPECT_EQ(ReasonOf(absl::AbortedError("VERSION_GONE")),
            proto::ExchangeError::REASON_UNSPECIFIED);
}

// Refuses every call with the status that it is given.
class Refusing : public proto::Exchange::Service {
 public:
  grpc::Status Share(grpc::ServerContext*, const proto::ShareRequest*,
                     proto::ShareReply*) override {
    return ToGrpcStatus(status);
  }
  absl::Status status;
};

TEST(StatusConversionTest, AMessageOfAnyLengthGoesOverTheWire) {
  Refusing service;
  int port = 0;
  const auto server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                            &port)
          .RegisterService(&service)
          .BuildAndStart();
  const auto stub = proto::Exchange::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  const auto heard = [&](const absl::Status& status) {
    service.status = status;
    grpc::ClientContext context;
    proto::ShareReply reply;
    return FromGrpcStatus(stub->Share(&context, {}, &reply));
  };
  for (const std::string character : {"x", "%", "\n", "\u00e4", "\u20ac"}) {
    for (const int times : {1000, 4096, 100000}) {
      std::string text;
      for (int i = 0; i < times; ++i) text += character;
      const absl::Status plain = absl::AbortedError(text);
      const absl::Status reasoned =
          WithReason(proto::ExchangeError::NOT_YET, plain);
      for (const absl::Status& status : {plain, reasoned}) {
        const absl::Status received = heard(status);
        EXPECT_EQ(received.code(), status.code()) << received;
        EXPECT_EQ(ReasonOf(received), ReasonOf(status));
        std::string message(received.message());
        if (message == text) continue;
        EXPECT_GE(message.size(), 900);
        ASSERT_TRUE(absl::EndsWith(message, "..."));
        message.resize(message.size() - 3);
        EXPECT_EQ(message.size() % character.size(), 0) << "a character is cut";
        EXPECT_TRUE(absl::StartsWith(text, message));
      }
    }
  }
}

TEST(StatusConversionTest, DetailsThatCannotBeReadAreLeftOut) {
  EXPECT_EQ(FromGrpcStatus(
                grpc::Status(grpc::StatusCode::ABORTED, "why", "\xff\xff")),
            absl::AbortedError("why"));
}

TEST(StatusConversionTest, TheNamedCodesMeanTheSameOnBothSides) {
  EXPECT_EQ(ToGrpcStatus(absl::AbortedError("")).error_code(),
            grpc::StatusCode::ABORTED);
  EXPECT_EQ(ToGrpcStatus(absl::DataLossError("")).error_code(),
            grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(ToGrpcStatus(absl::UnauthenticatedError("")).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST(StatusConversionTest, ACodeNobodyKnowsBecomesUnknown) {
  const grpc::Status odd(static_cast<grpc::StatusCode>(20), "odd");
  EXPECT_EQ(FromGrpcStatus(odd), absl::UnknownError("odd"));
  const absl::Status strange(static_cast<absl::StatusCode>(77), "strange");
  EXPECT_EQ(ToGrpcStatus(strange).error_code(), grpc::StatusCode::UNKNOWN);
}

TEST(StatusConversionTest, OnlyAConnectionThatDidNotComeAboutHintsAtTls) {
  const auto said = [](const std::string& message) {
    const absl::Status status =
        FromFirstCall(grpc::Status(grpc::StatusCode::UNAVAILABLE, message));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    return std::string(status.message());
  };
  EXPECT_THAT(said("failed to connect to all addresses: Socket closed"),
              testing::EndsWith("is --tls missing?"));
  // A peer that dies, and one that is not there.
  for (const char* message :
       {"Socket closed", "failed to connect to all addresses: refused"}) {
    EXPECT_EQ(said(message), message);
  }
}

TEST(StatusConversionTest, AServerWithoutTheFirstCallIsSaidNotToBeTheLead) {
  const absl::Status status =
      FromFirstCall(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("is not the lead of a run (shard 0)"));
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/report/compute_times_writer.h"

#include <cstdio>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace sluice {
namespace {

class ComputeTimesWriterTest : public ::testing::Test {
 protected:
  ~ComputeTimesWriterTest() override {
    writer_.reset();
    std::remove(path_.c_str());
  }
  void Record(int64_t worker, double time, double now) {
    const Actions actions = {RecordComputeTime{WorkerId(worker), time}};
    EXPECT_TRUE(writer_->Record(actions, now).ok());
  }
  std::string Written() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string path_ = ::testing::TempDir() + "/compute_times.txt";
  std::unique_ptr<ComputeTimesWriter> writer_ =
      *ComputeTimesWriter::Create(path_);
};

TEST_F(ComputeTimesWriterTest, ALineHasTheMillisecondsAndTheWorker) {
  Record(3, 0.012345678, 0);
  Record(0, 2, 0);
  EXPECT_TRUE(writer_->Flush().ok());
  EXPECT_EQ(Written(), "12.345678 3\n2000.000000 0\n");
}

TEST_F(ComputeTimesWriterTest, OnlyWholeLinesAreEverThereAndSoonAll) {
  for (int i = 0; i < 1000; ++i) {
    Record(i, 1, 0.5);
    const std::string written = Written();
    EXPECT_TRUE(written.empty() || written.back() == '\n') << written;
  }
  EXPECT_FALSE(Written().empty());
  Record(1000, 1, 2);
  EXPECT_EQ(Written().substr(Written().size() - 17), "1000.000000 1000\n");
}

TEST_F(ComputeTimesWriterTest, WhatIsLeftIsWrittenWhenItGoes) {
  Record(1, 0.5, 0);
  writer_.reset();
  EXPECT_EQ(Written(), "500.000000 1\n");
}

TEST_F(ComputeTimesWriterTest, NamesAFileThatCannotBeMade) {
  const auto refused = ComputeTimesWriter::Create("/nowhere/times.txt");
  EXPECT_EQ(refused.status().message(),
            "/nowhere/times.txt: cannot be created: No such file or directory");
}

}  // namespace
}  // namespace sluice

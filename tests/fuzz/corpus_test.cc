// Runs every input of a fuzz target's corpus with the ordinary compiler: the
// seeds and earlier findings.

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sluice {
namespace {

TEST(CorpusTest, EveryInputKeepsTheTargetsPromises) {
  int inputs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SLUICE_FUZZ_CORPUS)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                           bytes.size());
    ++inputs;
  }
  EXPECT_GT(inputs, 0);
}

}  // namespace
}  // namespace sluice

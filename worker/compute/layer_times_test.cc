#include "worker/compute/layer_times.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

ResolvedJob Job(const std::string& model, const std::string& data) {
  const auto job = ParseJob("worker { micro_batch: 8 } stop { updates: 1 } " +
                                data + "model { " + model + " }",
                            "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

constexpr char kImages[] =
    "data { synthetic_images { channels: 3 height: 8 width: 8 classes: 10 "
    "train_samples: 64 test_samples: 8 } batch_size: 16 }";

std::vector<std::string> FirstLayers(const ResolvedJob& job,
                                     const std::vector<LayerTime>& times) {
  std::vector<std::string> names;
  for (const LayerTime& time : times) {
    names.push_back(job.model.layers[time.part.begin].name);
  }
  return names;
}

TEST(LayerTimesTest, EachPartThatCouldBeAStageTakesTime) {
  const ResolvedJob job =
      Job("layer { conv2d { channels: 8 kernel: 3 padding: 1 bias: false } } "
          "layer { batch_norm {} } layer { relu {} } "
          "layer { residual { layer { conv2d { channels: 8 kernel: 3 padding: "
          "1 } } layer { batch_norm {} } } } layer { max_pool { kernel: 2 } } "
          "layer { flatten {} } layer { dense { units: 10 } }",
          kImages);
  const auto times = MeasureLayers(job, absl::ZeroDuration(), /*at_once=*/2);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(FirstLayers(job, *times),
              ElementsAre("conv2d0", "batch_norm1", "residual3", "dense6"));
  EXPECT_EQ(times->back().part.end, job.model.layers.size());
  for (const LayerTime& time : *times) {
    EXPECT_THAT(time.forward, Gt(0)) << time.part.begin;
    EXPECT_THAT(time.backward, Gt(0)) << time.part.begin;
  }
}

// Of both passes by itself: a dense layer of 4096 x 1024 beside one of 4 x 10.
TEST(LayerTimesTest, AThousandTimesTheWorkTakesLonger) {
  const ResolvedJob job = Job(
      "layer { flatten {} } layer { dense { units: 1024 } } layer { dense { "
      "units: 1024 } } layer { dense { units: 4 } } layer { dense { units: "
      "10 } }",
      kImages);
  const auto times = MeasureLayers(job, absl::ZeroDuration());
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_THAT(FirstLayers(job, *times),
              ElementsAre("flatten0", "dense2", "dense3", "dense4"));
  EXPECT_GT((*times)[1].forward, (*times)[3].forward);
  EXPECT_GT((*times)[1].backward, (*times)[3].backward);
}

// Its gradient is final with the embedding's alone.
TEST(LayerTimesTest, ATiedOutputBelongsToTheWeightsBeforeIt) {
  const std::string path = ::testing::TempDir() + "/text";
  std::ofstream(path) << std::string(4096, 'a');
  const ResolvedJob job =
      Job("layer { embedding { features: 8 } } layer { layer_norm {} } layer { "
          "tied_output {} }",
          "data { text { train: \"" + path + "\" test: \"" + path +
              "\" length: 16 } batch_size: 16 }");
  const auto times = MeasureLayers(job, absl::ZeroDuration());
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_THAT(FirstLayers(job, *times),
              ElementsAre("embedding0", "layer_norm1"));
  EXPECT_EQ((*times)[1].part.end, 3);
  for (const LayerTime& time : *times) EXPECT_THAT(time.backward, Gt(0));
}

TEST(LayerTimesTest, AModelProcessHasNoLayers) {
  ResolvedJob job =
      Job("layer { flatten {} } layer { dense { units: 10 } }", kImages);
  job.job.mutable_model()->mutable_external();
  const auto times = MeasureLayers(job, absl::ZeroDuration());
  EXPECT_EQ(times.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(times.status().message(), HasSubstr("model.external"));
}

}  // namespace
}  // namespace sluice

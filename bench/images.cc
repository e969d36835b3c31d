// How fast do mini-batches of data.jpeg come, beside libjpeg-turbo alone?
//
// Expected from arithmetic: as fast or faster. The decoder needs some 10 ns a
// pixel, 1.9 ms for 500 x 375. A random part is half of an image on average,
// and what is above, below and beside it is not interpolated, converted or
// stored, and of what is below not even read. Resizing it to 224 x 224 costs
// about 4 products for each of its values along one axis, and for each of the
// result's along the other: 2 million, four at a time, 0.3 ms.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "bench/scratch_folder.h"
#include "common/clock.h"
#include "common/formats/image_list.h"
#include "worker/data/data_source.h"
#include "worker/data/jpeg_decoder.h"
#include "worker/data/testing/jpeg_writer.h"

namespace sluice::bench {
namespace {

struct Options {
  int images = 256;
  int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int rounds = 5;
  std::string folder = "/tmp";
  bool tiny = false;
  bool json = false;
};

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// A tree of pictures of 500 x 375 pixels, which goes with it.
class Tree {
 public:
  Tree(const std::string& folder, int images)
      : folder_(folder, "sluice_images") {
    std::filesystem::create_directories(folder_.path() + "/class");
    for (int i = 0; i < images; ++i) {
      std::ofstream(absl::StrCat(folder_.path(), "/class/", i, ".jpg"),
                    std::ios::binary)
          << WritePicture(375, 500, i, {.quality = 90});
    }
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  const ScratchFolder folder_;
};

// Every image is read and decoded whole, each thread its share.
void DecodeAll(const ImageList& list, int threads) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&list, t, threads] {
      JpegDecoder decoder;
      for (int64_t i = t; i < list.size(); i += threads) {
        const auto bytes = list.Bytes(i);
        Check(bytes.status());
        const auto size = decoder.Begin(*bytes);
        Check(size.status());
        Check(decoder.Decode({0, 0, size->height, size->width}).status());
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

double SecondsOf(const std::function<void()>& run) {
  const absl::Time begin = Clock::Real()->Now();
  run();
  return absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

int Main(Options options) {
  if (options.tiny) {
    options.images = 8;
    options.rounds = 1;
  }
  Report report("images",
                "How fast do mini-batches of data.jpeg come, beside the "
                "decoder alone?");
  const Tree tree(options.folder, options.images);
  const auto list = ImageList::Read({tree.folder()}, {"class"});
  Check(list.status());
  proto::Data data;
  proto::Jpeg& jpeg = *data.mutable_jpeg();
  jpeg.add_train(tree.folder());
  jpeg.add_test(tree.folder());
  jpeg.set_size(224);
  jpeg.set_resize(256);
  for (int c = 0; c < kJpegChannels; ++c) {
    jpeg.add_mean(0.45);
    jpeg.add_deviation(0.22);
  }
  jpeg.set_on_damage(proto::Jpeg::FAIL);
  data.mutable_augmentation()->set_horizontal_flip(true);
  data.mutable_augmentation()->mutable_random_resized_crop()->set_min_area(
      0.08);
  const ReadOptions reading = {
      .run = [&](int64_t, const std::function<void()>& work) {
        std::vector<std::thread> threads;
        for (int t = 1; t < options.threads; ++t) threads.emplace_back(work);
        work();
        for (std::thread& thread : threads) thread.join();
      }};
  const auto train = OpenDataSource(data, Split::kTrain, 1, reading);
  Check(train.status());
  const auto test = OpenDataSource(data, Split::kTest, 1, reading);
  Check(test.status());

  std::vector<int64_t> indices(options.images);
  std::iota(indices.begin(), indices.end(), 0);
  Batch batch;
  std::vector<double> decoder, random, centre;
  for (int round = 0; round < options.rounds; ++round) {
    decoder.push_back(SecondsOf([&] { DecodeAll(*list, options.threads); }));
    batch.id = BatchId(round);
    random.push_back(
        SecondsOf([&] { Check((*train)->Gather(indices, &batch)); }));
    centre.push_back(
        SecondsOf([&] { Check((*test)->Gather(indices, &batch)); }));
  }
  for (const auto& [what, seconds] :
       {std::pair{"random parts, mirrored", random}, {"centres", centre}}) {
    report.Add({what,
                "images/s",
                "libjpeg-turbo, whole images",
                options.images / Median(decoder),
                options.images / Median(seconds),
                {{"threads", static_cast<double>(options.threads)}}});
  }
  report.Note(absl::StrCat(options.images,
                           " images of 500 x 375 pixels, to 224 x "
                           "224 floats of 3 channels; median of ",
                           options.rounds));
  report.Print(options.json);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Options options;
  CLI::App app("How fast do mini-batches of data.jpeg come?");
  app.add_option("--images", options.images, "In a mini-batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "That decode")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "Of which the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder, "With room for the images");
  app.add_flag("--tiny", options.tiny, "As small as it goes");
  app.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  return sluice::bench::Main(options);
}

#include "kernels/testing/sequence_cases.h"

#include "absl/strings/str_cat.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {

int64_t AttentionCase::operations() const {
  return 2 * 2 * samples * shape.heads * shape.length * shape.length *
         shape.head_size;
}

std::vector<EmbeddingCase> EmbeddingCases() {
  std::vector<EmbeddingCase> cases;
  const auto add = [&](int64_t samples, const EmbeddingShape& s,
                       bool benchmark = false) {
    cases.push_back(
        {absl::StrCat("embedding ", s.vocabulary, " to ", s.features,
                      ", length ", s.length, " n", samples),
         s, samples, benchmark});
  };
  // length, vocabulary, features.
  add(0, {3, 5, 2});
  add(1, {1, 1, 1});
  add(2, {31, 5, 3});
  add(3, {32, 7, 33});
  add(5, {4, 300, 8});  // More tokens than places.
  add(7, {33, 3, 64});
  add(2, {257, 2, 31});
  add(1, {5, 2, 127});
  add(16, {128, 256, 128}, /*benchmark=*/true);
  return cases;
}

std::vector<LayerNormCase> LayerNormCases() {
  std::vector<LayerNormCase> cases;
  const auto add = [&](int64_t samples, const LayerNormShape& s,
                       bool benchmark = false) {
    cases.push_back({absl::StrCat("layer_norm ", s.rows, "x", s.features, "x",
                                  s.pixels, " in ", s.groups, " n", samples),
                     s, samples, benchmark});
  };
  // rows, features, epsilon; one or two numbers a row may be equal.
  add(0, {2, 3, 1e-5});
  add(1, {1, 1, 0.5});
  add(3, {1, 2, 0.5});
  add(31, {1, 5, 1e-3});
  add(2, {3, 31, 1e-5});
  add(1, {5, 32, 1e-5});
  add(3, {2, 33, 1e-5});
  add(5, {3, 127, 1e-5});
  add(2, {4, 132, 1e-5});
  add(2, {1, 1025, 1e-5});
  add(90, {3, 8, 1e-5});
  add(16, {128, 128, 1e-5}, /*benchmark=*/true);
  // Group norm: one row, channels, epsilon, groups, pixels.
  add(0, {1, 4, 1e-5, 2, 3});
  add(2, {1, 3, 0.5, 3, 1});
  add(1, {1, 4, 0.5, 2, 1});
  add(3, {1, 2, 1e-5, 1, 31});
  add(2, {1, 6, 1e-5, 3, 32});
  add(1, {1, 6, 1e-5, 2, 33});
  add(2, {1, 32, 1e-5, 32, 25});  // Of a channel each.
  add(3, {1, 16, 1e-5, 2, 49});   // Of packs of channels.
  add(2, {1, 20, 1e-5, 5, 4});
  add(1, {1, 2, 1e-5, 2, 1025});
  add(70, {1, 8, 1e-5, 2, 5});
  return cases;
}

std::vector<AttentionCase> AttentionCases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](int64_t samples, const AttentionShape& s,
                       bool benchmark = false) {
    cases.push_back({absl::StrCat("attention ", s.heads, "x", s.head_size,
                                  ", length ", s.length, " n", samples),
                     s, samples, benchmark});
  };
  // length, heads, head_size.
  add(0, {3, 1, 2});
  add(1, {1, 1, 1});
  add(2, {5, 1, 3});
  add(1, {31, 2, 4});
  add(3, {32, 1, 8});
  add(2, {8, 2, 8});
  add(2, {33, 3, 5});
  add(5, {4, 2, 16});
  add(1, {65, 1, 1});
  add(1, {8, 1, 67});
  add(16, {128, 4, 32}, /*benchmark=*/true);
  return cases;
}

std::vector<double> Tokens(const EmbeddingCase& c) {
  const auto tokens = Labels(c.samples * c.shape.length, c.shape.vocabulary, 7);
  return std::vector<double>(tokens.begin(), tokens.end());
}

}  // namespace sluice::kernels
